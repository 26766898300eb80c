from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import render_job_script

from .stage import Call, Job, Played, config_of, play


def _vllm(**fields: Any) -> dict[str, Any]:
    return {"type": "vllm", "container": "c", "model": "org/model", **fields}


def _tree(services: dict[str, Any], pools: dict[str, tuple[int, int | None]], **driver: Any) -> dict[str, Any]:
    node_pools = {
        name: {"partition": "p", "nodes": nodes, "gpus_per_node": gpus} for name, (nodes, gpus) in pools.items()
    }
    cluster = {"type": "slurm", "account": "a", "node_pools": node_pools}
    return {
        "services": services,
        "compute": {"cluster": cluster},
        "driver": {"policy_model": next(iter(services)), **driver},
    }


def _play(tree: dict[str, Any], tmp_path: Path, expect: dict[str, int], **job: Any) -> Played:
    played = play(Job(config_of(tree), expect=expect, **job), tmp_path)
    assert played.status == 0, played.output + played.log("driver")
    return played


def _by_node(calls: list[Call]) -> dict[str, Call]:
    assert len({call.node for call in calls}) == len(calls), [call.argv for call in calls]
    return {call.node: call for call in calls}


def test_data_parallel_ranks_over_nodes(tmp_path: Path) -> None:
    extra = """--api-server-count 4 --hf-overrides '{"a": ["b"]}' --api_server_count=2"""
    tree = _tree({"policy": _vllm(number_of_instances=6, extra_args=extra)}, {"main": (3, 2)})
    servers = _by_node(_play(tree, tmp_path, {"vllm": 3}).of("vllm"))
    head, *others = (servers[f"n{node}"] for node in range(3))
    assert "--headless" not in head.argv and head.argv.count("--api-server-count") == 1
    assert [call.flag("--data-parallel-start-rank") for call in others] == ["2", "4"]
    for call in others:
        assert "--headless" in call.argv
        assert not any("server-count" in word or "server_count" in word for word in call.argv)
    for call in servers.values():
        assert call.flag("--data-parallel-size") == "6"
        assert call.flag("--data-parallel-size-local") == "2"
        assert call.flag("--data-parallel-address") == "10.0.0.1"
        assert call.flag("--data-parallel-rpc-port") == "13345"
        assert call.flag("--hf-overrides") == '{"a": ["b"]}'


def test_a_pinned_service_meets_at_its_own_first_node(tmp_path: Path) -> None:
    services = {"policy": _vllm(node_pool="a"), "judge": _vllm(node_pool="b", port=8100, number_of_instances=2)}
    played = _play(_tree(services, {"a": (1, None), "b": (2, None)}), tmp_path, {"vllm": 3})
    judges = [call for call in played.of("vllm") if call.flag("--port") == "8100"]
    assert sorted(_by_node(judges)) == ["n1", "n2"]
    assert {call.flag("--data-parallel-address") for call in judges} == {"10.0.0.2"}
    assert [call.argv[-1] for call in played.of("curl")] == ["http://localhost:8000/health", "http://n1:8100/health"]


def test_one_instance_over_nodes_with_head_and_workers_by_hand(tmp_path: Path) -> None:
    services = {"policy": _vllm(node_pool="a"), "big": _vllm(node_pool="b", port=8100, tensor_parallel_size=8)}
    played = _play(_tree(services, {"a": (1, None), "b": (3, None)}), tmp_path, {"vllm": 2, "ray": 3})
    (server,) = [call for call in played.of("vllm") if call.flag("--port") == "8100"]
    assert server.node == "n1"
    assert server.flag("--distributed-executor-backend") == "ray"
    assert server.env["RAY_ADDRESS"] == "10.0.0.2:6379"
    starts = _by_node(played.of("ray"))
    assert starts["n1"].argv == ["start", "--head", "--port=6379"]
    for node in ("n2", "n3"):
        assert starts[node].argv == ["start", "--address=10.0.0.2:6379", "--block"]


