"""The cure in a message is one that helps: it names the level that has the key, and nothing that is refused as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.config.defaults import ConfigDefaults
from airflow_gym_provider.config.load import load_submit_config

from .builders import BASE, config, loaded, pair, pool, problems_of, vllm, warnings_of

Write = Callable[..., Path]
POOLS = {"a": pool(), "b": pool()}


def _pair(**fields: Any) -> dict[str, Any]:
    return config({"policy": pair(**fields)}, POOLS)


@pytest.mark.parametrize(
    ("source", "place", "cure"),
    [
        (
            _pair(prefill={"node_pool": "a", "nixl_side_channel_port": 1}),
            "services.policy.prefill.nixl_side_channel_port",
            "set it on services.policy",
        ),
        (
            _pair(decode={"node_pool": "b", "server_per_node": True}),
            "services.policy.decode.server_per_node",
            "set it on services.policy",
        ),
        (_pair(data_parallel_rpc_port=1), "services.policy.data_parallel_rpc_port", "set it in prefill and decode"),
        (_pair(tensor_parallel_size=1), "services.policy.tensor_parallel_size", "set it in prefill and decode"),
        (config(compute={"partition": "x"}), "compute.cluster.partition", "set it in node_pools.<name>"),
        (
            config(pools={"main": pool(walltime="1:00:00")}),
            "compute.cluster.node_pools.main.walltime",
            "set it on compute.cluster",
        ),
        (config(driver={"resumable": True}), "driver.resumable", "set it in benchmarks.<name>"),
        (config(benchmarks={"g": {"mounts": []}}), "driver.benchmarks.g.mounts", "set it on driver"),
        (config({"policy": vllm(timeout_seconds=9)}), "services.policy.timeout_seconds", "set it in health_check"),
        (config({"policy": vllm(prot=9)}), "services.policy.prot", "did you mean 'port'?"),
    ],
)
def test_a_key_of_another_level_is_sent_there(source: Any, place: str, cure: str) -> None:
    problems = problems_of(source)
    assert list(problems) == [place]
    assert "is not a known key" in problems[place] and problems[place].endswith(cure)


def test_a_misspelt_key_and_the_required_one_it_was_meant_to_be_are_one_problem() -> None:
    source = config({"policy": {"type": "vllm", "contaner": "c", "model": "m"}}, {"main": {"partiton": "x"}})
    assert problems_of(source) == {
        "services.policy.contaner": "is not a known key; did you mean 'container'? container is required",
        "compute.cluster.node_pools.main.partiton": (
            "is not a known key; did you mean 'partition'? partition is required"
        ),
    }
    twice = problems_of(config(pools={"main": {"partiton": "x", "partitoin": "y"}}))
    assert len(twice) == 2 and str(twice).count("is required") == 1
    there = problems_of(config(pools={"main": pool(partiton="x")}))
    assert "required" not in str(there) and len(there) == 1


def test_a_value_that_is_none_of_those_possible_is_shown() -> None:
    problems = problems_of(_pair(prefill={"node_pool": "a", "type": "ray"}))
    assert problems == {"services.policy.prefill.type": "must be 'vllm', not 'ray'"}


@pytest.mark.parametrize("override", ["_new=x", "_images.b=2", "_images={b: 2}", "_new.a=x"])
def test_nobody_is_told_to_add_a_scratch_key(override: str) -> None:
    ((_, what),) = problems_of({**config(), "_images": {"a": 1}}, [override]).items()
    assert "write +" not in what and "scratch key cannot be added" in what


@pytest.mark.parametrize("override", ["=x", "+=x", "++=x", "~=x", "~", " =x"])
def test_an_override_without_a_key_is_refused_as_what_it_is(write: Write, override: str) -> None:
    for source in (config(), write(BASE)):
        ((place, what),) = problems_of(source, [override]).items()
        assert place.startswith("override '")
        assert "has no key" in what and "key=value" in what


@pytest.mark.parametrize(
    "more",
    [
        {"job": {"output_path": "${job.output_path}/x"}},
        {"_a": "${_b}", "_b": "${_a}", "job": {"output_path": "${_a}"}},
        {"_n": {"x": "${_n}"}, "job": {"output_path": "${_n.x}"}},
    ],
)
def test_an_interpolation_that_refers_to_itself_gets_no_cure_for_shells(more: dict[str, Any]) -> None:
    what = problems_of({**config(), **more})["job.output_path"]
    assert "refers to itself" in what and "write a value" in what and "shell" not in what


def test_a_cap_below_one_jobs_walltime_cuts_the_job() -> None:
    benchmarks = {"g": {"resumable": {"max_walltime": "1:00:00"}}}
    (told,) = warnings_of(config(compute={"walltime": "4:00:00"}, benchmarks=benchmarks))
    assert "1:00:00 is less than one job's walltime, 4:00:00: the first job's is cut to it" in told
    assert "exceed" not in told
    assert not warnings_of(config(compute={"walltime": "1:00:00"}, benchmarks=benchmarks))


def test_what_a_connection_may_give_is_told_as_before() -> None:
    source = config()
    del source["compute"]["cluster"]["account"]
    with pytest.raises(SubmitConfigError, match="account: is required: the config does not give it, nor does here"):
        load_submit_config(source, environ={}, defaults=ConfigDefaults(source="here"))
    assert loaded(config()).cluster.account == "acct"
