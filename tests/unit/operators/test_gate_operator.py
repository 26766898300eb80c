"""The gate as a task: which run it compares with, what it pushes, and what it does then."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task_group
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_gym_provider.operators.gate import GymGateOperator
from airflow_gym_provider.results import paired

DAY = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """How sure a test is, is tested elsewhere."""
    monkeypatch.setattr(paired, "RESAMPLES", 499)


class Airflow:
    """What a worker may ask of Airflow, over runs that are remembered; answers as Airflow 3.3 gives them.

    XComs are by run, task, map index and key. A pull without map indices is that of all; states are by task id, with
    the map index behind an underscore where there is one.
    """

    def __init__(self) -> None:
        self.xcoms: dict[tuple[str, str, int, str], Any] = {}
        self.dates: dict[str, datetime] = {}
        self.states: dict[str, str] = {}
        self.asked = 0

    def ti(self, run_id: str, index: int = -1) -> SimpleNamespace:
        def push(key: str, value: Any) -> None:
            json.dumps(value, allow_nan=False)
            self.xcoms[run_id, "gate", index, key] = value

        def pull(
            task_ids: list[str],
            key: str = "return_value",
            run_id: str = run_id,
            include_prior_dates: bool = False,
            map_indexes: list[int] | None = None,
        ) -> list[Any]:
            if map_indexes is not None:
                return [self.xcoms.get((run_id, task, at, key)) for task in task_ids for at in map_indexes]
            runs = [run_id]
            if include_prior_dates:
                runs = [other for other, date in self.dates.items() if date <= self.dates[run_id]]
            found = [
                (at[2], value)
                for at, value in self.xcoms.items()
                if at[0] in runs and at[1] in task_ids and at[3] == key
            ]
            return [value for _, value in sorted(found, key=lambda row: row[0])] or [None]

        def states(dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str]]:
            self.asked += 1
            return {
                run: {
                    f"gate{place.removeprefix(run).replace('[', '_').rstrip(']')}": state
                    for place, state in self.states.items()
                    if place.partition("[")[0] == run
                }
                for run in run_ids
            }

        return SimpleNamespace(
            dag_id="d",
            task_id="gate",
            run_id=run_id,
            map_index=index,
            xcom_push=push,
            xcom_pull=pull,
            get_task_states=states,
        )

    def run(
        self, gate: GymGateOperator, run_id: str, date: datetime = DAY, *, by_asset: bool = False, index: int = -1
    ) -> str:
        """One run of the gate; the state of the task is what Airflow would make of it. `index`: it is mapped."""
        self.dates[run_id] = date
        dag_run = SimpleNamespace(logical_date=None if by_asset else date, run_after=date)
        place = run_id if index < 0 else f"{run_id}[{index}]"
        try:
            outcome = gate.execute({"ti": self.ti(run_id, index), "dag_run": dag_run})
        except AirflowFailException:
            self.states[place] = "failed"
            raise
        except AirflowSkipException:
            self.states[place] = "skipped"
            raise
        self.states[place] = "success"
        return outcome

    def verdict(self, run_id: str, index: int = -1) -> dict[str, Any]:
        return self.xcoms[run_id, "gate", index, "gym_verdict"]


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


def result(
    folder: Path, right: int, tasks: int = 40, benchmark: str = "gpqa", expected: int | None = None
) -> dict[str, Any]:
    """What GymEvalOperator returns of a benchmark whose files are there."""
    job_dir = folder / benchmark
    artifacts = job_dir / "artifacts"
    artifacts.mkdir(parents=True)
    rewards = [float(task < right) for task in range(tasks)]
    lines = [
        json.dumps({"reward": reward, "_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": "a"}})
        + "\n"
        for task, reward in enumerate(rewards)
    ]
    (artifacts / "rollouts.jsonl").write_text("".join(lines))
    (artifacts / "rollouts_materialized_inputs.jsonl").write_text("{}\n" * (expected or tasks))
    aggregate = [{"agent_ref": {"name": "a"}, "key_metrics": {"mean/reward": sum(rewards) / tasks}}]
    (artifacts / "rollouts_aggregate_metrics.json").write_text(json.dumps(aggregate))
    return {
        "benchmark": benchmark,
        "job_dir": str(job_dir),
        "run_dir": str(folder),
        "rollouts": str(artifacts / "rollouts.jsonl"),
        "hostname": None,
        "metrics": {"mean/reward": sum(rewards) / tasks},
        "rollouts_done": tasks,
        "rollouts_expected": expected or tasks,
        "complete": expected is None,
    }


def gate(candidate: Any, **more: Any) -> GymGateOperator:
    with DAG("d", schedule=None):
        return GymGateOperator(task_id="gate", candidate=candidate, **more)


def night(number: int) -> datetime:
    return DAY + timedelta(days=number)


def test_night_after_night(airflow: Airflow, tmp_path: Path):
    """Good, worse, good again: what is red is never what the next is compared with."""
    assert airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1)) == "no_baseline"
    with pytest.raises(
        AirflowFailException, match=r"regressed: gpqa mean/reward got worse from 0\.75 to 0\.5 .*run one"
    ):
        airflow.run(gate(result(tmp_path / "2", 20)), "two", night(2))
    assert airflow.run(gate(result(tmp_path / "3", 31)), "three", night(3)) == "pass"
    assert airflow.verdict("three")["benchmarks"]["gpqa"]["baseline"]["label"] == "run one"
    assert airflow.run(gate(result(tmp_path / "4", 31)), "four", night(4)) == "pass"
    assert airflow.verdict("four")["benchmarks"]["gpqa"]["baseline"]["label"] == "run three"


def test_a_backfill_of_an_older_date_takes_no_newer_run(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    airflow.run(gate(result(tmp_path / "5", 40)), "five", night(5))
    assert airflow.run(gate(result(tmp_path / "3", 30)), "three", night(3)) == "pass"
    assert airflow.verdict("three")["benchmarks"]["gpqa"]["baseline"]["label"] == "run one"
    assert airflow.run(gate(result(tmp_path / "0", 30)), "zero", night(0)) == "no_baseline"


def test_a_run_that_is_judged_again_is_not_compared_with_itself(airflow: Airflow, tmp_path: Path):
    mine = result(tmp_path / "1", 30)
    assert airflow.run(gate(mine), "one", night(1)) == "no_baseline"
    assert airflow.run(gate(mine), "one", night(1)) == "no_baseline"


def test_a_run_is_no_baseline_of_itself_under_another_name(airflow: Airflow, tmp_path: Path):
    """Its own id, its own directory, or one that yesterday's gate judged: equal, and no evidence of anything."""
    mine = result(tmp_path / "1", 30)
    by_id = gate(mine, baseline="one")
    by_id.upstream_task_ids.add("eval")
    airflow.xcoms["one", "eval", -1, "return_value"] = mine
    told = rf"inconclusive: .* is the very run that is judged, in {mine['job_dir']}"
    with pytest.raises(AirflowFailException, match=told):
        airflow.run(by_id, "one", night(1))
    with pytest.raises(AirflowFailException, match=told):
        airflow.run(gate(str(tmp_path / "1"), baseline=f"{tmp_path}/1/gpqa/"), "two", night(2))
    assert airflow.run(gate(str(tmp_path / "1")), "three", night(3)) == "no_baseline"
    with pytest.raises(AirflowFailException, match=told):
        airflow.run(gate(str(tmp_path / "1")), "four", night(4))


