from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import render_job_script

from .stage import config_of


def _words(script: str) -> list[str]:
    head = script.split("\n\n", 1)[0].splitlines()
    assert head[0] == "#!/bin/bash"
    return [word for line in head[1:] for word in shlex.split(line.removeprefix("#SBATCH"), comments=True)]


def _render(**compute: Any) -> list[str]:
    cluster = {"type": "slurm", "account": "acct", **compute}
    return _words(render_job_script(config_of({"compute": {"cluster": cluster}}), "bench", "/lustre/my evals/bench"))


def test_the_managed_directives_in_order() -> None:
    pool = {"partition": "batch", "ntasks_per_node": 2, "gpus_per_node": 8}
    words = _render(walltime="1-02:00:00", node_pools={"a": {**pool, "nodes": 2}, "b": {**pool, "nodes": 3}})
    assert words == [
        "--job-name=gym-bench",
        "--account=acct",
        "--time=1-02:00:00",
        "--chdir=/lustre/my evals/bench",
        "--partition=batch",
        "--nodes=5",
        "--ntasks-per-node=2",
        "--gpus-per-node=8",
        "--no-requeue",
    ]


def test_what_is_not_set_is_left_to_the_cluster() -> None:
    assert _render() == ["--job-name=gym-bench", "--account=acct", "--chdir=/lustre/my evals/bench", "--no-requeue"]


def test_zero_gpus_are_a_declared_number() -> None:
    assert "--gpus-per-node=0" in _render(node_pools={"a": {"partition": "p", "gpus_per_node": 0}})


def test_extra_args_of_the_job_and_of_its_pools_are_each_given_once() -> None:
    pools = {
        "a": {"partition": "p", "extra_args": {"constraint": "h100", "qos": "high"}},
        "b": {"partition": "p", "extra_args": {"reservation": "r1", "constraint": "h100"}},
    }
    words = _render(extra_args={"comment": 'it\'s #1 "\\" $HOME', "exclusive": ""}, node_pools=pools)
    comment = '--comment=it\'s #1 "\\" $HOME'
    assert words[-6:-1] == [comment, "--exclusive", "--constraint=h100", "--qos=high", "--reservation=r1"]
    assert set(Counter(word.split("=")[0] for word in words).values()) == {1}


@pytest.mark.parametrize("level", ["job", "pool"])
def test_requeueing_is_off_unless_asked_for(level: str) -> None:
    extra = {"extra_args": {"requeue": ""}}
    words = _render(**extra) if level == "job" else _render(node_pools={"a": {"partition": "p", **extra}})
    assert "--requeue" in words and "--no-requeue" not in words
    assert "--no-requeue" in _render(extra_args={"no-requeue": ""})


def test_pools_that_disagree_are_refused_all_at_once() -> None:
    pools = {
        "a": {"partition": "p", "gpus_per_node": 8, "extra_args": {"gres": "shard:8"}},
        "b": {"partition": "q", "extra_args": {"gres": "shard:4"}},
    }
    with pytest.raises(SubmitConfigError) as refusal:
        _render(node_pools=pools)
    for told in ("partition", "gpus_per_node", "shard:8", "shard:4"):
        assert told in str(refusal.value)


def test_no_value_can_add_a_directive() -> None:
    tree = {
        "driver": {
            "env": {"X": "lit:a\n#SBATCH --nodes=9\n"},
            "benchmarks": {"bench": {"command": "#SBATCH --nodes=9\ntrue"}},
        }
    }
    script = render_job_script(config_of(tree), "bench", "/x")
    assert script.index("set -uo pipefail") < script.index("#SBATCH --nodes=9\ntrue")
    assert not any(word.startswith("--nodes=9") for word in _words(script))
