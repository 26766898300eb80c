"""`summary`: all results in one place, and no green run that is not finished."""

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_gym_provider.task_groups._summary import GymSummaryOperator
from airflow_gym_provider.task_groups._table import row, table

GREEN = {
    "benchmark": "gpqa",
    "rollouts_done": 20,
    "rollouts_expected": 20,
    "complete": True,
    "metrics": {"mean/reward": 0.25, "z": 1.0},
    "job_ids": ["1", "2"],
    "job_states": ["TIMEOUT", "COMPLETED"],
    "job_id": "2",
    "job_dir": "/out/gpqa",
    "record": "/out/gym-job.json",
    "chain_elapsed_seconds": 90,
}
PLACE = {"benchmark": "aime", "job_id": "3", "job_dir": "/out/aime", "record": "/out/gym-job.json"}


@pytest.fixture
def summary(context):
    """`summary.run()` over what `summary.states` and `summary.xcoms` hold."""
    ti = context["ti"]

    class Summary:
        states = {"g.validate": "success", "g.eval_0": "success", "g.eval_1": "failed"}  # noqa: RUF012
        xcoms = {  # noqa: RUF012
            ("g.validate", None, "return_value"): ["gpqa", "aime"],
            ("g.eval", 0, "return_value"): GREEN,
            ("g.eval", 1, "gym_job"): PLACE,
            ("g.eval", 1, "gym_failure"): {"reason": "aime: FAILED 1:0; chain stopped"},
        }
        pushed = ti.xcoms

        def run(self):
            operator = GymSummaryOperator(task_id="summary", validate_task_id="g.validate", eval_task_id="g.eval")
            return operator.execute(context)

    made = Summary()
    ti.get_task_states = lambda dag_id, task_ids, run_ids: {run_ids[0]: made.states} if dag_id == "nightly" else {}
    ti.xcom_pull = lambda task_ids, map_indexes=None, key="return_value": made.xcoms.get((task_ids, map_indexes, key))
    return made


def test_all_green_is_green(summary):
    summary.states = {"g.validate": "success", "g.eval_0": "success", "g.eval_1": "success"}
    summary.xcoms[("g.eval", 1, "return_value")] = GREEN | {"benchmark": "aime"}
    found = summary.run()
    assert list(found) == ["gpqa", "aime"]
    assert found["gpqa"] == {
        "state": "success",
        "rollouts_done": 20,
        "rollouts_expected": 20,
        "complete": True,
        "metrics": {"mean/reward": 0.25, "z": 1.0},
        "job_ids": ["1", "2"],
        "job_states": ["TIMEOUT", "COMPLETED"],
        "chain_elapsed_seconds": 90,
        "job_dir": "/out/gpqa",
        "record": "/out/gym-job.json",
        "reason": None,
    }


def test_one_that_is_red_makes_it_red_and_hides_nobody(summary, capsys):
    with pytest.raises(AirflowFailException) as caught:
        summary.run()
    assert str(caught.value) == "1 of 2 benchmarks are not green:\n  - aime: FAILED 1:0; chain stopped"
    found = summary.pushed["return_value"]
    assert found["gpqa"]["metrics"] == {"mean/reward": 0.25, "z": 1.0}
    assert (found["aime"]["state"], found["aime"]["job_ids"], found["aime"]["complete"]) == ("failed", ["3"], False)
    assert found["aime"]["reason"] == "FAILED 1:0; chain stopped"
    assert "1 TIMEOUT, 2 COMPLETED" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["upstream_failed", "skipped", "None"])
def test_what_is_not_green_is_red_whatever_it_is_called(summary, state):
    summary.states["g.eval_1"] = state
    summary.xcoms.pop(("g.eval", 1, "gym_failure"))
    with pytest.raises(AirflowFailException, match=f"aime: the task is {state}"):
        summary.run()


def test_another_benchmarks_result_makes_none_green(summary):
    """`validate` was cleared and names others since; the tasks behind it were not."""
    summary.states["g.eval_1"] = "success"
    summary.xcoms[("g.eval", 1, "return_value")] = GREEN | {"benchmark": "mmlu"}
    with pytest.raises(AirflowFailException, match="aime: the task evaluated mmlu instead"):
        summary.run()
    rows = summary.pushed["return_value"]
    assert (rows["aime"]["state"], rows["aime"]["metrics"], rows["aime"]["job_dir"]) == ("not evaluated", {}, None)


def test_a_task_that_is_not_there_any_more_is_red(summary):
    summary.states = {"g.validate": "success", "g.eval_0": "success"}
    summary.xcoms = {key: value for key, value in summary.xcoms.items() if key[0] == "g.validate" or key[1] == 0}
    with pytest.raises(AirflowFailException, match="aime: the task is not there"):
        summary.run()


def test_without_a_sound_config_nothing_was_evaluated(summary):
    summary.states = {"g.validate": "failed", "g.eval": "upstream_failed"}
    with pytest.raises(AirflowFailException, match=r"Nothing was evaluated: g.validate is failed"):
        summary.run()


def test_a_skipped_group_is_skipped_to_its_end(summary):
    summary.states = {"g.validate": "skipped", "g.eval": "skipped"}
    with pytest.raises(AirflowSkipException):
        summary.run()


def test_the_table_is_as_wide_as_it_must_be_and_has_the_reasons_below():
    rows = {
        "gpqa": row("gpqa", "success", GREEN, None, None),
        "aime": row("aime", "failed", None, PLACE, {"reason": "out of memory"}),
    }
    assert table(rows).splitlines() == [
        "benchmark  state    rollouts  jobs                    metrics",
        "-" * 75,
        "gpqa       success  20/20     1 TIMEOUT, 2 COMPLETED  mean/reward=0.25  z=1",
        "aime       failed             3",
        "",
        "aime: out of memory",
    ]
