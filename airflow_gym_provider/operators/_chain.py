"""One try of one chain: make sure that exactly one job exists, wait for it, and look at how it ended.

One try of the task is one Slurm job. What happened is read from the cluster each time; nothing here is decided from
memory alone. Everything that goes on in a later try leaves as ChainRetry, everything that is over as ChainStopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.chain import Action, ChainError, OutcomeKind, StagedFile, Submission, decide
from airflow_gym_provider.chain.endings import PROGRESS
from airflow_gym_provider.chain.place import TASK_FILE
from airflow_gym_provider.exceptions import ChainRetry, ChainStopped
from airflow_gym_provider.operators import _config, _submit
from airflow_gym_provider.operators._anew import AskedChain
from airflow_gym_provider.operators._arguments import EvalArguments
from airflow_gym_provider.operators._evidence import Evidence, check_there, check_way, gather
from airflow_gym_provider.operators._finish import finished
from airflow_gym_provider.operators._memory import MAX_SILENT, ChainMemory
from airflow_gym_provider.operators._plan import ChainPlan
from airflow_gym_provider.operators._reading import check_read, read_rollouts
from airflow_gym_provider.operators._results import log_tails, place_values, result_values
from airflow_gym_provider.operators._timeline import chain_values, leave_chain
from airflow_gym_provider.slurm.keys import cluster_of
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.triggers.events import EventReason, reason_of

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_LONGEST_SLEEP = 120
_LONGEST_FREE_DELAY = 30.0
_RESULT_LOOKS = 5.0
_LOOKS = 100
_UNCLEAR = 3
"""Most calls of sbatch in one try of which nobody knows what they did."""
_QUIET_ENDINGS = (Ending.TIMEOUT, Ending.PREEMPTED, Ending.NODE_FAIL)
_FREE_ENDINGS = (*_QUIET_ENDINGS, Ending.CANCELLED, Ending.LOST, None)


@dataclass(frozen=True)
class Waiting:
    """There is a job, and it has to be waited for. `job_id` as sbatch answers, "60" or "60;c2"."""

    job_id: str
    submitted_at: float | None = None


class ChainTask(AskedChain):
    """What the try that holds a chain does with it."""

    def __init__(self, arguments: EvalArguments, context: Context, log: Any) -> None:
        super().__init__(arguments, context, log)
        self._unknown_for = 0.0
        self._unclear = 0
        self._told_ended = False
        self._results_since: float | None = None
        self._place_is_known = False

    # -- ways in --------------------------------------------------------------------------------------------------

    def start(self) -> Waiting | dict[str, Any]:
        """A new try: the result when everything is there already, else the job to wait for."""
        fresh = not self.memory.max_tries
        cleared = self.memory.begin(self.context, self.arguments.retries, time.time())
        self.store_was_lost = fresh and cleared
        # what was cleared may have been expanded anew: a benchmark then has another map index, perhaps a new one
        if cleared or (fresh and getattr(self.context.get("dag_run"), "clear_number", 0)):
            self.memory.takes_over = True
        if self.memory.starts > MAX_SILENT:
            raise ChainStopped(
                f"{MAX_SILENT} tries in a row were killed before they had a job: look at the worker (memory?), clear"
            )
        self.prepare()
        self._check_time()
        return self._advance(may_submit=True)

    def resume(self, plan: Mapping[str, Any], event: Mapping[str, Any] | None) -> Waiting | dict[str, Any]:
        """After a trigger's event, which only wakes: the cluster is asked. `plan` as `ChainPlan.as_dict` gave it.

        Without one it is as remembered: `dag.test()` and `airflow tasks test` hand an event alone to what they wake.
        """
        if self.plan is None:
            self.plan = ChainPlan.from_dict(plan or self.memory.place["plan"])
            self.cluster = self.reach(self.plan)
            self._place_is_known = True  # pushed before the deferral, by this same try
            self.mask()
        return self.go_on(event)

    def go_on(self, event: Mapping[str, Any] | None) -> Waiting | dict[str, Any]:
        """What comes after an event."""
        reason, text = reason_of(dict(event or {})), str((event or {}).get("text", ""))
        if reason is EventReason.REFUSED:
            raise ChainStopped(
                f"{text}. The Slurm job goes on: repair the connection, clear this task, and it is taken up again"
            )
        if reason is EventReason.DEADLINE:
            return self._out_of_time(text)
        self._told_ended = reason is EventReason.ENDED
        # How long is long enough was the operator's to say (lost_timeout), and the trigger's to measure.
        self._unknown_for = math.inf if reason is EventReason.LOST else 0.0
        self.check_killed()
        done = finished(self.here()[1], event)
        if done is not None:
            look, verdict = done
            decision = decide(look.history(), self.here()[0].bounds, verdict)
            self.log.info("%s", decision.reason)
            seen = Evidence(look, verdict, 0, decision, ours=False)
            if decision.action is Action.DONE and not self.otherwise(seen):
                return self._green(seen)
        return self._advance(may_submit=False)

    # -- going on -------------------------------------------------------------------------------------------------

    def _advance(self, *, may_submit: bool) -> Waiting | dict[str, Any]:
        said = ""
        for _ in range(_LOOKS):
            seen = self._look()
            if seen.decision.reason != said:
                said = seen.decision.reason
                self.log.info("%s", said)
            self._check_owner(seen)
            if seen.decision.action is Action.DONE:
                if not self.begin_anew(seen):
                    return self._green(seen)
                if not may_submit:
                    raise ChainRetry("starting anew, in another directory", self._soon())
                continue
            step = self._act(seen, may_submit=may_submit)
            if step is not None:
                return step
        raise ChainRetry(f"{seen.decision.reason}; that did not change in {_LOOKS} looks", passing=True)

    def _act(self, seen: Evidence, *, may_submit: bool) -> Waiting | None:
        """Do what was decided; None to look again."""
        decision = seen.decision
        check_there(seen, self.memory.held, self.here()[1])
        check_way(seen, self.memory, self.here()[1])
        if decision.action is Action.ADOPT:
            return self._adopt(seen)
        if decision.action is Action.SUBMIT:
            if not may_submit:
                self._again(seen)
            if self.leave_other(seen):
                return None
            self.remember_wanted()
            return self._submit(seen)
        if decision.action is Action.STOP:
            if seen.ours and not self.here()[0].bounds.resumable:
                self._run_again(seen, may_submit=may_submit)
                return None
            self._red(seen)
        if decision.action is Action.WAIT:
            return self._wait(seen)
        return None

    def _run_again(self, seen: Evidence, *, may_submit: bool) -> None:
        """Airflow ended a try, so its job was cancelled, and wants another: no failure of the benchmark."""
        if not may_submit:
            raise ChainRetry(f"{seen.decision.reason.split(';')[0]}; starting again", self.arguments.retry_delay)
        self.memory.budget_base = len(seen.look.jobs)
        self.memory.save()

    def _look(self) -> Evidence:
        self.check_killed()
        settled = self._results_since is not None and self._results_left() <= 0
        cluster = self.here()[1]
        seen = gather(cluster, self.memory, self.log, unknown_for=self._unknown_for, settled=settled)
        self.check_killed()
        return seen

    @property
    def _task_name(self) -> str:
        """This task among those of its DAG run."""
        ti: Any = self.context["ti"]
        return ti.task_id if ti.map_index is None or ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]"

    def _check_owner(self, seen: Evidence) -> None:
        """Raise ChainStopped for a chain that is another task's, which may have asked for another model."""
        owner = seen.look.task
        if owner and owner != self._task_name and seen.look.jobs and not self.memory.takes_over:
            plan, _ = self.here()
            raise ChainStopped(
                f"{plan.job_dir} and its jobs are those of the task {owner} in this DAG run. Two tasks that evaluate "
                f"{plan.benchmark} need run directories of their own: give them another run_group, or none"
            )

    def _adopt(self, seen: Evidence) -> Waiting | None:
        """A live job is held whatever else goes wrong; the next look finds it by its name again."""
        self.warn_of_other_job(seen.look, seen.decision.job_id)
        if seen.look.found:
            try:
                return self._submit(seen)
            except ChainError as err:
                self.log.warning("job %s is waited for, but could not be recorded: %s", seen.decision.job_id, err)
        return self._wait_for(seen)

    # -- submitting -----------------------------------------------------------------------------------------------

    def _submit(self, seen: Evidence) -> Waiting | None:
        plan, cluster = self.here()
        config = self.config or self.load()
        forwarded = _config.forwarded(config, _config.whole_environ(self.arguments.environ))
        # Also for its log's end, which is shown when its secrets may be others than the worker then knows.
        secrets = {*config.secret_values(), *forwarded.values()}
        hidden = secrets if secrets or self.arguments.follow_log else None
        submission = Submission(
            plan.place,
            (*_submit.job_files(config, plan.benchmark, plan.job_dir, hidden), StagedFile(TASK_FILE, self._task_name)),
            seen=seen.look.seen,
            # one that is to be recorded alone, and has ended meanwhile, is looked at before another one is made
            found=() if seen.decision.action is Action.ADOPT else seen.look.found,
            walltime=seen.decision.walltime,
            used=seen.decision.used,
            retries=seen.decision.retries,
            before=seen.decision.before,
            resumable=plan.bounds.resumable,
        )
        extra = {"submitter": "airflow", "dag_id": plan.key["dag_id"], "run_id": plan.key["run_id"]}
        run = _submit.run_files(config, plan.run_dir, plan.chain_key, extra)
        self._remember_asking(plan.job_dir)
        report = _submit.submit(cluster.hook, config, run, [submission], forwarded)
        for note in report.notes:
            self.log.warning("%s", note)
        outcome = report.outcomes[plan.benchmark]
        self.check_killed()
        if outcome.kind is OutcomeKind.ADOPTED and not seen.look.found and not seen.look.ids:
            return None  # somebody was faster: whose job it is shows the next look
        if outcome.kind in (OutcomeKind.REFUSED, OutcomeKind.FAILED) and not seen.look.found:
            self._remember_asking("")
        job_id = _submit.settle(config, outcome)
        if outcome.text:
            self.log.info("%s", outcome.text)
        if job_id is None:
            self._unclear += outcome.returncode is not None and outcome.kind is OutcomeKind.WAIT
            if self._unclear >= _UNCLEAR:  # slurmctld is not well: with growing pauses, and without this worker
                raise ChainRetry(config.hide(outcome.text), passing=True)
            self.sleep(outcome.wait or 1)
            return None
        return self._note(Waiting(job_id), seen)

    def _remember_asking(self, job_dir: str) -> None:
        """Before sbatch is asked: a try that finds another directory in the config must not ask for a second job. Nor
        must a worker that was given up, when another one has begun anew meanwhile. Raises ChainRetry then.
        """
        if job_dir and ChainMemory.of(self.context).generation > self.memory.generation:
            raise ChainRetry("another worker has taken over this task, and begun anew", passing=True)
        self.memory.asked = job_dir
        self.memory.save()

    def _note(self, waiting: Waiting, seen: Evidence) -> Waiting:
        """Make the job known to people and later tries before anything else happens."""
        cluster = cluster_of(waiting.job_id)
        clusters = {*self.memory.place.get("clusters", ()), *([cluster] if cluster else [])}
        self.memory.place |= {"job_id": waiting.job_id, "clusters": sorted(clusters)}
        self.memory.held, self.memory.way = waiting.job_id, self.here()[1].hook.where
        self.memory.starts, self.memory.own = 0, True
        if seen.newest is None or seen.newest.known:
            self.memory.outages = self.memory.unseen = 0
        self.store_was_lost = False  # what this job makes is this try's
        self.memory.save()
        self._show_place(waiting.job_id)
        self._leave_chain(seen, waiting.job_id)
        return waiting

    def _show_place(self, job_id: str) -> None:
        """Where the job is, for people, links and pages."""
        plan, _ = self.here()
        ti: Any = self.context["ti"]
        ti.xcom_push(key=xcom_keys.JOB, value=place_values(plan, job_id) | {"max_tries": ti.max_tries})
        self._place_is_known = True
        self.log.info("job %s in %s; its logs will be in %s/logs", job_id, plan.job_dir, plan.job_dir)

    # -- waiting --------------------------------------------------------------------------------------------------

    def _leave_chain(self, seen: Evidence, submitted: str | None = None) -> None:
        """For the pages; see `_timeline`. A try that only finds how the chain ended says where that is as well."""
        if seen.look.jobs and not self._place_is_known:
            self._show_place(seen.look.jobs[-1].ref.key)
        values = chain_values(self.here()[0], seen.look.jobs, seen.base, seen.decision, submitted)
        leave_chain(self.context["ti"], values)

    def _wait_for(self, seen: Evidence) -> Waiting:
        job = next(job for job in reversed(seen.look.jobs) if job.ref.job_id == seen.decision.job_id)
        return self._note(Waiting(job.ref.key, job.ref.submitted_at), seen)

    def _wait(self, seen: Evidence) -> Waiting | None:
        """WAIT: for results here, for a job in the trigger, for Slurm in a later try."""
        newest = seen.newest
        if newest is not None and newest.ending is Ending.COMPLETED and seen.look.wait is None:
            if self._results_since is None:
                self._results_since = time.monotonic()
            elif self._results_left() <= 0:  # they cannot be read: that says nothing about them
                raise ChainRetry(seen.decision.reason, passing=True)
            self.sleep(max(0.0, min(_RESULT_LOOKS, self._results_left())))
            return None
        if newest is not None and not newest.known and seen.look.wait is None:
            if self._told_ended and newest.live and not newest.runaway:
                self.memory.unseen += 1
                self.memory.save()
                if self.memory.unseen > 1:  # trigger and task would wake each other, as fast as they can
                    raise ChainRetry(seen.decision.reason, passing=True)
            return self._wait_for(seen)
        seconds = seen.decision.wait or 1
        if newest is not None or seconds > _LONGEST_SLEEP:
            raise ChainRetry(seen.decision.reason, float(seconds))
        self.sleep(seconds)
        return None

    def _results_left(self) -> float:
        since = self._results_since or time.monotonic()
        return self.arguments.results_timeout - (time.monotonic() - since)

    @property
    def deadline(self) -> float | None:
        """When the task's time is over, in seconds since 1970: `execution_timeout` after the chain's first start."""
        if self.arguments.execution_timeout is None:
            return None
        return (self.memory.first_start or time.time()) + self.arguments.execution_timeout

    def _check_time(self) -> None:
        if self.deadline is not None and time.time() >= self.deadline:
            self._out_of_time("")

    def _out_of_time(self, text: str) -> dict[str, Any]:
        """Cancel what lives, then fail: unless it finished in the last moment."""
        seen = self._look()
        told = ""
        if seen.decision.action is Action.DONE and not (told := self.otherwise(seen)):
            try:
                return self._green(seen)
            except ChainRetry as err:
                told = err.reason  # the last chance to read its rollouts was this one
        # of a submission that was cut off a job may show later: the mark is there for an sbatch that is still at work
        if seen.look.wait is not None or any(job.live for job in seen.look.jobs):
            text = self.here()[1].cancel("execution_timeout is over", [job.ref.key for job in seen.look.jobs[-1:]])
        if seen.look.wait is not None:
            text += f". A submission was cut off: see that no job {self.here()[0].job_name} shows later"
        self._leave_chain(seen)
        limit = self.arguments.execution_timeout or 0
        raise ChainStopped(f"execution_timeout of {limit:g} s since the first start is over. {told or text}".rstrip())

    # -- ways out -------------------------------------------------------------------------------------------------

    def _green(self, seen: Evidence) -> dict[str, Any]:
        """The end of a chain that is done by the lines of its results, once these were read. Raises as `check_read`."""
        plan, cluster = self.here()
        self._warn_of_steps(seen)
        self._leave_chain(seen)
        cluster.count(seen.decision)
        read, summary = read_rollouts(seen, cluster, self.log)
        if read.decision.reason != seen.decision.reason:
            self._leave_chain(read)
        check_read(read, plan, self.memory)
        self.memory.succeed()
        return result_values(plan, read.look, read.verdict, read.base, summary)

    def _again(self, seen: Evidence) -> NoReturn:
        self._warn_of_steps(seen)
        self._leave_chain(seen)
        self._show_logs(seen)
        delay, newest = self.arguments.retry_delay, seen.newest
        if newest is not None and newest.missing:
            self.memory.lost = newest.ref.key
            self.memory.save()
        if newest is None or newest.ending in _FREE_ENDINGS or newest.exit_code == PROGRESS:
            delay = self._soon()  # nothing went wrong that time would mend
        raise ChainRetry(seen.decision.reason, delay)

    def _soon(self) -> float:
        return min(self.arguments.retry_delay, _LONGEST_FREE_DELAY)

    def _red(self, seen: Evidence) -> NoReturn:
        plan, cluster = self.here()
        self._warn_of_steps(seen)
        self._leave_chain(seen)
        self._show_logs(seen)
        cluster.count(seen.decision)
        raise ChainStopped(f"{plan.benchmark}: {seen.decision.reason}. Logs and results: {plan.job_dir}")

    def _warn_of_steps(self, seen: Evidence) -> None:
        """What a job that was ended from outside took down with it is no news."""
        if seen.newest is not None and seen.newest.ending not in _QUIET_ENDINGS:
            for step in seen.newest.failed_steps:
                self.log.warning("%s", step)

    def _show_logs(self, seen: Evidence) -> None:
        if self.config is None or seen.newest is None or seen.decision.ending in _QUIET_ENDINGS:
            return
        plan, cluster = self.here()
        for path, text in log_tails(cluster.hook, plan, seen.newest.ref.job_id):
            self.log.info("the end of %s:\n%s", path, _config.hidden(text, self.config))