def test_runs_that_an_asset_started_have_a_date_as_well(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1), by_asset=True)
    assert airflow.run(gate(result(tmp_path / "2", 30)), "two", night(2), by_asset=True) == "pass"


def test_the_gate_of_each_checkpoint_finds_its_own_last_green_run(airflow: Airflow, tmp_path: Path):
    """gate.expand(candidate=…) over two checkpoints: what the one loses is not hidden by the other."""
    for index, right in enumerate((40, 20)):
        assert airflow.run(gate(result(tmp_path / f"1{index}", right)), "one", night(1), index=index) == "no_baseline"
    with pytest.raises(AirflowFailException, match=r"got worse from 1 to 0 .*run one"):
        airflow.run(gate(result(tmp_path / "20", 0)), "two", night(2), index=0)
    assert airflow.run(gate(result(tmp_path / "21", 20)), "two", night(2), index=1) == "pass"
    with pytest.raises(AirflowFailException, match=r"got worse from 1 to 0.5 .*run one"):
        airflow.run(gate(result(tmp_path / "30", 20)), "three", night(3), index=0)
    assert airflow.run(gate(result(tmp_path / "31", 20)), "three", night(3), index=1) == "pass"
    assert airflow.verdict("three", 1)["benchmarks"]["gpqa"]["baseline"]["label"] == "run two"
    airflow.states["two[0]"] = "success"  # by hand
    assert airflow.run(gate(result(tmp_path / "40", 5)), "four", night(4), index=0) == "pass"


