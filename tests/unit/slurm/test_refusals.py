"""What sbatch says: a job, no job, or perhaps a job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm import Answer, Refusal, SbatchAnswer, read_sbatch

CAPTURED = (Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "sbatch.txt").read_text(encoding="utf-8")
CASES = re.findall(r"^## ([^:\n]+): (\w+), (\S*),? ?rc (\d+)\n(.*?)(?=^## |\Z)", CAPTURED, re.MULTILINE | re.DOTALL)
REFUSED = [(kind, field.strip(","), int(status), text) for _, kind, field, status, text in CASES if status != "0"]


def refusal(stderr: str, returncode: int = 1, stdout: str = "") -> Refusal:
    answer = read_sbatch(Answer(returncode, stdout, stderr), compute="main")
    assert isinstance(answer, Refusal)
    return answer


def test_every_captured_case_is_tried() -> None:
    assert len(CASES) == CAPTURED.count("## ")


@pytest.mark.parametrize(("kind", "field", "status", "stderr"), REFUSED)
def test_captured_refusals(kind: str, field: str, status: int, stderr: str) -> None:
    answer = refusal(stderr, status)
    assert (answer.kind, answer.field) == (kind, field)
    assert f"exit status {status}" in answer.text
    assert field in str(answer)


@pytest.mark.parametrize(
    ("text", "kind", "field"),
    [
        ("QOSMaxWallDurationPerJobLimit", "permanent", "compute.main.walltime"),
        ("AssocMaxWallDurationPerJobLimit", "permanent", "compute.main.walltime"),
        ("AssocGrpCPURunMinutesLimit", "permanent", "compute.main.walltime"),
        (
            "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
            "permanent",
            "compute.main.walltime",
        ),
        ("QOSMaxNodePerJobLimit", "permanent", "compute.main.node_pools.*.nodes"),
        ("QOSMaxGRESPerJob", "permanent", "compute.main.node_pools.*.gpus_per_node"),
        ("QOSMaxMemoryPerJob", "permanent", "compute.main.extra_args.mem"),
        ("QOSMinCpuNotSatisfied", "permanent", "compute.main.node_pools"),
        ("Job's account not permitted to use this partition (gpu allows a not b)", "permanent", "compute.main.account"),
        (
            "Job's QOS not permitted to use this partition (gpu allows a not b)",
            "permanent",
            "compute.main.extra_args.qos",
        ),
        ("User's group not permitted to use this partition", "permanent", "compute.main.account"),
        ("AssocGrpSubmitJobsLimit", "later", ""),
        ("QOSMaxSubmitJobPerUserLimit", "later", ""),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "later",
            "compute.main.extra_args.qos",
        ),
        ("Slurm temporarily unable to accept job, sleeping and retrying", "later", ""),
        ("Batch job submission failed: Resource temporarily unavailable", "later", ""),
        ("Batch job submission failed: Rate limit exceeded", "later", ""),
        ("Batch job submission failed: Slurm backup controller in standby mode", "later", ""),
        ("Batch job submission failed: Socket timed out on send/recv operation", "unsure", ""),
        ("Batch job submission failed: Unable to contact slurm controller (send failure)", "unsure", ""),
        ("Batch job submission failed: Zero Bytes were transmitted or received", "unsure", ""),
        ("Batch job submission failed: Unspecified error", "unsure", ""),
        ("something new", "unsure", ""),
    ],
)
def test_kinds_and_fields(text: str, kind: str, field: str) -> None:
    answer = refusal(f"sbatch: error: {text}\n")
    assert (answer.kind, answer.field) == (kind, field)


def test_a_limit_is_told_from_the_general_sentence_that_follows_it() -> None:
    limits = "(job submit limit, user's size and/or time limits)"
    general = f"sbatch: error: Batch job submission failed: Job violates accounting/QOS policy {limits}"
    assert refusal(f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{general}").kind == "permanent"
    assert refusal(f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{general}").kind == "later"


def test_a_lost_answer_outweighs_what_the_retry_says() -> None:
    lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
    assert refusal(f"{lost}sbatch: error: Unable to contact slurm controller (connect failure)").kind == "unsure"


@pytest.mark.parametrize(
    "text", ["bash: line 3: account not permitted", "Invalid qos specification", "", "Connection closed"]
)
def test_only_sbatch_itself_can_refuse_for_good(text: str) -> None:
    assert refusal(text, 255).kind == "unsure"


def test_a_missing_sbatch_names_the_setting() -> None:
    answer = refusal("bash: sbatch: command not found", 127)
    assert answer.kind == "permanent"
    assert "slurm_bin" in str(answer)


@pytest.mark.parametrize(
    ("stdout", "job_id", "cluster"),
    [
        ("123\n", "123", None),
        ("123;c2\n", "123", "c2"),
        ("Submitted batch job 5\n", "5", None),
        ("Submitted batch job 5 on cluster c2", "5", "c2"),
        ("Welcome to c1\n17 users\n123;c-2\r\nBye\n", "123", "c-2"),
        ("7\n8\n", "8", None),
    ],
)
def test_a_job(stdout: str, job_id: str, cluster: str | None) -> None:
    assert read_sbatch(Answer(0, stdout, "")) == SbatchAnswer(job_id, cluster)


def test_a_job_beside_an_error_is_a_job_with_a_warning() -> None:
    answer = read_sbatch(
        Answer(0, "60\n", "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n")
    )
    assert isinstance(answer, SbatchAnswer)
    assert answer.job_id == "60"
    assert "sleeping" in answer.warning


@pytest.mark.parametrize(("status", "stdout"), [(0, "Submitted\n"), (0, ""), (0, "0\n"), (1, "60\n"), (0, "60 61\n")])
def test_half_an_answer_is_unsure(status: int, stdout: str) -> None:
    answer = refusal("", status, stdout)
    assert answer.kind == "unsure"
    assert "look for it" in str(answer)


@given(st.integers(-1, 255), st.text(), st.text())
def test_any_answer_has_a_meaning(status: int, stdout: str, stderr: str) -> None:
    answer = read_sbatch(Answer(status, stdout, stderr))
    if isinstance(answer, Refusal):
        assert str(answer)
        assert answer.kind != "permanent" or "sbatch:" in stderr or status in (126, 127)
    else:
        assert status == 0


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Maintenance is near: no jobs with a time limit past 08:00 are taken, try tomorrow", "unsure"),
        ("Invalid account, or no account: see the reservation page", "unsure"),
        ("You must give a project with --account", "unsure"),
        ("QOSMaxWallDurationPerJobLimit", "permanent"),
        ("AssocMaxSubmitJobLimit", "later"),
    ],
)
def test_a_sites_own_words_decide_nothing_beside_slurms(said: str, kind: str) -> None:
    lines = f"sbatch: error: {said}\nsbatch: error: Batch job submission failed: Unspecified error\n"
    answer = refusal(lines)
    assert answer.kind == kind
    assert said in answer.text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Required node not available (down, drained or reserved)", "later"),
        ("Required partition not available (inactive or drain)", "later"),
        ("I/O error writing script/environment to file", "later"),
        ("Invalid user id", "unsure"),
    ],
)
def test_what_passes_by_itself_is_not_permanent(text: str, kind: str) -> None:
    assert refusal(f"sbatch: error: Batch job submission failed: {text}\n").kind == kind
