"""When a chain leaves its directory for another: what lies there was asked for otherwise than this try is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gym_provider.chain import Action, ChainLook
from airflow_gym_provider.exceptions import ChainStopped
from airflow_gym_provider.operators._arguments import EvalArguments
from airflow_gym_provider.operators._asked import Asked
from airflow_gym_provider.operators._evidence import Evidence
from airflow_gym_provider.operators._held import HeldChain
from airflow_gym_provider.operators._memory import clear_number

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

MAX_ANEW = 5
"""Times that a chain begins anew without a clear, until it looks as if its config were another one at every try."""


class AskedChain(HeldChain):
    """A held chain that knows for what the rollouts in its directory were made."""

    def __init__(self, arguments: EvalArguments, context: Context, log: Any) -> None:
        super().__init__(arguments, context, log)
        self.store_was_lost = False
        self._warned = False

    def otherwise(self, seen: Evidence) -> str:
        """In words, how the results there were asked for otherwise than this try is. "" when they were not, when that
        is not known, and when there are none.
        """
        plan, _ = self.here()
        before, now = self._before(seen.look), Asked.from_dict(plan.asked)
        if before is None or now is None or not self._is_something_there(seen, bool(before.changed(now))):
            return ""
        done = seen.verdict.done if seen.verdict is not None else 0
        what = f"the {done} rollouts in {plan.spec.rollouts_path}" if done else f"the results in {plan.job_dir}"
        return before.told(now, what)

    def leave_other(self, seen: Evidence) -> bool:
        """Whether the results there are not what this try is asked for: other models, other inputs, other sampling.
        Then no job goes on with them, and no task is green with them: the chain begins anew, in a directory of its own.
        """
        plan, _ = self.here()
        told = self.otherwise(seen)
        if not told:
            return False
        if not plan.results_are_its_own:
            raise ChainStopped(f"{told}. Move them away, or name another output_jsonl_fpath, and clear the task")
        if self.memory.anew >= MAX_ANEW:
            raise ChainStopped(
                f"{told}. That is so for the {MAX_ANEW + 1}th time: does the config hold what is another at every try, "
                "such as its number, the time, or a variable of the worker? Take that out, and clear the task"
            )
        self.log.warning("%s: starting anew, in another directory", told)
        # A worker that was given up may be about to submit there: it finds the chain changed, or its job ended.
        self.here()[1].cancel("begun anew in another directory", [])
        self.memory.leave()
        self.prepare()
        return True

    def begin_anew(self, seen: Evidence) -> bool:
        """Whether results that are complete are not those wanted. A green task was cleared after its memory had been
        purged: its finished directory is not what is wanted. Nor are results that were asked for otherwise.
        """
        if not self.store_was_lost:
            return self.leave_other(seen)
        self.store_was_lost = False
        self.memory.renew(clear_number(self.context, self.arguments.retries))
        self.prepare()
        return True

    def remember_wanted(self) -> None:
        """Saved before a job is asked for. Beside the results that lies in a file as well, which goes before: a memory
        may be lost, or that of a task that has had another benchmark.
        """
        asked = self.here()[0].asked
        self.memory.models, self.memory.wanted = asked["models"], asked

    def warn_of_other_job(self, look: ChainLook, job_id: str | None) -> None:
        """Tell once when the job that lives was asked for otherwise. It is left alone all the same: it may be another
        deployment's.
        """
        before, now = self._before(look), Asked.from_dict(self.here()[0].asked)
        told = before.told(now, "its rollouts") if before is not None and now is not None else ""
        if told and not self._warned:
            self._warned = True
            self.log.warning("job %s is waited for, but %s: they will be no result of this task", job_id, told)

    def _before(self, look: ChainLook) -> Asked | None:
        """What the last job there was asked for. An older release wrote no file, and remembered the models alone."""
        found = Asked.read(look.asked)
        if found is not None:
            return found
        wanted, models = Asked.from_dict(self.memory.wanted), self.memory.models
        if wanted is not None and (wanted.benchmark, wanted.models) == (look.place.benchmark, models):
            return wanted
        return Asked(look.place.benchmark, models, None) if models else None

    @staticmethod
    def _is_something_there(seen: Evidence, keys_changed: bool) -> bool:
        """Whether a job that goes on there would go on with anything. What cannot be looked at may be something."""
        verdict = seen.verdict
        if seen.decision.action is Action.DONE:
            return True
        if verdict is None:
            return False
        # the list of inputs is there before the first rollout, and is what gym resumes by
        return bool(verdict.done) or not verdict.looked or (keys_changed and verdict.expected is not None)