@pytest.mark.parametrize("baseline", ["last_green", "one"])
def test_the_gate_of_each_benchmark_is_known_by_it_when_the_list_grows_in_front(
    airflow: Airflow, tmp_path: Path, baseline: str
):
    for index, name in enumerate(("gpqa", "aime")):
        airflow.run(gate(result(tmp_path / "1", 40, benchmark=name)), "one", night(1), index=index)
    accepts = gate(result(tmp_path / "2", 40, benchmark="new"), baseline=baseline)
    if baseline == "last_green":
        assert airflow.run(accepts, "two", night(2), index=0) == "no_baseline"
    else:
        with pytest.raises(AirflowFailException, match=r"new .*has no result of this benchmark"):
            airflow.run(accepts, "two", night(2), index=0)
    assert airflow.run(gate(result(tmp_path / "2", 40), baseline=baseline), "two", night(2), index=1) == "pass"
    with pytest.raises(AirflowFailException, match=r"aime mean/reward got worse from 1 to 0 .*run one"):
        airflow.run(gate(result(tmp_path / "2", 0, benchmark="aime"), baseline=baseline), "two", night(2), index=2)


def test_a_named_run_with_a_mapped_gate_is_that_of_the_same_index(airflow: Airflow, tmp_path: Path):
    for index, right in enumerate((40, 20)):
        airflow.run(gate(result(tmp_path / f"1{index}", right)), "one", night(1), index=index)
    assert airflow.run(gate(result(tmp_path / "21", 20), baseline="one"), "two", night(2), index=1) == "pass"
    with pytest.raises(AirflowFailException, match=r"got worse from 1 to 0\.5"):
        airflow.run(gate(result(tmp_path / "20", 20), baseline="one"), "two", night(2), index=0)
    with pytest.raises(AirflowFailException, match="baseline is 'one', and no run"):  # neither of both
        airflow.run(gate(result(tmp_path / "22", 20), baseline="one"), "two", night(2), index=2)


def test_a_gate_that_was_not_mapped_before_is_the_baseline_of_all(airflow: Airflow, tmp_path: Path):
    """A record of an earlier release, too, which says nothing of map indices."""
    both = [result(tmp_path / "1", 40), result(tmp_path / "1", 40, benchmark="aime")]
    airflow.run(gate(both), "one", night(1))
    for key in ("gym_gate", "gym_verdict"):
        del airflow.xcoms["one", "gate", -1, key]["map_index"]
    for index, name in enumerate(("aime", "gpqa")):
        with pytest.raises(AirflowFailException, match=rf"{name} mean/reward got worse from 1 to 0 .*run one"):
            airflow.run(gate(result(tmp_path / "2", 0, benchmark=name)), "two", night(2), index=index)


