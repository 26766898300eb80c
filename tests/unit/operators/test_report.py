"""GymReportOperator: what it collects, and that the file comes whole to its place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from fakes.evaluations import evaluation

from airflow_gym_provider.operators.report import GymReportOperator


class Ti(SimpleNamespace):
    """XComs of other tasks, as Airflow gives them: a list over all map indices."""

    def xcom_pull(self, task_ids, key):
        if task_ids == "gate":
            return {"benchmarks": {"gpqa": {"verdict": "regressed", "sentence": "it fell"}}}
        assert task_ids == ["evals.run"]
        return [one["xcoms"][key] for one in self.tasks if key in one["xcoms"]]


def context(folder: Path, *tasks) -> dict:
    for one in tasks:
        one["xcoms"]["gym_job"]["run_dir"] = str(folder)
    return {"ti": Ti(dag_id="nightly", run_id="tonight", tasks=tasks)}


def test_it_lies_in_the_run_directory(tmp_path):
    chain = {"benchmark": "gpqa", "jobs": [{"id": "8", "state": "COMPLETED", "nodes": "n-eight"}]}
    folder = tmp_path / "a 'run' directory"
    folder.mkdir()
    tasks = [evaluation("gpqa", 0.125, xcoms={"gym_chain": chain}), evaluation("aime25", state="failed")]
    made = GymReportOperator(task_id="report", eval_task_ids="evals.run", gate_task_id="gate")
    path = made.execute(context(folder, *tasks))
    assert path == f"{folder}/report.html"
    text = Path(path).read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    assert all(
        word in text for word in ("nightly, tonight", "aime25", "0.125", "n-eight", "it fell", "success", "failed")
    )
    assert [file.name for file in folder.iterdir()] == ["report.html"]
    assert Path(path).stat().st_mode & 0o777 == 0o644


def test_it_lies_on_the_worker_when_a_path_is_given(tmp_path):
    path = tmp_path / "new" / "tonight.html"
    made = GymReportOperator(task_id="report", eval_task_ids=["evals.run"], path=str(path), title="Ünser Bericht")
    assert made.execute(context(tmp_path, evaluation("gpqa"))) == str(path)
    assert "<h1>Ünser Bericht</h1>" in path.read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    made = GymReportOperator(task_id="report", eval_task_ids=["evals.run"])
    with pytest.raises(AirflowException, match=r"gone/report\.html could not be written: .*No such file"):
        made.execute(context(tmp_path / "gone", evaluation("gpqa")))


def test_without_any_evaluation_there_is_no_report(tmp_path):
    made = GymReportOperator(task_id="report", eval_task_ids=["evals.run"])
    with pytest.raises(AirflowFailException, match="left no results"):
        made.execute(context(tmp_path))


def test_it_runs_whatever_became_of_the_evaluations():
    assert GymReportOperator(task_id="report", eval_task_ids="x").trigger_rule == "all_done"
