"""`gym://<cluster>/<benchmark>`: one spelling, and no address that means nothing."""

import pytest
from airflow.sdk import Asset

from airflow_gym_provider.assets import gym_asset


def test_both_ways_to_write_it_are_the_same_asset():
    assert gym_asset("eos", "gpqa") == Asset("gym://eos/gpqa")
    assert (gym_asset("eos", "gpqa").name, gym_asset("eos", "gpqa").uri) == ("gym://eos/gpqa",) * 2


@pytest.mark.parametrize("spelling", ["gym://eos/gpqa/", "GYM://eos/gpqa", "gym://eos/gpqa#now", "gym://e%6Fs/gpqa"])
def test_airflow_normalises_other_spellings(spelling):
    assert Asset(name="mine", uri=spelling).uri == "gym://eos/gpqa"


def test_a_cluster_may_be_called_anything():
    asset = gym_asset("my cluster/1", "gpqa")
    assert asset.uri == "gym://my%20cluster%2F1/gpqa"
    assert Asset(asset.uri).uri == asset.uri


@pytest.mark.parametrize(
    "address", ["gym://eos", "gym://eos/", "gym:///gpqa", "gym://eos/gpqa/x", "gym://eos/gpqa?x=1"]
)
def test_what_names_no_result_is_refused(address):
    with pytest.raises(ValueError, match="gym://<cluster>/<benchmark>"):
        Asset(address)


@pytest.mark.parametrize("names", [("", "gpqa"), ("eos", "")])
def test_an_asset_wants_both_names(names):
    with pytest.raises(ValueError, match="cluster"):
        gym_asset(*names)