def test_a_benchmark_that_vanished_is_noticed_by_a_mapped_gate(airflow: Airflow, tmp_path: Path):
    both = [result(tmp_path / "1", 30), result(tmp_path / "1", 30, benchmark="aime")]
    airflow.run(gate(both), "one", night(1), index=0)
    airflow.run(gate(result(tmp_path / "1", 30, benchmark="mmlu")), "one", night(1), index=1)
    with pytest.raises(AirflowFailException, match="inconclusive: aime has no result in this run"):
        airflow.run(gate(result(tmp_path / "2", 30)), "two", night(2), index=0)
    with pytest.raises(AirflowFailException, match=r"inconclusive: .*has no result in this run"):
        airflow.run(gate([]), "two", night(2), index=1)


def test_in_a_mapped_task_group_the_results_are_those_of_the_same_round(airflow: Airflow, tmp_path: Path):
    @task_group
    def checkpoint(path: str) -> None:
        EmptyOperator(task_id="eval") >> GymGateOperator(task_id="gate")

    with DAG("d", schedule=None) as dag:
        checkpoint.expand(path=["7", "8"])
        outside = EmptyOperator(task_id="outside")
        made = dag.get_task("checkpoint.gate")
        outside >> made
    rights = (40, 20)
    for run_id in ("one", "two"):
        for index, right in enumerate(rights):
            airflow.xcoms[run_id, "checkpoint.eval", index, "return_value"] = result(
                tmp_path / f"{run_id}{index}", right if run_id == "one" else 20
            )
        airflow.xcoms[run_id, "outside", -1, "return_value"] = result(tmp_path / run_id, 40, benchmark="aime")
    for index in range(2):
        assert airflow.run(made, "one", night(1), index=index) == "no_baseline"
        assert airflow.verdict("one", index)["benchmarks"].keys() == {"gpqa", "aime"}
    with pytest.raises(AirflowFailException, match=r"gpqa mean/reward got worse from 1 to 0\.5"):
        airflow.run(made, "two", night(2), index=0)
    assert airflow.run(made, "two", night(2), index=1) == "pass"


def test_what_a_person_marked_counts(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    with pytest.raises(AirflowFailException):
        airflow.run(gate(result(tmp_path / "2", 20)), "two", night(2))
    airflow.states["two"] = "success"
    assert airflow.run(gate(result(tmp_path / "3", 20)), "three", night(3)) == "pass"
    airflow.states["two"] = airflow.states["three"] = "failed"
    with pytest.raises(AirflowFailException, match="run one"):
        airflow.run(gate(result(tmp_path / "4", 20)), "four", night(4))


def test_what_was_skipped_branched_or_let_pass_is_no_baseline(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    with pytest.raises(AirflowSkipException, match="regressed"):
        airflow.run(gate(result(tmp_path / "2", 10), on_regressed="skip"), "two", night(2))
    branched = gate(result(tmp_path / "3", 10), on_regressed="branch", follow_on_pass="p", follow_on_regressed="r")
    followed: list[Any] = []
    branched.do_branch = lambda context, ids: followed.append(ids)  # type: ignore[method-assign]
    assert airflow.run(branched, "three", night(3)) == "regressed"
    few = gate(result(tmp_path / "4", 8, 8), on_inconclusive="pass_with_warning")
    assert airflow.run(few, "four", night(4)) == "inconclusive"
    good = gate(result(tmp_path / "5", 30), on_regressed="branch", follow_on_pass="p", follow_on_regressed="r")
    good.do_branch = branched.do_branch  # type: ignore[method-assign]
    assert airflow.run(good, "five", night(5)) == "pass"
    assert airflow.verdict("five")["benchmarks"]["gpqa"]["baseline"]["label"] == "run one"
    assert followed == ["r", "p"]


@pytest.mark.parametrize(
    ("setting", "raised"), [("fail", AirflowFailException), ("skip", AirflowSkipException), ("accept", None)]
)
def test_no_baseline_is_as_asked(airflow: Airflow, tmp_path: Path, setting: Any, raised: type[Exception] | None):
    task = gate(result(tmp_path / "1", 30), on_no_baseline=setting)
    if raised is None:
        assert airflow.run(task, "one") == "no_baseline"
    else:
        with pytest.raises(raised, match="no_baseline: gpqa: there is no earlier green run to compare with"):
            airflow.run(task, "one")


def test_too_few_tasks_are_red_unless_asked_for_by_name(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 8, 8)), "one", night(1))
    with pytest.raises(AirflowFailException, match=r"inconclusive: .* 8 tasks to compare are fewer"):
        airflow.run(gate(result(tmp_path / "2", 8, 8)), "two", night(2))
    with pytest.raises(AirflowSkipException):
        airflow.run(gate(result(tmp_path / "3", 8, 8), on_inconclusive="skip"), "three", night(3))


