"""What counts as no answer, and of which kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm.troubles import ProblemKind, table_problem, tool_problem

CAPTURED = (Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "down.txt").read_text(encoding="utf-8")
CASES = re.findall(r"^## (\w+) rc (\d+): (\w+)\n(.*?)(?=^## |\Z)", CAPTURED, re.MULTILINE | re.DOTALL)
NOISE = "squeue: error: Ignoring ControlMachine since SlurmctldHost is set.\n"
UNKNOWN_ID = "slurm_load_jobs error: Invalid job id specified\n"


@pytest.mark.parametrize(("tool", "status", "kind", "stderr"), CASES)
def test_captured_troubles(tool: str, status: str, kind: str, stderr: str) -> None:
    problem = tool_problem(tool, int(status), stderr)
    assert (problem.kind if problem else "known") == kind
    assert problem is None or problem.startswith(f"{tool}: ")


@pytest.mark.parametrize(
    ("tool", "status", "stderr", "kind"),
    [
        ("sacct", 1, "Slurm accounting storage is disabled", ProblemKind.ACCOUNTING_DISABLED),
        ("sacct", 1, "sacct: error: Slurm accounting storage is disabled", ProblemKind.ACCOUNTING_DISABLED),
        ("sacct", 1, "sacct: error: Rate limit exceeded", ProblemKind.RATE_LIMITED),
        ("squeue", 1, "slurm_load_jobs error: RPC rate limit exceeded", ProblemKind.RATE_LIMITED),
        ("squeue", 1, "slurm_load_jobs error: Socket timed out on send/recv operation", ProblemKind.TIMED_OUT),
        ("sacct", 0, "sacct: error: Problem talking to the database: Connection refused", ProblemKind.UNREACHABLE),
        ("sacct", 124, "", ProblemKind.TIMED_OUT),
        ("sacct", 127, "timeout: failed to run command 'sacct': No such file or directory", ProblemKind.NO_TOOL),
        ("sacct", 1, NOISE + "Slurm accounting storage is disabled", ProblemKind.ACCOUNTING_DISABLED),
        ("squeue", 1, NOISE + UNKNOWN_ID + "slurm_load_jobs error: Socket timed out", ProblemKind.TIMED_OUT),
        ("squeue", 1, NOISE, ProblemKind.OTHER),
        ("sacct", 0, "sacct: error: slurmdbd: Unknown error 1021", ProblemKind.UNREACHABLE),
        ("sacct", 0, "sacct: error: slurmdbd: Operation not permitted", ProblemKind.UNREACHABLE),
        ("sacct", 0, "sacct: error: DBD_GET_JOBS_COND failure: Unspecified error", ProblemKind.UNREACHABLE),
        ("squeue", None, "", ProblemKind.CUT),
        ("squeue", 1, "", ProblemKind.OTHER),
        ("sacct", 1, "slurm_load_jobs error: Invalid job id specified", ProblemKind.OTHER),
    ],
)
def test_kinds(tool: str, status: int | None, stderr: str, kind: ProblemKind) -> None:
    problem = tool_problem(tool, status, stderr)
    assert problem is not None
    assert problem.kind is kind


@pytest.mark.parametrize(
    ("tool", "status", "stderr"),
    [
        ("squeue", 0, ""),
        ("sacct", 0, "Welcome, connection refused on Mondays"),
        ("sacct", 0, "sacct: error: something about fonts"),
        ("squeue", 1, UNKNOWN_ID),
        ("squeue", 1, NOISE + UNKNOWN_ID),
        ("squeue", 1, UNKNOWN_ID + NOISE),
        ("squeue", 0, NOISE),
    ],
)
def test_answers_to_rely_on(tool: str, status: int, stderr: str) -> None:
    assert tool_problem(tool, status, stderr) is None


def test_accounting_that_is_disabled_is_explained() -> None:
    assert "accounting is disabled" in str(tool_problem("sacct", 1, "Slurm accounting storage is disabled"))


@given(st.sampled_from(["squeue", "sacct"]), st.none() | st.integers(-1, 255), st.text())
def test_any_text_has_a_meaning(tool: str, status: int | None, stderr: str) -> None:
    problem = tool_problem(tool, status, stderr)
    assert problem is None or problem


@pytest.mark.parametrize("tool", ["squeue", "sacct"])
def test_silence_is_no_answer_where_a_header_belongs(tool: str) -> None:
    assert table_problem(tool, 0, "", "") == f"{tool}: exit status 0, but its answer lacks the header line"
    assert table_problem(tool, 0, "", "Welcome\nto JOBID\n") is not None
    assert table_problem(tool, 0, "", "a banner\nJOBID\x1fSTATE\x1fJOBID\n") is None
    assert table_problem(tool, 0, "", "JobID|State\n") is None
    assert table_problem("squeue", 1, "slurm_load_jobs error: Invalid job id specified", "") is None
