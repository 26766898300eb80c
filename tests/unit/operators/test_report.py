"""GymReportOperator: what it collects, and that the file comes whole to its place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from fakes.evaluations import evaluation, task

from airflow_gym_provider.operators.report import GymReportOperator
from tests.unit.ui.html import read
from tests.unit.ui.test_pages import cells, rows


class Ti(SimpleNamespace):
    """States and XComs of other tasks as Airflow 3.3 gives them: an instance of a mapped task has its index in the key,
    and a pull without an index is that of all instances."""

    def get_task_states(self, dag_id, task_ids, run_ids):
        assert (dag_id, run_ids) == ("nightly", ["tonight"])
        found = {
            one["task_id"] if one["map_index"] < 0 else f"{one['task_id']}_{one['map_index']}": one["state"]
            for one in self.tasks
            if one["task_id"] in task_ids
        }
        return {"tonight": found} if found else {}

    def xcom_pull(self, task_ids, key, map_indexes=None):
        if map_indexes is None:
            ids = [task_ids] if isinstance(task_ids, str) else task_ids
            return [one["xcoms"][key] for one in self.tasks if one["task_id"] in ids and key in one["xcoms"]] or [None]
        (one,) = [one for one in self.tasks if (one["task_id"], one["map_index"]) == (task_ids, map_indexes)]
        return one["xcoms"].get(key)


def context(folder: Path, *tasks) -> dict:
    for one in tasks:
        if "gym_job" in one["xcoms"]:
            one["xcoms"]["gym_job"]["run_dir"] = str(folder)
    return {"ti": Ti(dag_id="nightly", run_id="tonight", tasks=tasks)}


def mapped(index: int, benchmark: str, *values, **more):
    return evaluation(benchmark, *values, task_id="evals.run", map_index=index, **more)


def shown(folder: Path, *tasks, **settings) -> list[list[str]]:
    """The rows of the report over these tasks."""
    settings = {"eval_task_ids": "evals.run", "path": str(folder / "it.html")} | settings
    path = GymReportOperator(task_id="report", **settings).execute(context(folder, *tasks))
    return [cells(row) for row in rows(read(Path(path).read_text(encoding="utf-8")), "benchmarks")]


def test_it_lies_in_the_run_directory(tmp_path):
    chain = {"benchmark": "gpqa", "jobs": [{"id": "8", "state": "COMPLETED", "nodes": "n-eight"}]}
    folder = tmp_path / "a 'run' directory"
    folder.mkdir()
    tasks = [
        mapped(0, "gpqa", 0.125, xcoms={"gym_chain": chain}),
        mapped(1, "aime25", state="failed"),
        task("gate", gym_verdict={"benchmarks": {"gpqa": {"verdict": "regressed", "sentence": "it fell"}}}),
    ]
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
    assert made.execute(context(tmp_path, mapped(0, "gpqa"))) == str(path)
    assert "<h1>Ünser Bericht</h1>" in path.read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    made = GymReportOperator(task_id="report", eval_task_ids=["evals.run"])
    with pytest.raises(AirflowException, match=r"gone/report\.html could not be written: .*No such file"):
        made.execute(context(tmp_path / "gone", mapped(0, "gpqa")))


def test_without_any_evaluation_there_is_no_report(tmp_path):
    made = GymReportOperator(task_id="report", eval_task_ids=["evals.run"])
    with pytest.raises(AirflowFailException, match="left no results"):
        made.execute(context(tmp_path))


def test_two_evaluations_of_one_benchmark_are_two_rows(tmp_path):
    """evaluate.expand(checkpoint=…): the first is green, the second ran out of walltime."""
    chain = {"benchmark": "gpqa", "jobs": [{"id": "101", "state": "TIMEOUT"}], "reason": "TIMEOUT; chain stopped"}
    tasks = [mapped(0, "gpqa", 0.9), mapped(1, "gpqa", state="failed", xcoms={"gym_chain": chain})]
    found = shown(tmp_path, *tasks)
    assert [row[:4] for row in found] == [
        ["gpqa evals.run [0]", "success", "mean/reward", "0.9"],
        ["gpqa evals.run [1]", "failed", "–", "–"],
    ]
    others = [evaluation("gpqa", 0.9, task_id="big"), evaluation("gpqa", 0.3, task_id="small")]
    assert [row[0] for row in shown(tmp_path, *others, eval_task_ids=["small", "big"])] == ["gpqa big", "gpqa small"]


def test_the_state_is_airflows_and_not_a_result_that_is_there(tmp_path):
    marked = mapped(0, "gpqa", 0.9) | {"state": "failed"}
    by_hand = mapped(1, "aime25", state="failed") | {"state": "success"}
    assert [row[:2] for row in shown(tmp_path, marked, by_hand)] == [["aime25", "success"], ["gpqa", "failed"]]


def test_what_failed_before_it_had_a_job_has_a_row(tmp_path):
    tasks = [mapped(0, "gpqa")] + [
        task("evals.run", state, **xcoms) | {"map_index": at}
        for at, (state, xcoms) in enumerate(
            [("failed", {"gym_failure": {"reason": "no such partition"}}), ("upstream_failed", {}), (None, {}),
             ("removed", {})], 1
        )
    ]  # fmt: skip
    assert [row[:2] for row in shown(tmp_path, *tasks)] == [
        ["evals.run [1]", "failed, no job"],
        ["evals.run [2]", "upstream_failed, no job"],
        ["evals.run [3]", "no state, no job"],
        ["gpqa", "success"],
    ]
    assert "no such partition" in (tmp_path / "it.html").read_text(encoding="utf-8")
    assert [row[1] for row in shown(tmp_path, task("evals.run", "failed"))] == ["failed, no job"]


def test_a_task_is_not_mistaken_for_an_instance_of_another(tmp_path):
    tasks = [evaluation("gpqa", 0.9, task_id="eval_1"), evaluation("gpqa", 0.3, task_id="eval", map_index=1)]
    found = shown(tmp_path, *tasks, eval_task_ids=["eval", "eval_1"])
    assert [(row[0], row[3]) for row in found] == [("gpqa eval [1]", "0.3"), ("gpqa eval_1", "0.9")]


@pytest.mark.parametrize("state", ["skipped", "upstream_failed"])
def test_it_is_skipped_when_no_evaluation_began(tmp_path, state):
    """It would be one more red task, which leads away from the one that is to be mended."""
    with pytest.raises(AirflowSkipException, match=r"evals\.run never began, see the tasks before it"):
        shown(tmp_path, *(task("evals.run", state) | {"map_index": at} for at in range(2)))


def test_one_that_was_skipped_among_others_has_a_row(tmp_path):
    some = [mapped(0, "gpqa"), task("evals.run", "skipped") | {"map_index": 1}]
    assert [row[:2] for row in shown(tmp_path, *some)] == [["evals.run [1]", "skipped, no job"], ["gpqa", "success"]]


def test_it_runs_whatever_became_of_the_evaluations():
    assert GymReportOperator(task_id="report", eval_task_ids="x").trigger_rule == "all_done"