def test_an_incomplete_candidate_does_not_pass(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    with pytest.raises(AirflowFailException, match="40 of 41 rollouts"):
        airflow.run(gate(result(tmp_path / "2", 30, expected=41)), "two", night(2))


TWICE = '{"reward": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 0, "agent_ref": {"name": "a"}}'


@pytest.mark.parametrize("other", ["", TWICE])
@pytest.mark.parametrize("which", ["candidate", "baseline"])
def test_as_many_lines_as_expected_are_not_as_many_rollouts(airflow: Airflow, tmp_path: Path, other: str, which: str):
    """The last rollout is missing, and a line that is blank or there twice makes up for it."""
    old, new = result(tmp_path / "1", 30), result(tmp_path / "2", 30)
    path = Path((new if which == "candidate" else old)["rollouts"])
    path.write_text("\n".join([*path.read_text().splitlines()[:-1], other]) + "\n")
    with pytest.raises(AirflowFailException, match=r"inconclusive: .*39 different rollouts of 40"):
        airflow.run(gate(new, baseline=[old]), "one", night(1))


def test_a_benchmark_that_vanished_is_noticed(airflow: Airflow, tmp_path: Path):
    both = [result(tmp_path / "1", 30), result(tmp_path / "1", 30, benchmark="aime")]
    airflow.run(gate([both]), "one", night(1))
    with pytest.raises(AirflowFailException, match="inconclusive: aime has no result in this run"):
        airflow.run(gate(result(tmp_path / "2", 30)), "two", night(2))
    airflow.states["two"] = "success"
    assert airflow.run(gate(result(tmp_path / "3", 30)), "three", night(3)) == "pass"


def test_a_new_benchmark_has_no_baseline_while_the_others_have(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    both = [result(tmp_path / "2", 30), result(tmp_path / "2", 30, benchmark="aime")]
    assert airflow.run(gate(both), "two", night(2)) == "no_baseline"
    verdicts = {name: part["verdict"] for name, part in airflow.verdict("two")["benchmarks"].items()}
    assert verdicts == {"gpqa": "pass", "aime": "no_baseline"}
    both = [result(tmp_path / "3", 30), result(tmp_path / "3", 30, benchmark="aime")]
    assert airflow.run(gate(both), "three", night(3)) == "pass"


def test_a_baseline_whose_files_are_gone_is_inconclusive(airflow: Airflow, tmp_path: Path):
    old = result(tmp_path / "1", 30)
    airflow.run(gate(old), "one", night(1))
    for path in Path(old["job_dir"], "artifacts").iterdir():
        path.unlink()
    with pytest.raises(
        AirflowFailException, match=r"run one has no rewards per task: .*rollouts\.jsonl does not exist"
    ):
        airflow.run(gate(result(tmp_path / "2", 30)), "two", night(2))
    assert airflow.run(gate(result(tmp_path / "3", 30), paired=False), "three", night(3)) == "pass"


def test_run_directories_are_read_whoever_made_them(airflow: Airflow, tmp_path: Path):
    for name, right in (("old", 30), ("new", 20)):
        result(tmp_path / name, right)
        result(tmp_path / name, 30, benchmark="aime")
    with pytest.raises(AirflowFailException, match=r"gpqa mean/reward got worse from 0\.75 to 0\.5"):
        airflow.run(gate(str(tmp_path / "new"), baseline=f"{tmp_path}/old/"), "one")
    told = airflow.verdict("one")["benchmarks"]
    assert {name: part["verdict"] for name, part in told.items()} == {"gpqa": "regressed", "aime": "pass"}
    assert told["aime"]["candidate"]["rollouts_done"] == 40
    one = gate(str(tmp_path / "new" / "aime"), baseline=str(tmp_path / "old" / "aime"))
    assert airflow.run(one, "two") == "pass"
    with pytest.raises(AirflowFailException, match="holds no benchmark"):
        airflow.run(gate(str(tmp_path)), "three")


def test_the_numbers_of_a_harness_are_read_from_a_directory(airflow: Airflow, tmp_path: Path):
    for name, score in (("old", 0.9), ("new", 0.7)):
        folder = tmp_path / name / "own" / "artifacts"
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps({"a": {"score": score}}))
    rules = {"own": {"a.score": {"max_drop_percent": 30}}}
    task = gate(str(tmp_path / "new"), baseline=str(tmp_path / "old"), benchmark_metrics=rules)
    assert airflow.run(task, "one") == "pass"
    task = gate(str(tmp_path / "new"), baseline=str(tmp_path / "old"), metrics={"a.score": {}})
    with pytest.raises(AirflowFailException, match=r"from 0\.9 to 0\.7"):
        airflow.run(task, "two")


def test_a_named_run_and_fixed_numbers(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "1", 20)), "one", night(1))
    airflow.run(gate(result(tmp_path / "2", 30)), "two", night(2))
    assert airflow.run(gate(result(tmp_path / "3", 20), baseline="one"), "three", night(3)) == "pass"
    with pytest.raises(AirflowFailException, match="baseline is 'nine', and no run"):
        airflow.run(gate(result(tmp_path / "4", 20), baseline="nine"), "four", night(4))
    fixed = {"gpqa": {"mean/reward": 0.6}}
    with pytest.raises(AirflowFailException, match=r"from 0\.6 to 0\.5 \(-0\.1\), against the fixed numbers"):
        airflow.run(gate(result(tmp_path / "5", 20), baseline=fixed), "five", night(5))
    with pytest.raises(AirflowFailException, match="numbers are written as"):
        airflow.run(gate(result(tmp_path / "6", 20), baseline={"gpqa": 0.6}), "six", night(6))


