"""Config > connection > default, for account, partition and output path."""

import copy

import pytest

from airflow_gym_provider.config import ConfigDefaults, SubmitConfigError, load_submit_config

from .builders import config, pool

GIVEN = ConfigDefaults("conn-acct", "conn-part", "/conn/path", "connection 'eos'")


def bare(**compute):
    """A config that leaves out all three."""
    tree = config(pools={"main": {"nodes": 1}}, compute=compute)
    del tree["compute"]["cluster"]["account"], tree["job"]
    return tree


def load(tree, overrides=(), defaults=GIVEN):
    return load_submit_config(tree, list(overrides), {}, defaults=defaults)


def test_what_the_config_leaves_out_comes_from_the_connection():
    made = load(bare())
    assert made.cluster.account == "conn-acct"
    assert made.cluster.node_pools["main"].partition == "conn-part"
    assert made.job.output_path == "/conn/path"
    assert dict(made.origins) == {
        "compute.cluster.account": "connection 'eos'",
        "compute.cluster.node_pools.main.partition": "connection 'eos'",
        "job.output_path": "connection 'eos'",
    }


def test_the_config_wins():
    made = load(config())
    assert (made.cluster.account, made.cluster.node_pools["main"].partition) == ("acct", "batch")
    assert made.job.output_path == "/scratch/evals"
    assert not made.origins


def test_an_override_is_the_config():
    made = load(bare(), ["+job.output_path=/mine", "+compute.cluster.account=mine"])
    assert (made.job.output_path, made.cluster.account) == ("/mine", "mine")
    assert list(made.origins) == ["compute.cluster.node_pools.main.partition"]


@pytest.mark.parametrize("nothing", [None, "???"])
def test_null_and_missing_count_as_left_out(nothing):
    tree = bare(account=nothing, node_pools={"main": {"partition": nothing}}) | {"job": {"output_path": nothing}}
    made = load(tree)
    assert made.cluster.account == "conn-acct"
    assert made.job.output_path == "/conn/path"
    assert made.cluster.node_pools["main"].partition == "conn-part"


@pytest.mark.parametrize("pools", [None, {}])
def test_a_config_without_pools_gets_one_of_one_node(pools):
    made = load(bare(node_pools=pools))
    assert made.cluster.total_nodes == 1
    assert [item.partition for item in made.cluster.node_pools.values()] == ["conn-part"]


def test_each_pool_without_a_partition_gets_it():
    made = load(bare(node_pools={"a": {}, "b": pool(partition="own")}))
    assert [item.partition for item in made.cluster.node_pools.values()] == ["conn-part", "own"]


def test_what_refers_to_a_default_sees_it():
    tree = bare()
    tree["driver"]["benchmarks"]["gpqa"] = {"run": {"data": "${job.output_path}/data"}}
    assert load(tree).driver.benchmarks["gpqa"].run["data"] == "/conn/path/data"


def test_a_default_is_literal():
    made = load(bare(), defaults=ConfigDefaults("a${oc.env:HOME}b", "p", "/o"))
    assert made.cluster.account == "a${oc.env:HOME}b"


def test_the_resolved_config_holds_them_and_needs_no_connection():
    made = load(bare())
    again = load_submit_config(made.resolved(), [], {})
    assert again.resolved() == made.resolved()


def test_a_wrong_default_is_told_with_its_source():
    with pytest.raises(SubmitConfigError) as caught:
        load(bare(), defaults=ConfigDefaults("a\nb", "p", "relative", "connection 'eos'"))
    told = {problem.where: problem.what for problem in caught.value.problems}
    assert "(this value is from connection 'eos')" in told["compute.cluster.account"]
    assert "'relative' must be an absolute path" in told["job.output_path"]
    assert "(this value is from connection 'eos')" in told["job.output_path"]


def test_what_neither_gives_is_told_with_both_places():
    with pytest.raises(SubmitConfigError) as caught:
        load(bare(), defaults=ConfigDefaults(source="connection 'eos'"))
    told = {problem.where: problem.what for problem in caught.value.problems}
    both = "is required: the config does not give it, nor does connection 'eos'"
    assert told["compute.cluster.account"] == both
    assert told["compute.cluster.node_pools.main.partition"] == both
    assert told["job"] == both


def test_wrong_shapes_are_still_told():
    tree = bare() | {"compute": "here", "job": ["/x"]}
    with pytest.raises(SubmitConfigError) as caught:
        load(copy.deepcopy(tree))
    assert {problem.where for problem in caught.value.problems} >= {"compute", "job"}


def test_without_defaults_nothing_changes():
    with pytest.raises(SubmitConfigError) as caught:
        load(bare(), defaults=None)
    assert {str(problem) for problem in caught.value.problems} >= {"compute.cluster.account: is required"}
