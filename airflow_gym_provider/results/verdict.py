"""Whether a benchmark's results are there: the evidence without which no job state makes a task green."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_gym_provider.results.summary import Summary
from airflow_gym_provider.results.survey import CLOCKS_DIFFER, FileFacts, Spec, Survey

__all__ = ["Verdict", "judge", "recount"]


@dataclass(frozen=True)
class Verdict:
    """`complete`: the results stand. `reason` is for people, with counts and path.

    `looked` False: the files could not be looked at, which says nothing about them; look again. Files may come late
    over a network file system, so an incomplete verdict right after a job's end deserves a second look too.
    """

    complete: bool
    reason: str
    done: int
    expected: int | None
    looked: bool = True


def judge(survey: Survey, spec: Spec, since: float | None = None) -> Verdict:
    """Complete is: as many rollouts as expected, and metrics that are not older than they are.

    `since`: when the chain's first job was submitted, in seconds since 1970, for results in a place that is not the
    chain's own: what another run left there before is not this one's.
    With `require_complete` False any number of rollouts above zero is enough; the reason then says n of m. A benchmark
    that is judged by its exit status is always complete: its own command writes what it likes.
    """
    if spec.judged_by == "exit_status":
        return Verdict(True, "judged by its exit status", survey.done, survey.expected)
    if not survey.answered:
        return _no(survey, f"the results could not be read: {_unread(survey)}", looked=False)
    counted, enough = _counted(survey, spec)
    if not enough:
        return _no(survey, counted)
    fault = _metrics_fault(survey, since)
    if fault:
        return _no(survey, f"{counted}, but no metrics: {fault}")
    return Verdict(True, "; ".join([counted, *survey.notes]), survey.done, survey.expected)


def recount(verdict: Verdict, spec: Spec, summary: Summary) -> str:
    """What is wrong with complete results after all, once the rollouts were read and not only their lines counted.

    "" when nothing is, and when they could not be read. A rollout that is there twice, or a line that is none, must not
    stand for one that is missing.
    """
    if spec.judged_by == "exit_status" or not spec.require_complete or summary.problem or verdict.expected is None:
        return ""
    if summary.rollouts >= verdict.expected:
        return ""
    told = ((summary.duplicates, "are there twice"), (summary.unreadable, "are no JSON"))
    words = ", ".join(f"{number} lines {text}" for number, text in told if number)
    return f"{summary.rollouts} of {verdict.expected} rollouts in {spec.rollouts_path}: {words or 'the rest is blank'}"


def _metrics_fault(survey: Survey, since: float | None) -> str:
    """What is wrong with the metrics, "" when nothing is."""
    if not survey.metrics_present:
        return f"{survey.metrics_file.path} does not exist"
    if survey.metrics_stale:
        age = survey.rollouts.mtime - survey.metrics_file.mtime
        return f"{survey.metrics_file.path} is {age} s older than the rollouts, left by an earlier job"
    if since is not None and survey.metrics_file.mtime < since - CLOCKS_DIFFER:
        return f"{survey.metrics_file.path} is from before this chain's first job, left by another run"
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
        return f"{counts}: a partial result, accepted by run.require_complete: false{failed}", True
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