@pytest.mark.parametrize("metric", ["mean/reward", "pass@1/accuracy"])
@pytest.mark.parametrize("kind", ["numbers", "directory", "run"])
def test_a_benchmark_that_a_named_baseline_lacks_is_no_first_night(
    airflow: Airflow, tmp_path: Path, metric: str, kind: str
):
    airflow.run(gate(result(tmp_path / "1", 30)), "one", night(1))
    both = [result(tmp_path / "2", 30), result(tmp_path / "2", 30, benchmark="aime")]
    for one in both:
        one["metrics"]["pass@1/accuracy"] = 75.0
    named = {"numbers": {"gpqa": {"mean/reward": 0.5}}, "directory": str(tmp_path / "1"), "run": "one"}[kind]
    rules = {"metrics": {"mean/reward": {}}, "benchmark_metrics": {"aime": {metric: {}}}}
    with pytest.raises(AirflowFailException, match=r"inconclusive: aime .*has no result of this benchmark"):
        airflow.run(gate(both, baseline=named, **rules), "two", night(2))
    assert airflow.verdict("two")["benchmarks"]["gpqa"]["verdict"] == "pass"


def test_results_are_those_of_the_tasks_before_unless_given(airflow: Airflow, tmp_path: Path):
    task = gate(None)
    task.upstream_task_ids.add("eval")
    airflow.xcoms["one", "eval", -1, "return_value"] = result(tmp_path / "1", 30)
    assert airflow.run(task, "one", night(1)) == "no_baseline"
    with pytest.raises(AirflowFailException, match="nothing to compare"):
        airflow.run(task, "empty", night(0))


