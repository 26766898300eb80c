"""Whether a benchmark's results are there: the evidence without which no job state makes a task green."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_gym_provider.results.summary import Summary
from airflow_gym_provider.results.survey import CLOCKS_DIFFER, FileFacts, Spec, Survey

__all__ = ["Verdict", "judge", "recount"]

_ACCEPTED = "a partial result, accepted by run.require_complete: false"


@dataclass(frozen=True)
class Verdict:
    """`complete`: the results stand. `reason` is for people, with counts and path.

    `done` is how many rollouts there are: lines of the file, until `recount` makes it those that differ. `expected` is
    None when nobody tells. `looked` False: the files could not be looked at, which says nothing about them; look again.
    Files may come late over a network file system, so an incomplete verdict right after a job's end deserves a second
    look too. `by_exit_status`: a command's own exit status said that they stand.
    """

    complete: bool
    reason: str
    done: int
    expected: int | None
    looked: bool = True
    by_exit_status: bool = False

    @property
    def whole(self) -> bool:
        """Whether the results stand and nothing is missing: n of n. A partial result that was accepted is not whole;
        where nobody tells how many rollouts were expected, only an exit status can say that these are all.
        """
        if self.expected is None:
            return self.complete and self.by_exit_status
        return self.complete and self.done == self.expected


def judge(survey: Survey, spec: Spec, since: float | None = None) -> Verdict:
    """Complete is: as many rollouts as expected, and metrics, one finite number at least, not older than they are.

    Lines stand for rollouts here, for this is asked often, and of results that still grow: what is complete by its
    lines has to be read before anything is green, see `recount`.
    `since`: when the chain's first job was submitted, in seconds since 1970, for results in a place that is not the
    chain's own: what another run left there before is not this one's.
    With `require_complete` False any number of rollouts above zero is enough; the reason then says n of m. A benchmark
    that is judged by its exit status is always complete: its own command writes what it likes.
    """
    if spec.judged_by == "exit_status":
        return Verdict(True, "judged by its exit status", survey.done, survey.expected, by_exit_status=True)
    if not survey.answered:
        return _no(survey, f"the results could not be read: {_unread(survey)}", looked=False)
    counted, enough = _counted(survey, spec)
    if not enough:
        return _no(survey, counted)
    fault = _metrics_fault(survey, since)
    if fault:
        return _no(survey, f"{counted}, but no metrics: {fault}")
    return Verdict(True, "; ".join([counted, *survey.notes]), survey.done, survey.expected)


def recount(verdict: Verdict, spec: Spec, summary: Summary) -> Verdict:
    """The verdict on complete results once the rollouts were read, and not only their lines counted: the one place that
    knows how many there are. `done` is the number of different rollouts.

    A rollout that is there twice, or a line that is none, does not stand for one that is missing: results that do not
    add up are not `complete`, though they were by their lines. With `require_complete` False one rollout is enough.

    Rollouts that could not be read are not `looked` at, which says nothing about them: never green, never wrong.
    Whatever `summary.problem` is passes: room for temporary files, an answer that was cut off, a file that was counted
    a moment ago and is away now. A login node that lacks a program is none of these: without Python awk reads them, and
    without awk no job would be watched there. Results that are judged by their exit status stand all the same; a
    command need not write rollouts at all, so `missing` is what is usual, and 0 of them.
    """
    if summary.problem and spec.judged_by == "exit_status":
        return replace(verdict, done=0, expected=verdict.expected if summary.missing else None, looked=summary.missing)
    if summary.problem:
        return replace(
            verdict, complete=False, reason=f"the rollouts could not be read: {summary.problem}", looked=False
        )
    read = replace(verdict, done=summary.rollouts)
    if summary.rollouts >= verdict.done or spec.judged_by == "exit_status":
        return read
    enough = (verdict.expected or 1) if spec.require_complete else 1
    return replace(read, complete=read.done >= enough, reason=_fewer(read, spec, summary))


def _fewer(read: Verdict, spec: Spec, summary: Summary) -> str:
    """How many rollouts there are, of fewer than there are lines, and what the other lines are."""
    told = ((summary.duplicates, "are there twice"), (summary.unreadable, "are no JSON"))
    words = ", ".join(f"{number} lines {text}" for number, text in told if number)
    of = "" if read.expected is None else f"of {read.expected} "
    accepted = "" if spec.require_complete else f"; {_ACCEPTED}"
    return f"{read.done} {of}rollouts in {spec.rollouts_path}: {words or 'the rest is blank'}{accepted}"


def _metrics_fault(survey: Survey, since: float | None) -> str:
    """What is wrong with the metrics, "" when nothing is."""
    if not survey.metrics_present:
        return f"{survey.metrics_file.path} does not exist"
    if survey.metrics_stale:
        age = survey.rollouts.mtime - survey.metrics_file.mtime
        return f"{survey.metrics_file.path} is {age} s older than the rollouts, left by an earlier job"
    if since is not None and survey.metrics_file.mtime < since - CLOCKS_DIFFER:
        return f"{survey.metrics_file.path} is from before this chain's first job, left by another run"
    if not survey.metrics and not survey.metrics_problem:
        told = f" ({'; '.join(survey.notes)})" if survey.notes else ""
        return f"{survey.metrics_file.path} holds no finite number{told}"
    return survey.metrics_problem


def _counted(survey: Survey, spec: Spec) -> tuple[str, bool]:
    """The counts in words, and whether they are enough."""
    done, expected, path = survey.done, survey.expected, survey.rollouts.path
    failed = f"; {survey.failed_lines} failed attempts in {survey.failures.path}" if survey.failed_lines else ""
    if survey.rollouts.status == "missing":
        return f"no rollouts: {path} does not exist{failed}", False
    if expected is None:
        told = f"{done} rollouts in {path}, and no list of those expected: {survey.inputs.path} does not exist"
        return told, done > 0 and not spec.require_complete
    counts = f"{done} of {expected} rollouts in {path}"
    if done > expected:
        return f"{counts}: more than expected, so some were written twice or stem from another run", False
    if done == expected and done > 0:
        return counts, True
    if done > 0 and not spec.require_complete:
        return f"{counts}: {_ACCEPTED}{failed}", True
    return f"{counts}{failed}", False


def _no(survey: Survey, reason: str, looked: bool = True) -> Verdict:
    return Verdict(False, reason, survey.done, survey.expected, looked)


def _unread(survey: Survey) -> str:
    files = (survey.rollouts, survey.inputs, survey.failures, survey.metrics_file)
    bad = [item for item in files if item.status not in ("ok", "missing")]
    return "; ".join(f"{item.path} is {_how(item)}" for item in bad)


def _how(item: FileFacts) -> str:
    if item.status != "unreadable":
        return "not told"
    return f"unreadable ({item.why})" if item.why else "unreadable"
