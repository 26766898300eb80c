"""The runs that a gate compares: where each benchmark lies, and its rewards per task, read where they lie."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_gym_provider.jobscript import ResultsSpec, quote
from airflow_gym_provider.results import RESULTS_FILE, Summary, parse_summary, parse_survey, summary_body, survey_body
from airflow_gym_provider.results.gate import Side
from airflow_gym_provider.slurm.remote import Frames, RemoteScript

if TYPE_CHECKING:
    from airflow_gym_provider.hooks.slurm import SlurmHook
    from airflow_gym_provider.operators.gate import GymGateOperator

_FIND = """\
gym_benchmark() {{
  if [ -d "$1/artifacts" ]; then frame benchmark; printf '%s' "$1"; fi
}}
gym_benchmark {folder}
for _gym_path in {folder}/*/; do gym_benchmark "${{_gym_path%/}}"; done
"""


@dataclass(frozen=True)
class BenchmarkRun:
    """One benchmark of one run. `known` False: its metrics and counts are still to be read from its files."""

    benchmark: str
    label: str
    job_dir: str
    rollouts: str
    hostname: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    done: int | None = None
    expected: int | None = None
    complete: bool = True
    known: bool = True

    @property
    def incomplete(self) -> str:
        """What it lacks, in words; "" when nothing."""
        if self.expected is not None and self.done != self.expected:
            return f"{self.done or 0} of {self.expected} rollouts in {self.rollouts}"
        if self.expected is None and self.done:
            return f"{self.done} rollouts in {self.rollouts}, and nothing tells how many were expected"
        return "" if self.complete else f"{self.rollouts} is not complete"

    def pointer(self, metrics: Iterable[str]) -> dict[str, Any]:
        """Enough to find it again, for a later gate: as of `GymEvalOperator`'s result, with these metrics only."""
        return {
            "benchmark": self.benchmark,
            "job_dir": self.job_dir,
            "rollouts": self.rollouts,
            "hostname": self.hostname,
            "metrics": {name: self.metrics[name] for name in metrics if name in self.metrics},
            "rollouts_done": self.done,
            "rollouts_expected": self.expected,
            "complete": self.complete,
        }


def runs_of_results(results: Any, label: str) -> dict[str, BenchmarkRun]:
    """Benchmark to run, of results as `GymEvalOperator` returns them: one, or any list of them, nested or not.

    Or as the summary of `gym_evals` returns them, by name; one that is not green there is not complete.
    """
    found: dict[str, BenchmarkRun] = {}
    for value in _flat(results):
        run = BenchmarkRun(
            benchmark=str(value["benchmark"]),
            label=label,
            job_dir=str(value["job_dir"]),
            rollouts=str(value.get("rollouts") or posixpath.join(value["job_dir"], "artifacts/rollouts.jsonl")),
            hostname=value.get("hostname"),
            metrics=dict(value.get("metrics") or {}),
            done=value.get("rollouts_done"),
            expected=value.get("rollouts_expected"),
            complete=value.get("complete") is not False,
        )
        if run.benchmark in found and found[run.benchmark].job_dir != run.job_dir:
            raise AirflowFailException(
                f"{label} has two results of {run.benchmark}: {found[run.benchmark].job_dir} and {run.job_dir}. "
                "Give the gate one of them as candidate"
            )
        found[run.benchmark] = run
    return found


def results_before(gate: GymGateOperator, ti: Any, **where: Any) -> list[Any]:
    """What the tasks directly before a gate returned; `where` may name another run by `run_id`.

    Of tasks that are in the gate's own mapped task group this is what they returned in its own round, and not in all.
    """
    group = gate.get_closest_mapped_task_group()
    found: list[Any] = []
    for task_id in sorted(gate.upstream_task_ids):
        task = gate.dag.task_dict.get(task_id) if group is not None else None
        near = task is not None and task.get_closest_mapped_task_group() is group
        found += ti.xcom_pull(task_ids=[task_id], **where, **({"map_indexes": [ti.map_index]} if near else {})) or []
    return found


def _flat(results: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(results, Mapping):
        if "benchmark" in results and "job_dir" in results:
            yield results
        elif "job_dir" not in results:
            for name, row in results.items():
                if isinstance(row, Mapping) and row.get("job_dir"):
                    green = not row.get("reason") and row.get("complete") is not False
                    yield {**row, "benchmark": name, "complete": green}
    elif isinstance(results, Iterable) and not isinstance(results, (str, bytes)):
        for value in results:
            yield from _flat(value)


class GateReader:
    """Reads runs over one connection. Raises SlurmTransportError and AirflowException for what another try may mend."""

    def __init__(self, hook: SlurmHook, timeout: float) -> None:
        self.hook = hook
        self.timeout = timeout

    def directory(self, folder: str) -> dict[str, BenchmarkRun]:
        """Every benchmark below a run directory, or the one whose directory it is. Raises AirflowFailException."""
        frames = self._run(_FIND.format(folder=quote(folder.rstrip("/"))))
        places = [frame.text.strip("\n") for frame in frames.named("benchmark")]
        if not places:
            raise AirflowFailException(
                f"{folder} on {self.hook.where} holds no benchmark: neither it nor a folder in it has artifacts/"
            )
        found = {}
        for place in places:
            name = posixpath.basename(place)
            rollouts = posixpath.join(place, "artifacts/rollouts.jsonl")
            found[name] = BenchmarkRun(name, folder, place, rollouts, known=False)
        return found

    def read(self, runs: Iterable[BenchmarkRun]) -> list[tuple[BenchmarkRun, Side]]:
        """Runs of one benchmark with all that is known of them, and as the gate judges them, in one round trip."""
        wanted = list(runs)
        frames = self._run("\n".join(_body(run, str(tag)) for tag, run in enumerate(wanted)))
        return [_side(run, frames, str(tag)) for tag, run in enumerate(wanted)]

    def _run(self, body: str) -> Frames:
        script = RemoteScript.build(body, needs=())
        return script.frames(self.hook.run(script, self.timeout).stdout)


def _spec(run: BenchmarkRun) -> ResultsSpec:
    return ResultsSpec(run.rollouts, True, "rollouts")


def _results(run: BenchmarkRun) -> str | None:
    """Where the numbers of a custom harness are, when its metrics are not known."""
    return None if run.known else posixpath.join(run.job_dir, RESULTS_FILE)


def _body(run: BenchmarkRun, tag: str) -> str:
    body = "" if run.known else survey_body(_spec(run), tag)
    return body + summary_body(run.rollouts, tag, tasks=True, results_path=_results(run))


def _side(run: BenchmarkRun, frames: Frames, tag: str) -> tuple[BenchmarkRun, Side]:
    summary = parse_summary(frames, run.rollouts, tag, results_path=_results(run))
    if summary.problem and not summary.missing:
        raise AirflowException(summary.problem)
    if not run.known:
        run = _surveyed(run, frames, tag, summary)
    had_rollouts = bool(run.done or run.expected)
    lacks = [run.incomplete or _doubled(run, summary), _faults(summary)]
    no_rewards = summary.problem if had_rollouts else ""
    if not summary.problem and summary.tasks and summary.rewards is None:
        no_rewards = f"{summary.tasks} tasks are more than are fetched"
    return run, Side(run.label, run.metrics, summary.rewards, "; ".join(filter(None, lacks)), no_rewards)


def _surveyed(run: BenchmarkRun, frames: Frames, tag: str, summary: Summary) -> BenchmarkRun:
    survey = parse_survey(_spec(run), frames, tag)
    if not survey.answered:
        raise AirflowException(f"{run.job_dir} could not be read")
    return BenchmarkRun(
        run.benchmark,
        run.label,
        run.job_dir,
        run.rollouts,
        run.hostname,
        {**summary.metrics, **survey.metrics},
        survey.done,
        survey.expected,
        complete=not (survey.metrics_problem or survey.metrics_stale),
    )


def _doubled(run: BenchmarkRun, summary: Summary) -> str:
    """What as many lines as expected hide: a rollout that is there twice in another's place, or a blank line."""
    if summary.problem or run.expected is None or summary.rollouts + summary.unreadable == run.expected:
        return ""
    return f"{summary.rollouts} different rollouts of {run.expected} in {run.rollouts}"


def _faults(summary: Summary) -> str:
    """What of the rollouts cannot count."""
    parts = [(summary.without_reward, "rollouts have no reward"), (summary.unreadable, "lines cannot be read")]
    return " and ".join(f"{count} {what}" for count, what in parts if count)