def test_one_instance_over_nodes_with_symmetric_run(tmp_path: Path) -> None:
    services = {"policy": _vllm(tensor_parallel_size=8, model="/m/it's", pre_command="unset RAY_ADDRESS")}
    played = _play(_tree(services, {"main": (2, None)}), tmp_path, {"ray": 2, "vllm": 2}, symmetric=True)
    for call in _by_node(played.of("ray")).values():
        assert call.argv[:6] == ["symmetric-run", "--address", "10.0.0.1:6379", "--min-nodes", "2", "--"]
        assert call.argv[6:11] == ["env", "RAY_ADDRESS=10.0.0.1:6379", "vllm", "serve", "/m/it's"]
        assert call.env["RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT"] == "60"


def test_all_steps_of_a_job_with_ray_share_a_token_made_for_it(tmp_path: Path) -> None:
    tree = _tree({"policy": _vllm(tensor_parallel_size=8)}, {"main": (2, None)})
    played = _play(tree, tmp_path, {"ray": 2, "vllm": 1})
    (token,) = {call.env["RAY_AUTH_TOKEN"] for call in (*played.of("ray"), *played.of("vllm"), *played.of("gym"))}
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert {call.env["RAY_AUTH_MODE"] for call in played.of("ray")} == {"token"}


def test_what_the_submitting_environment_says_of_rays_token_wins(tmp_path: Path) -> None:
    tree = _tree({"policy": _vllm(tensor_parallel_size=8)}, {"main": (2, None)})
    for environ in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "mine"}, {"RAY_AUTH_TOKEN_PATH": "/t"}):
        call = _play(tree, tmp_path / "".join(environ), {"ray": 2, "vllm": 1}, environ=environ).of("vllm")[0]
        assert environ.items() <= call.env.items()
        assert call.env.get("RAY_AUTH_TOKEN") == environ.get("RAY_AUTH_TOKEN")


def test_the_driver_does_not_join_the_ray_of_a_vllm_beside_it(tmp_path: Path) -> None:
    tree = _tree({"policy": _vllm(tensor_parallel_size=8)}, {"main": (2, None)})
    assert _play(tree, tmp_path / "a", {"ray": 2, "vllm": 1}).of("gym")[0].env["RAY_ADDRESS"] == "local"
    tree["driver"]["env"] = {"RAY_ADDRESS": "lit:auto"}
    assert _play(tree, tmp_path / "b", {"ray": 2, "vllm": 1}).of("gym")[0].env["RAY_ADDRESS"] == "auto"
    beside = _tree({"policy": _vllm(), "ray": {"type": "ray", "container": "ray"}}, {"main": (1, None)})
    assert "RAY_ADDRESS" not in _play(beside, tmp_path / "c", {"ray": 1, "vllm": 1}).of("gym")[0].env


def test_the_driver_follows_the_policy_and_sees_where_everything_is(tmp_path: Path) -> None:
    services = {"policy": _vllm(node_pool="gpu-a100.v2"), "judge": _vllm(node_pool="judge", port=8100)}
    env = {"JUDGE_HOST": "runtime:GYM_POOL_JUDGE_NODES"}
    tree = _tree(services, {"judge": (1, None), "gpu-a100.v2": (2, None)}, env=env)
    (gym,) = _play(tree, tmp_path, {}).of("gym")
    assert gym.node == "n1"
    assert gym.env["JUDGE_HOST"] == gym.env["GYM_POOL_JUDGE_NODES"] == "n0"
    assert gym.env["GYM_POOL_GPU_A100_V2_NODES"] == "n1,n2"
    assert gym.env["HEAD_NODE_IP"] == "10.0.0.1"
    assert gym.env["RAY_HEAD_NODE_IP"] == "10.0.0.2"


def test_a_name_with_a_loopback_address_is_looked_up_where_it_is(tmp_path: Path) -> None:
    tree = _tree({"policy": _vllm(number_of_instances=2)}, {"main": (2, None)})
    loopback = tmp_path / "loopback"
    loopback.write_text("getent() { echo '127.0.1.1 STREAM x'; }\nhostname() { echo '192.0.2.7 fe80::1'; }\n")
    job = {"environ": {"BASH_ENV": str(loopback), "SLURMD_NODENAME": "n0"}}
    played = _play(tree, tmp_path, {"vllm": 2}, **job)
    assert {call.flag("--data-parallel-address") for call in played.of("vllm")} == {"192.0.2.7"}


