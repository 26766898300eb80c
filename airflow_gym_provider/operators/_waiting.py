"""Waiting for a chain's job: in the triggerer, or right here. The same follower serves both."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.slurm.progress import Progress
from airflow_gym_provider.triggers.events import EventReason, job_event
from airflow_gym_provider.triggers.follow import Follower
from airflow_gym_provider.triggers.live import LiveWord
from airflow_gym_provider.triggers.observe import look_here
from airflow_gym_provider.triggers.slurm import EVENT_AFTER, SlurmJobTrigger

if TYPE_CHECKING:
    from airflow_gym_provider.operators._chain import ChainTask, Waiting

_LONGEST_INTERVAL = 600.0


def make_trigger(chain: ChainTask, waiting: Waiting) -> SlurmJobTrigger:
    """The trigger that waits for this job and can cancel it."""
    plan, cluster = chain.here()
    arguments = chain.arguments
    floor = cluster.hook.poll_floor
    if arguments.poll_interval < floor:
        chain.log.info(
            "looking every %g s, not every %g s: the connection's extra poll_interval says so",
            floor,
            arguments.poll_interval,
        )
    return SlurmJobTrigger(
        job_ids=[waiting.job_id],
        ssh_conn_id=arguments.ssh_conn_id,
        hostname=cluster.hook.needed_hostname,
        poll_interval=arguments.poll_interval,
        deadline=chain.deadline,
        lost_after=arguments.lost_after,
        submitted_at=waiting.submitted_at,
        job_dir=plan.job_dir,
        job_name=plan.job_name,
        benchmark=plan.benchmark,
        rollouts_path=plan.spec.rollouts_path if plan.spec.judged_by == "rollouts" else None,
        follow_log=arguments.follow_log,
        not_before=time.time() + EVENT_AFTER,
        max_tries=chain.context["ti"].max_tries,
    )


def wait_here(chain: ChainTask, waiting: Waiting) -> dict[str, Any]:
    """Wait in this process until the trigger would have fired; its event."""
    trigger, hook = make_trigger(chain, waiting), chain.here()[1].hook
    refs = trigger.refs()
    progress = {ref.key: Progress(trigger.rollouts_path) for ref in refs} if trigger.rollouts_path else {}
    tails, words = trigger.tails(), [LiveWord(ref) for ref in refs]
    follower, failures = Follower(refs, trigger.lost_after), 0
    interval = max(trigger.poll_interval, hook.poll_floor)
    while True:
        pause = min(interval * 2.0**failures, _LONGEST_INTERVAL) * (1 - random.uniform(0, 0.2))  # noqa: S311
        rest = float("inf") if chain.deadline is None else chain.deadline - time.time()
        chain.sleep(max(0.0, min(max(pause, interval), rest)))
        if rest <= interval and chain.deadline is not None and time.time() >= chain.deadline:
            return dict(job_event(EventReason.DEADLINE))
        look = look_here(hook, refs, progress, tails)
        progress.update(look.progress)
        for key, news in look.tails.items():
            tails.pop(key) if news.refused else tails.update({key: news.tail})
        failures = min(failures + 1, 20) if look.slow_down else 0
        for word in words:
            word.tell_here(chain.context["ti"], look)
        lines, event = follower.see(look, time.monotonic())
        for line in lines:
            chain.log.log(line.level, "%s", line.text)
        if event is not None:
            return dict(event)
