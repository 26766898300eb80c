"""Every benchmark of a config, queued once: what GymSubmitOperator does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.chain import ForeignDirectoryError, run_dir
from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators import _config
from airflow_gym_provider.operators._anew import MAX_ANEW
from airflow_gym_provider.operators._arguments import SubmitArguments
from airflow_gym_provider.operators._memory import ChainMemory, clear_number
from airflow_gym_provider.operators._plan import chain_key, check_stayed
from airflow_gym_provider.operators._queue import AskedOtherwiseError, RunQueue
from airflow_gym_provider.storable import storable

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_REFUSED = "refused"


def submit_all(arguments: SubmitArguments, context: Context, log: Any) -> dict[str, Any]:
    """Queue what is not queued yet and return the record. Raises as ChainRetryPolicy expects."""
    memory = ChainMemory.of(context)
    fresh, cleared = not memory.max_tries, memory.begin(context, arguments.retries, time.time())
    if cleared:
        memory.place.pop(_REFUSED, None)
    whole = _config.whole_environ(arguments.environ)
    config = _config.load_config(
        arguments.config, arguments.overrides, whole, context, log, ssh_conn_id=arguments.ssh_conn_id
    )
    names = _names(config, arguments.benchmark)
    with SlurmHook(arguments.ssh_conn_id, config.cluster.hostname) as hook:
        hook.load()
        open_run = partial(_open, context, memory, config, hook, log)
        run = open_run()
        if fresh and cleared and run.are_over(names):
            # a green task was cleared after its memory had been purged: what has ended is not what is wanted
            memory.renew(clear_number(context, arguments.retries))
            run = open_run()
        # What was refused for good is remembered: a retry for the others does not ask for it again.
        errors: dict[str, str] = memory.place.setdefault(_REFUSED, {})
        own, memory.own = memory.own, True
        try:
            run = _queued(
                run, open_run, memory, lambda one: one.queue(names, _config.forwarded(config, whole), errors), log
            )
        except ForeignDirectoryError:
            memory.own = own
            raise
        finally:
            memory.save()
        record: dict[str, Any] = storable(run.record([name for name in names if name not in errors]))
    context["ti"].xcom_push(key="return_value", value=record)
    if errors:
        raise AirflowFailException("\n".join(f"{name}: {error}" for name, error in errors.items()))
    memory.succeed()
    return record


def _queued(
    run: RunQueue, open_run: Callable[[], RunQueue], memory: ChainMemory, queue: Callable[[RunQueue], None], log: Any
) -> RunQueue:
    """Where all is queued in the end: where jobs have ended that were asked for otherwise, in another directory."""
    try:
        queue(run)
        return run
    except AskedOtherwiseError as err:
        if err.live or memory.anew >= MAX_ANEW:
            raise
        log.warning("%s: starting anew, in another directory", err)
    refused = memory.place[_REFUSED]
    memory.leave()
    memory.place[_REFUSED], memory.own = refused, True
    run = open_run()
    queue(run)
    return run


def _names(config: SubmitConfig, wanted: str | Sequence[str] | None) -> list[str]:
    if not wanted:
        return list(config.driver.benchmarks)
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    return [_config.pick_benchmark(config, name) for name in names]


def _open(context: Context, memory: ChainMemory, config: SubmitConfig, hook: SlurmHook, log: Any) -> RunQueue:
    key = chain_key(context, memory, None)
    try:
        place = run_dir(config.job.output_path, key, context["dag_run"].run_after)
    except ValueError as err:
        raise AirflowFailException(f"The submit config cannot be used: {err}") from None
    check_stayed(place, memory.asked)
    memory.asked = place
    memory.save()
    extra = {"submitter": "airflow", "dag_id": key.dag_id, "run_id": key.run_id}
    return RunQueue(hook, config, key=key, run_dir=place, extra=extra, log=log)