def test_a_job_with_fewer_nodes_than_it_needs_says_so(tmp_path: Path) -> None:
    tree = _tree({"policy": _vllm(number_of_instances=2)}, {"main": (2, None)})
    played = play(Job(config_of(tree), environ={"SLURM_JOB_NODELIST": "n0"}), tmp_path)
    assert played.status == 1
    assert "needs 2 nodes and has 1: n0" in played.output


def _pair(**fields: Any) -> dict[str, Any]:
    tiers = {"prefill": {"node_pool": "p"}, "decode": {"node_pool": "d"}}
    return {"type": "vllm_pd", "container": "router", "model": "/ckpt", **tiers, **fields}


def test_prefill_and_decode_behind_a_router(tmp_path: Path) -> None:
    decode = {"node_pool": "d", "pre_command": "export NCCL_DEBUG=WARN", "env": {"UCX_TLS": "lit:rc,cuda_copy"}}
    tree = _tree({"llm": _pair(decode=decode)}, {"p": (1, None), "d": (1, None)})
    played = _play(tree, tmp_path, {"vllm": 2, "vllm-router": 1})
    servers = _by_node(played.of("vllm"))
    for node, port, role, channel in (("n0", "8001", "kv_producer", "5600"), ("n1", "8002", "kv_consumer", "5601")):
        call = servers[node]
        assert call.flag("--port") == port
        assert json.loads(call.flag("--kv-transfer-config") or "") == {
            "kv_connector": "NixlConnector",
            "kv_role": role,
            "kv_load_failure_policy": "fail",
        }
        assert call.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == node
        assert call.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == channel
    assert servers["n1"].env["NCCL_DEBUG"] == "WARN" and servers["n1"].env["UCX_TLS"] == "rc,cuda_copy"
    assert not {"NCCL_DEBUG", "UCX_TLS"} & servers["n0"].env.keys()
    (router,) = played.of("vllm-router")
    assert router.node == "n0"
    assert router.argv == [
        "--vllm-pd-disaggregation", "--host", "0.0.0.0", "--port", "8000",
        "--prefill", "http://n0:8001", "--decode", "http://n1:8002",
        "--prefill-policy", "cache_aware", "--decode-policy", "cache_aware", "--intra-node-data-parallel-size", "1",
        "--request-timeout-secs", "86400", "--log-level", "error", "--worker-startup-timeout-secs", "180",
        "--worker-startup-check-interval", "5", "--prometheus-port", router.flag("--prometheus-port"),
    ]  # fmt: skip
    assert [call.argv[-1] for call in played.of("curl")] == [
        "http://localhost:8001/health",
        "http://n1:8002/health",
        "http://localhost:8000/health",
    ]
    assert {path.name for path in (played.folder / "logs").iterdir()} == {
        f"{name}-4242.log" for name in ("llm-prefill", "llm-decode", "llm", "driver")
    }


def test_a_server_on_every_node_of_a_tier(tmp_path: Path) -> None:
    tree = _tree({"llm": _pair(server_per_node=True)}, {"p": (2, None), "d": (3, None)})
    played = _play(tree, tmp_path, {"vllm": 5, "vllm-router": 1})
    servers = _by_node(played.of("vllm"))
    assert [servers[f"n{node}"].flag("--port") for node in range(5)] == ["8001", "8001", "8002", "8002", "8002"]
    assert not any("data-parallel" in word or "headless" in word for call in servers.values() for word in call.argv)
    (router,) = played.of("vllm-router")
    urls = [word for word in router.argv if word.startswith("http")]
    assert urls == [f"http://n{node}:{8001 if node < 2 else 8002}" for node in range(5)]
    assert len(played.of("curl")) == 6