def test_the_summary_of_a_task_group_will_do(airflow: Airflow, tmp_path: Path):
    def summary(folder: Path, reason: str | None = None) -> dict[str, Any]:
        rows = {
            name: result(folder, 30, benchmark=name) | {"state": "success", "reason": None} for name in ("gpqa", "aime")
        }
        rows["aime"]["reason"] = reason
        return {name: {key: value for key, value in row.items() if key != "benchmark"} for name, row in rows.items()}

    assert airflow.run(gate(summary(tmp_path / "1")), "one", night(1)) == "no_baseline"
    assert airflow.run(gate(summary(tmp_path / "2")), "two", night(2)) == "pass"
    with pytest.raises(AirflowFailException, match=r"inconclusive: aime .*is not complete"):
        airflow.run(gate(summary(tmp_path / "3", "FAILED 1:0")), "three", night(3))
    with pytest.raises(AirflowFailException, match=r"inconclusive: aime: .*it cannot become one"):
        airflow.run(gate(summary(tmp_path / "4", "FAILED 1:0")), "zero", night(0))


def test_two_results_of_one_benchmark_are_refused(airflow: Airflow, tmp_path: Path):
    both = [result(tmp_path / "1", 30), result(tmp_path / "2", 30)]
    with pytest.raises(AirflowFailException, match="two results of gpqa"):
        airflow.run(gate(both), "one")


def test_what_cannot_be_read_is_tried_again(airflow: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from airflow_gym_provider.results import summary

    monkeypatch.setattr(summary, "_functions", lambda: "gym_summary() { frame summary 0 failed; }")
    with pytest.raises(AirflowException, match="could not be summarised") as raised:
        airflow.run(gate(result(tmp_path / "1", 30)), "one")
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"on_regressed": "warn"}, "on_regressed is 'warn'"),
        ({"on_inconclusive": "pass"}, "on_inconclusive is 'pass'"),
        ({"on_no_baseline": "pass"}, "on_no_baseline is 'pass'"),
        ({"on_regressed": "branch"}, "branch needs follow_on_pass"),
    ],
)
def test_settings_are_refused_in_the_dag_file(settings: dict[str, Any], told: str):
    with pytest.raises(ValueError, match=told):
        gate(None, **settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"metrics": {"mean/reward": {"max_dorp": 1}}},
            r"metrics\['mean/reward'\] of the gate cannot .*max_dorp",
        ),
        ({"benchmark_metrics": {"x": {"y": {"max_drop": -1}}}}, r"benchmark_metrics\['x'\]\['y'\].*max_drop is -1"),
        ({"min_pairs": 0}, "min_pairs is 0"),
        ({"candidate": "runs/1"}, "candidate is 'runs/1'"),
    ],
)
def test_settings_that_cannot_be_used_are_no_verdict(airflow: Airflow, settings: dict[str, Any], told: str):
    with pytest.raises(AirflowFailException, match=told):
        airflow.run(gate(**{"candidate": None, **settings}), "one")
    assert airflow.xcoms == {}


def test_states_are_asked_for_a_few_times_only(airflow: Airflow, tmp_path: Path):
    airflow.run(gate(result(tmp_path / "0", 30)), "run0", night(0))
    for number in range(1, 50):
        airflow.xcoms[f"run{number}", "gate", -1, "gym_gate"] = {
            "run_id": f"run{number}",
            "at": night(number).isoformat(),
            "green": ["gpqa"],
            "fails": True,
        }
        airflow.dates[f"run{number}"] = night(number)
        airflow.states[f"run{number}"] = "failed"
    airflow.asked = 0
    assert airflow.run(gate(result(tmp_path / "1", 30)), "last", night(99)) == "pass"
    assert airflow.asked == 3
