from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gym_provider.config import load_submit_config

from .builders import BASE, config, loaded, pair, pool, problems_of, ray, vllm

Write = Callable[..., Path]
_TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\x00\ue0f0\ue0f1"), max_size=30
) | st.sampled_from(
    ["${x}", "\\${x}", "a\\\\${b}\\", "1e5", "007", "off", "null", "12:00:00", "???x", "# a", "@x", "- x"]
)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcXYZ_-09$.", min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_defaults_and_derived_values_are_filled_in() -> None:
    resolved = loaded(config()).resolved()
    policy = resolved["services"]["policy"]
    assert policy["placement"] == "cluster"
    assert policy["health_check"] == {"path": "/health", "port": 8000, "timeout_seconds": 60}
    assert resolved["compute"]["cluster"]["forward_env"] == []
    assert resolved["otel"]["token_env"] == "OTEL_TOKEN"
    assert resolved["driver"]["gym_install"] is None


def test_a_pair_stays_one_entry_with_its_tiers_filled_in() -> None:
    services = loaded(config({"policy": pair()}, {"a": pool(), "b": pool()})).resolved()["services"]
    assert list(services) == ["policy"]
    tiers = [services["policy"][tier] for tier in ("prefill", "decode")]
    assert [tier["data_parallel_rpc_port"] for tier in tiers] == [13345, 13346]
    assert [tier["port"] for tier in tiers] == [8001, 8002]
    assert {tier["container"] for tier in tiers} == {"router/image:1"}
    assert [tier["placement"] for tier in tiers] == ["cluster", "cluster"]


def test_policy_keys_are_shown_and_recognised_on_resubmission() -> None:
    resolved = loaded(config({"policy": vllm(served_model_name="a${x}".replace("$", r"\$"))})).resolved()
    run = resolved["driver"]["benchmarks"]["gpqa"]["run"]
    assert run["policy_base_url"] == "http://localhost:8000/v1"
    again = loaded(resolved)
    assert again.driver.benchmarks["gpqa"].run == {}
    assert again.policy_wiring is not None and again.policy_wiring.model_name == "a${x}"
    assert again.resolved() == resolved
    run["policy_base_url"] = "http://elsewhere:8000/v1"
    assert "driver.benchmarks.gpqa.run.policy_base_url" in problems_of(resolved)


def test_a_deferred_host_survives_resubmission() -> None:
    found = loaded(config(driver={"policy_host": "${oc.env:HEAD_NODE_IP}"}))
    resolved = found.resolved()
    assert resolved["driver"]["benchmarks"]["gpqa"]["run"]["policy_base_url"] == "http://${oc.env:HEAD_NODE_IP}:8000/v1"
    assert loaded(resolved).policy_wiring == found.policy_wiring


def test_a_command_gets_no_policy_keys() -> None:
    resolved = loaded(config(benchmarks={"g": {"command": "./run"}})).resolved()
    assert resolved["driver"]["benchmarks"]["g"]["run"] == {}
    assert loaded(resolved).resolved() == resolved


@pytest.mark.parametrize("resumable", [True, False, {"max_retries": 5, "max_walltime": "10:00:00"}])
def test_resumable_keeps_its_form(resumable: Any) -> None:
    resolved = loaded(config(benchmarks={"g": {"resumable": resumable}})).resolved()
    assert resolved["driver"]["benchmarks"]["g"]["resumable"] == resumable


def test_every_kind_of_service_can_be_submitted_again(write: Write) -> None:
    services = {
        "policy": pair(server_per_node=True),
        "judge": vllm(
            port=9000, node_pool="a", env={"A": r"lit:\${x}", "B": "runtime:B"}, pre_command=r"echo \${X} $Y"
        ),
        "cluster": ray(node_pools=["a", "b"], resources={"a": {"slot": 4}}, num_cpus=2, health_check={"port": 8265}),
    }
    found = loaded(config(services, {"a": pool(2), "b": pool()}, otel={"enabled": False, "gpu_metrics_port": None}))
    assert loaded(found.resolved()).resolved() == found.resolved()
    assert loaded(write(found.resolved_yaml())).resolved() == found.resolved()


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text("abcXYZ_-09$.", min_size=1, max_size=5), _PLAIN, max_size=4), _TEXT, _TEXT)
def test_loading_what_was_resolved_gives_the_same(run: dict[str, Any], text: str, literal: str) -> None:
    source = config({"policy": vllm(pre_command="x", env={"A": "lit:"})}, benchmarks={"g": {}})
    found = load_submit_config(source, environ={})
    # Put literal texts in past composition, as an environment or an escape would.
    policy: Any = found.services["policy"]
    env = {"A": type(policy.env["A"])("lit", f"lit:{literal}", literal)}
    services = {"policy": policy.model_copy(update={"pre_command": text, "env": env})}
    benchmarks = {"g": found.driver.benchmarks["g"].model_copy(update={"run": run})}
    driver = found.driver.model_copy(update={"benchmarks": benchmarks})
    changed = found.model_copy(update={"services": services, "driver": driver})
    for key in ("policy_wiring", "deployed_services", "placement"):
        changed.__dict__.pop(key, None)
    again = load_submit_config(changed.resolved(), environ={})
    assert again.driver.benchmarks["g"].run == run
    again_policy: Any = again.services["policy"]
    assert (again_policy.pre_command, again_policy.env["A"].value) == (text, literal)
    assert again.resolved() == changed.resolved()
    assert yaml.safe_load(changed.resolved_yaml()) == changed.resolved()


@settings(deadline=None, max_examples=60)
@given(_PLAIN)
def test_the_yaml_reads_back_as_what_it_shows(value: Any) -> None:
    source = config(benchmarks={"g": {}})
    found = load_submit_config(source, environ={})
    benchmarks = {"g": found.driver.benchmarks["g"].model_copy(update={"run": {"a": value}})}
    changed = found.model_copy(update={"driver": found.driver.model_copy(update={"benchmarks": benchmarks})})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resolved-config.yaml"
        path.write_text(changed.resolved_yaml(), encoding="utf-8")
        assert load_submit_config(path, environ={}).driver.benchmarks["g"].run == {"a": value}


def test_the_models_do_not_change(write: Write) -> None:
    found = loaded(write(BASE))
    with pytest.raises(ValueError, match="frozen"):
        found.job.output_path = "/x"