def test_data_parallel_tiers_meet_on_their_own_pools_and_ports(tmp_path: Path) -> None:
    tiers = {name: {"node_pool": name[0], "number_of_instances": 2} for name in ("prefill", "decode")}
    tree = _tree({"llm": _pair(**tiers)}, {"p": (2, None), "d": (2, None)})
    servers = _by_node(_play(tree, tmp_path, {"vllm": 4, "vllm-router": 1}).of("vllm"))
    found = [
        (
            call.flag("--data-parallel-address"),
            call.flag("--data-parallel-rpc-port"),
            call.flag("--data-parallel-start-rank"),
        )
        for call in (servers[f"n{node}"] for node in range(4))
    ]
    first, second = ("10.0.0.1", "13345"), ("10.0.0.3", "13346")
    assert found == [(*first, None), (*first, "1"), (*second, None), (*second, "1")]


def test_a_ray_cluster_beside_the_driver(tmp_path: Path) -> None:
    ray = {
        "type": "ray", "container": "ray/image", "node_pools": ["gpu", "aux"], "num_cpus": 12, "num_gpus": 0,
        "resources": {"gpu": {"fast": 1}, "aux": {"extra_gpu": 4}},
        "extra_args": "--include-dashboard=false --redis-shard-ports 1 --verbose --port 7",
        "env": {"RAY_DEDUP_LOGS": "lit:0"},
    }  # fmt: skip
    tree = _tree({"policy": _vllm(node_pool="gpu"), "my-ray.v2": ray}, {"gpu": (1, 4), "aux": (2, 4)})
    played = _play(tree, tmp_path, {"ray": 3, "vllm": 1})
    starts = _by_node(played.of("ray"))
    assert starts["n0"].argv == [
        "start", "--head", "--port=6379", "--num-cpus=12", "--num-gpus=0", '--resources={"fast": 1}',
        "--include-dashboard=false", "--redis-shard-ports", "1", "--verbose", "--port", "7", "--block",
    ]  # fmt: skip
    for node in ("n1", "n2"):
        assert starts[node].argv == [
            "start", "--address=10.0.0.1:6379", "--num-cpus=12", "--num-gpus=0", '--resources={"extra_gpu": 4}',
            "--verbose", "--block",
        ]  # fmt: skip
        assert starts[node].env["RAY_DEDUP_LOGS"] == "0"
    assert played.of("gym")[0].env["GYM_RAY_ADDRESS_MY_RAY_V2"] == "n0:6379"
    assert (played.folder / "logs" / "my-ray.v2_aux_workers-4242.log").exists()


def test_a_ray_cluster_over_pools_that_the_driver_is_not_in(tmp_path: Path) -> None:
    ray = {"type": "ray", "container": "ray", "node_pools": ["aux"], "resources": {"aux": {"x": 2}}}
    tree = _tree({"policy": _vllm(node_pool="gpu"), "ray": ray}, {"gpu": (1, None), "aux": (2, None)})
    starts = _by_node(_play(tree, tmp_path, {"ray": 3}).of("ray"))
    assert starts["n0"].argv == ["start", "--head", "--port=6379", "--block"]
    assert starts["n2"].argv[1:3] == ["--address=10.0.0.1:6379", '--resources={"x": 2}']


def test_a_ray_cluster_on_one_node(tmp_path: Path) -> None:
    tree = {"services": {"ray": {"type": "ray", "container": "ray"}}}
    played = play(Job(config_of(tree), expect={"ray": 1}), tmp_path)
    assert played.status == 0
    assert played.of("gym")[0].env["GYM_RAY_ADDRESS_RAY"] == "n0:6379"


def test_a_worker_that_dies_is_noticed_like_a_head(tmp_path: Path) -> None:
    service = _vllm(
        number_of_instances=2, pre_command='[[ "$(hostname)" != n1 ]] || exit 5', health_check={"timeout_seconds": 6000}
    )
    played = play(Job(config_of(_tree({"policy": service}, {"main": (2, None)})), statuses={"curl": 7}), tmp_path)
    assert played.status == 1 and "policy has ended by itself" in played.output


@pytest.mark.parametrize("field", ["extra_args"])
def test_a_mistake_in_a_tier_names_the_tier(field: str) -> None:
    pair = _pair(decode={"node_pool": "d", field: "--x 'open"})
    with pytest.raises(SubmitConfigError, match=r"services\.llm\.decode\.extra_args"):
        render_job_script(config_of(_tree({"llm": pair}, {"p": (1, None), "d": (1, None)})), "bench", "/x")
