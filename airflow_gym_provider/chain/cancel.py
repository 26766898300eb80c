"""The end of chains on somebody's request. Asking never raises: whoever kills a task wants a report, not an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_gym_provider.chain.place import DEFAULT_TIMING, ChainPlace, Timing
from airflow_gym_provider.chain.program import place_settings, program, settings
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm.commands import check_cluster, check_id
from airflow_gym_provider.slurm.keys import cluster_of, job_key, number_of
from airflow_gym_provider.slurm.remote import Answer, Frame, RemoteScript

_ENDED = re.compile(r"already completing or completed|Invalid job id specified", re.IGNORECASE)
_ROUNDS = 6


@dataclass(frozen=True)
class CancelReport:
    """What came of a cancel: ids that scancel ended, ids that had already ended, ids that still live, and trouble."""

    cancelled: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def text(self) -> str:
        """One line for a log."""
        parts = [
            f"cancelled job {', '.join(self.cancelled)}" if self.cancelled else "",
            f"job {', '.join(self.ended)} had already ended" if self.ended else "",
            f"job {', '.join(self.left)} was still there at the last look" if self.left else "",
            self.trouble,
        ]
        return "; ".join(part for part in parts if part) or "no job was found to cancel"


def cancel_script(
    places: Sequence[ChainPlace],
    why: str,
    *,
    job_ids: Mapping[str, Sequence[str]] | Sequence[Sequence[str]] | None = None,
    clusters: Sequence[str] = (),
    quick: bool = False,
    timing: Timing = DEFAULT_TIMING,
    slurm_bin: str | None = None,
    login_profile: bool = False,
) -> RemoteScript:
    """The script that ends what lives of these chains, and marks that this was wanted, with `why`.

    `job_ids`: by benchmark, or one entry for each place, its newest job as "id" or "id;cluster", when the caller knows
    it; else the chain's last.
    All of them are cancelled before anything else is asked; then squeue is asked by name, so that a job that was just
    being submitted cannot slip through. `quick` stops after that one look (for a kill that leaves five seconds), else
    it is repeated until nothing is left, for some ten seconds. The script goes on when its client has gone.
    """
    known = job_ids or {}
    given = [known.get(place.benchmark, ()) for place in places] if isinstance(known, Mapping) else known
    first = [_target(index, place, ids) for index, (place, ids) in enumerate(zip(places, given, strict=True))]
    rest = [settings(place_settings(index, place)) for index, place in enumerate(places)]
    calls = [
        f"gym_why={quote(' '.join(why.split()))}",
        "local -a gym_done=() gym_given=()",
        *(f"{target}\ngym_cancel_known" for target in first),
        "gym_rest() {\nlocal left=0",
        *(f"{target}\ngym_cancel_rest || left=1" for target in rest),
        'return "$left"\n}',
        "gym_rest || :" if quick else f"for _ in {{1..{_ROUNDS}}}; do gym_rest && break; sleep 2; done",
    ]
    body = program(("cancel",), {}, clusters, timing, calls)
    return RemoteScript.build(body, slurm_bin=slurm_bin, login_profile=login_profile, needs=("scancel", "squeue"))


def read_cancel(script: RemoteScript, answer: Answer, places: Sequence[ChainPlace]) -> dict[str, CancelReport]:
    """What the answer to `cancel_script` says, by benchmark, as far as it came. Never raises."""
    reports = read_cancels(script, answer, len(places))
    return {place.benchmark: report for place, report in zip(places, reports, strict=True)}


def read_cancels(script: RemoteScript, answer: Answer, count: int) -> list[CancelReport]:
    """As `read_cancel`, one for each of `count` places: those of several runs may have benchmarks of one name."""
    frames = script.frames(answer.stdout)
    broken = "" if frames.complete else frames.error or "the answer was cut off"
    return [_report([frame for frame in frames if frame.arg(0) == str(index)], broken) for index in range(count)]


def _report(frames: Sequence[Frame], broken: str) -> CancelReport:
    cancelled: dict[str, None] = {}
    ended: dict[str, None] = {}
    left: tuple[str, ...] = ()
    troubles: list[str] = []
    for frame in frames:
        text = " ".join(frame.text.split())
        over = frame.name == "scancel" and bool(_ENDED.search(text))
        if frame.name == "left":
            left = frame.args[1:]
        elif frame.name == "trouble":
            troubles.append(text)
        elif not over and frame.arg(1) != "0":
            troubles.append(f"scancel: {text or 'exit status ' + frame.arg(1)}")
        else:
            for job_id in frame.args[2:]:
                (ended if over and _names(text, job_id) else cancelled)[job_id] = None
    everything = [*troubles, broken] if broken else troubles
    return CancelReport(tuple(cancelled), tuple(ended), left, "; ".join(dict.fromkeys(everything)))


def _names(text: str, job_id: str) -> bool:
    """Whether scancel's complaint is about this job: it names the job, or names none."""
    named = re.findall(r"job id (\d+)", text)
    return not named or job_id in named


def _target(index: int, place: ChainPlace, ids: Sequence[str]) -> str:
    words = []
    for word in ids:
        cluster = cluster_of(word)
        words.append(quote(job_key(check_id(number_of(word)), check_cluster(cluster) if cluster else None)))
    return f"{settings(place_settings(index, place))}\ngym_given=({' '.join(words)})"
