"""What the result files of a benchmark hold: counted on the login node, so that no rollout is ever sent.

gym writes one line per finished rollout (`rollouts.jsonl`), one per expected rollout before the first request
(`…_materialized_inputs.jsonl`), one per failed attempt (`…_failures.jsonl`), and at the end the aggregate metrics, the
only file that comes back. The last line of a killed job may be half: only ended lines count.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.results.metrics import MetricsError, key_metrics
from airflow_gym_provider.slurm.progress import beside
from airflow_gym_provider.slurm.remote import Frames

__all__ = ["FileFacts", "Spec", "Survey", "parse_survey", "survey_body"]

METRICS_CAP = 32 * 1024 * 1024
"""Bytes of the metrics file that are fetched at most."""

CLOCKS_DIFFER = 300
"""Seconds by which the clocks of a login node and of a file server may disagree."""
_STALE_SECONDS = 2.0
_FILE = re.compile(r"(rollouts|inputs|failures|metrics) (ok|missing|unreadable) (\d+) (\d+) (\d+)")
_WHY = re.compile(r"(rollouts|inputs|failures|metrics) because (.{1,200})")


class Spec(Protocol):
    """What is needed of `jobscript.ResultsSpec`."""

    @property
    def rollouts_path(self) -> str:
        """Absolute path of rollouts.jsonl on the cluster."""

    @property
    def require_complete(self) -> bool:
        """Whether fewer rollouts than expected are a failure."""

    @property
    def judged_by(self) -> Literal["rollouts", "exit_status"]:
        """What makes the benchmark a success: its files, or how its job ended."""


@dataclass(frozen=True)
class FileFacts:
    """One file: `status` is "unknown" when no answer came, `why` says what makes it unreadable. `size` in bytes,
    `mtime` in seconds since 1970.
    """

    path: str
    status: Literal["ok", "missing", "unreadable", "unknown"] = "unknown"
    size: int = 0
    mtime: int = 0
    lines: int = 0
    why: str = ""


@dataclass(frozen=True)
class Survey:
    """What was found. `expected` is None while the list of expected rollouts is not there (the servers are starting).

    `metrics` are the key metrics, flat: "mean/reward" when one agent ran, "<agent>/mean/reward" for several; finite
    numbers only. `metrics_problem` says why there are none although a file is there; `notes` are remarks for people.
    `metrics_stale`: the file is older than the rollouts, so an earlier job of the chain left it.
    """

    rollouts: FileFacts
    inputs: FileFacts
    failures: FileFacts
    metrics_file: FileFacts
    metrics: dict[str, float] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    metrics_problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether every file could be looked at. False says nothing about the results: look again."""
        files = (self.rollouts, self.inputs, self.failures, self.metrics_file)
        return all(item.status in ("ok", "missing") for item in files)

    @property
    def done(self) -> int:
        """Finished rollouts."""
        return self.rollouts.lines

    @property
    def expected(self) -> int | None:
        """Rollouts that were asked for; None when not known."""
        return self.inputs.lines if self.inputs.status == "ok" else None

    @property
    def failed_lines(self) -> int:
        """Failed attempts, those that a later attempt made good included."""
        return self.failures.lines

    @property
    def metrics_present(self) -> bool:
        """Whether there is a metrics file."""
        return self.metrics_file.status == "ok"

    @property
    def metrics_stale(self) -> bool:
        """Whether the metrics are older than the newest rollout by more than two seconds."""
        return self.metrics_present and self.rollouts.mtime - self.metrics_file.mtime > _STALE_SECONDS


def survey_body(spec: Spec, tag: str = "0") -> str:
    """Bash that surveys one benchmark, for a RemoteScript; `tag` is one plain word that tells its frames from others'.

    Reads every file once from front to end, the metrics file twice. Needs no Slurm, no Python and no jq on the login
    node. Call it for several benchmarks by joining the bodies. Raises ValueError for a tag or path that cannot be
    passed on.
    """
    if not re.fullmatch(r"[\w.+-]+", tag):
        raise ValueError(f"tag {tag!r} is not one plain word")
    words = " ".join(quote(path) for path in _paths(spec))
    return f"{_functions()}\ngym_survey {tag} {words} {METRICS_CAP}\n"


def parse_survey(spec: Spec, frames: Frames, tag: str = "0") -> Survey:
    """What the answer to `survey_body` of the same `spec` and `tag` says. Never raises.

    What was cut off is "unknown": never taken for an empty or missing file.
    """
    names = ("rollouts", "inputs", "failures", "metrics")
    facts = {name: FileFacts(path) for name, path in zip(names, _paths(spec), strict=True)}
    for frame in frames.named("survey"):
        for match in map(_FILE.fullmatch, frame.text.split("\n")[:-1] if frame.arg(0) == tag else ()):
            if match:
                status: Literal["ok", "missing", "unreadable"] = match[2]  # type: ignore[assignment]
                path = facts[match[1]].path
                facts[match[1]] = FileFacts(path, status, int(match[3]), int(match[4]), int(match[5]))
        for match in map(_WHY.fullmatch, frame.text.split("\n")[:-1] if frame.arg(0) == tag else ()):
            if match:
                facts[match[1]] = replace(facts[match[1]], why=match[2])
    survey = Survey(facts["rollouts"], facts["inputs"], facts["failures"], facts["metrics"])
    return _with_metrics(survey, frames, tag)


def _with_metrics(survey: Survey, frames: Frames, tag: str) -> Survey:
    files = (survey.rollouts, survey.inputs, survey.failures, survey.metrics_file)
    if not survey.metrics_present:
        return survey
    path = survey.metrics_file.path
    try:
        metrics, agents, notes = key_metrics(_fetched(survey, frames, tag))
    except MetricsError as error:
        return Survey(*files, metrics_problem=f"{path} {error}")
    return Survey(*files, metrics, agents, notes=tuple(f"{note} in {path}" for note in notes))


def _fetched(survey: Survey, frames: Frames, tag: str) -> bytes:
    """The metrics file's bytes. Raises MetricsError when they did not come, or not all of them."""
    size = survey.metrics_file.size
    ends = [frame.arg(1) for frame in frames.named("metrics.end") if frame.arg(0) == tag]
    if size > METRICS_CAP and not ends:
        raise MetricsError(f"is {size} bytes long; more than {METRICS_CAP} are not fetched")
    if ends[:1] != ["0"]:
        raise MetricsError("could not be read to its end")
    text = "".join(frame.text for frame in frames.named("metrics") if frame.arg(0) == tag)
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise MetricsError("could not be read: something else printed into it") from None


def _paths(spec: Spec) -> tuple[str, str, str, str]:
    rollouts = spec.rollouts_path
    return (
        rollouts,
        beside(rollouts, "_materialized_inputs.jsonl"),
        beside(rollouts, "_failures.jsonl"),
        beside(rollouts, "_aggregate_metrics.json"),
    )


@cache
def _functions() -> str:
    return Path(__file__).with_name("survey.sh").read_text(encoding="utf-8")
