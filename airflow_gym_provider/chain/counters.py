"""The chain's counters in its directory, for people and tools that know them."""

from __future__ import annotations

from airflow_gym_provider.chain.place import DEFAULT_TIMING, ChainPlace
from airflow_gym_provider.chain.program import place_settings, program, settings
from airflow_gym_provider.slurm.remote import RemoteScript


def counters_script(place: ChainPlace, used: int, retries: int) -> RemoteScript:
    """The script that writes `used` (seconds) and `retries` after the last job of a resumable chain.

    Submissions keep the counters as of the jobs before; this makes them final. Trouble with it changes nothing else:
    it needs no reader.
    """
    values = settings(place_settings(0, place))
    body = program(("submit",), {}, (), DEFAULT_TIMING, [values, f'gym_count "{used:d} {retries:d}"'])
    return RemoteScript.build(body, needs=())
