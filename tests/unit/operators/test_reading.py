"""The rollouts of a finished chain, read by a real bash before the task is green."""

import json
from types import SimpleNamespace

import pytest

from airflow_gym_provider.exceptions import SlurmAnswerCutError, SlurmShellError, SlurmUnreachableError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators._cluster import Cluster
from airflow_gym_provider.operators._plan import ChainPlan


def cluster_of(hook, folder, judged_by="rollouts"):
    results = {"rollouts_path": f"{folder}/rollouts.jsonl", "require_complete": True, "judged_by": judged_by}
    return Cluster(hook, ChainPlan("gpqa", str(folder), str(folder), "gym-gpqa-1", {}, results, {}))


def test_rollouts_are_told_from_lines_where_they_lie(tmp_path):
    lines = [json.dumps({"_ng_task_index": at % 50, "_ng_rollout_index": 0, "reward": 1.0}) for at in range(99)]
    (tmp_path / "rollouts.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    with SlurmHook() as hook:
        summary = cluster_of(hook, tmp_path).summarise()
    assert (summary.rollouts, summary.duplicates, summary.unreadable, summary.problem) == (50, 49, 1, "")


def failing(error):
    def run(*_):
        raise error

    return SimpleNamespace(run=run)


def test_an_answer_that_is_cut_off_says_nothing_about_the_rollouts(tmp_path):
    """What takes longer than its time is one, and is not begun for ever: the caller counts."""
    summary = cluster_of(failing(SlurmAnswerCutError("no answer in 1800 s")), tmp_path).summarise()
    assert (summary.problem, summary.missing, summary.rollouts) == ("no answer in 1800 s", False, 0)


@pytest.mark.parametrize("error", [SlurmUnreachableError("away"), SlurmShellError("no bash")])
@pytest.mark.parametrize("judged_by", ["rollouts", "exit_status"])
def test_a_login_node_that_is_away_is_as_away_as_at_any_other_time(tmp_path, error, judged_by):
    """Also for a harness of one's own, whose numbers come with the same answer."""
    with pytest.raises(type(error), match=str(error)):
        cluster_of(failing(error), tmp_path, judged_by).summarise()
