"""A checkpoint's event starts its evaluation with the right path; so does another DAG; a bad form starts nothing."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from stack import Run, Stack, wait_until

DAG, PATH = "evaluate_checkpoint", "/checkpoints/policy/step-1000"
pytestmark = pytest.mark.dag("train_policy", listening=(DAG,))


def served(job_dir: str) -> set[str]:
    """What the policy is asked to serve: in the job as it ran, and in the run's config."""
    config = yaml.safe_load((Path(job_dir).parent / "resolved-config.yaml").read_text())
    script = (Path(job_dir) / "job.sh").read_text()
    return {config["services"]["policy"]["model"], *([PATH] if f"vllm serve {PATH}" in script else [])}


def evaluation(run: Run, run_type: str) -> Run:
    """The run that the training has caused."""
    (found,) = wait_until(f"a run of {DAG}", 120, lambda: run.stack.runs_of(DAG, run_type, run))
    return found


def test_the_event_starts_the_evaluation_of_that_checkpoint(run: Run):
    assert run.green("train") == PATH
    summary = evaluation(run, "asset_triggered").green("gym_evals.summary", seconds=420)
    assert list(summary) == ["gpqa", "aime25"]
    assert [served(found["job_dir"]) for found in summary.values()] == [{PATH}, {PATH}]
    assert [found["rollouts_done"] for found in summary.values()] == [20, 40]


def test_another_dag_starts_it_with_conf_in_the_forms_place(run: Run):
    run.green("quick_look")
    summary = evaluation(run, "operator_triggered").green("gym_evals.summary", seconds=420)
    assert list(summary) == ["gpqa"]
    assert served(summary["gpqa"]["job_dir"]) == {PATH}
    assert summary["gpqa"]["rollouts_done"] == 4, "2 samples, twice each"


@pytest.mark.parametrize(
    "conf", [{"walltime": "four hours"}, {"limit": 0}, {"benchmarks": ["gqpa"]}, {"checkpoint": "step-1000"}], ids=str
)
def test_a_bad_value_is_refused_before_there_is_a_run(run: Run, stack: Stack, conf: dict):
    run.green("quick_look")
    before = len(stack.runs_of(DAG, "manual"))
    with pytest.raises(HTTPError) as refused:
        stack.api.call("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": conf})
    assert refused.value.code in (400, 422)
    assert next(iter(conf)) in refused.value.read().decode()
    assert len(stack.runs_of(DAG, "manual")) == before
