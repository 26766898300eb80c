"""Two runs side by side, task by task."""

from __future__ import annotations

from airflow_gym_provider.results import Task, TaskRewards, compare_tasks


def run(*rewards: tuple[int, float | None], agent: str = "solver", prompt: str = "5") -> TaskRewards:
    return TaskRewards.of(Task(agent, str(index), 2, reward, prompt) for index, reward in rewards)


def test_the_largest_drop_comes_first_and_equal_ones_in_the_order_of_tasks():
    found = compare_tasks(run((2, 1.0), (10, 1.0), (9, 1.0), (3, 0.0)), run((2, 0.5), (10, 0.0), (9, 0.0), (3, 1.0)))
    assert [row["task"] for row in found.rows()] == ["9", "10", "2", "3"]
    assert found.rows()[0] == {
        "task": "9",
        "baseline": 1.0,
        "candidate": 0.0,
        "difference": -1.0,
        "baseline_n": 2,
        "candidate_n": 2,
    }
    assert found.counts() == {
        "tasks": 4,
        "worse": 3,
        "better": 1,
        "equal": 0,
        "only_baseline": 0,
        "only_candidate": 0,
        "changed": 0,
        "without_reward": 0,
    }


def test_a_page_holds_no_more_rows_than_asked_for():
    found = compare_tasks(run(*((at, 1.0) for at in range(2000))), run(*((at, at / 2000) for at in range(2000))))
    assert len(found.rows()) == 500
    assert [row["task"] for row in found.rows(2, 3)] == ["3", "4"]


def test_tasks_of_one_run_only_are_counted_not_compared():
    found = compare_tasks(run((1, 1.0), (2, 1.0), (3, None)), run((2, 1.0), (3, 1.0), (4, 1.0), (5, 0.0)))
    assert [pair.task for pair in found.pairs] == ["2"]
    assert (found.only_baseline, found.only_candidate, found.without_reward, found.left_out) == (1, 2, 1, 4)


def test_agents_do_not_mix():
    both = TaskRewards.of([Task("a", "1", 1, 0.0, "0"), Task("b", "1", 1, 1.0, "0")])
    assert sorted(both) == ["a/1", "b/1"]
    assert [pair.difference for pair in compare_tasks(both, both).pairs] == [0.0, 0.0]
    # the one agent of a benchmark may have been renamed
    assert len(compare_tasks(run((1, 1.0), agent="old"), run((1, 1.0), agent="new")).pairs) == 1


def test_nothing_in_common():
    found = compare_tasks(run(), run((1, 1.0)))
    assert (found.pairs, found.rows(), found.repeats) == ((), [], (0.0, 0.0))
