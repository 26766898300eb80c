from __future__ import annotations

from typing import Any

import pytest

from airflow_gym_provider.config import Shape

from .builders import config, loaded, pair, pool, problems_of, ray, vllm, warnings_of


def placed(services: dict[str, Any], pools: dict[str, Any], policy: str | None = "policy") -> Any:
    return loaded(config(services, pools, policy=policy)).placement


@pytest.mark.parametrize(
    ("nodes", "gpus", "fields", "shape"),
    [
        (1, 8, {"tensor_parallel_size": 8}, Shape.SINGLE),
        (1, 8, {"number_of_instances": 4, "tensor_parallel_size": 2}, Shape.SINGLE),
        (1, 8, {"use_ray_serve": True, "tensor_parallel_size": 8}, Shape.GATEWAY),
        (2, 8, {"tensor_parallel_size": 1}, Shape.RAY_BACKED),
        (2, 8, {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}, Shape.RAY_BACKED),
        (2, 8, {"number_of_instances": 4, "tensor_parallel_size": 4}, Shape.DATA_PARALLEL),
        (4, 8, {"number_of_instances": 4, "tensor_parallel_size": 8}, Shape.DATA_PARALLEL),
        (4, 8, {"number_of_instances": 2, "tensor_parallel_size": 16}, Shape.GATEWAY),
        (4, 8, {"number_of_instances": 3, "use_ray_serve": True}, Shape.GATEWAY),
        (2, None, {"number_of_instances": 2, "tensor_parallel_size": 64}, Shape.DATA_PARALLEL),
    ],
)
def test_the_shape_follows_from_nodes_instances_and_size(
    nodes: int, gpus: int, fields: dict[str, Any], shape: Shape
) -> None:
    service = placed({"policy": vllm(**fields)}, {"main": pool(nodes, gpus)}).services["policy"]
    assert service.shape is shape
    assert service.nodes == tuple(range(nodes))
    assert (service.tasks, service.api_nodes, service.first_node) == (nodes, (0,), 0)
    assert service.ray_port == (6379 if shape in (Shape.RAY_BACKED, Shape.GATEWAY) else None)
    local = fields.get("number_of_instances", 1) // nodes if shape is Shape.DATA_PARALLEL else None
    assert local is None or service.local_instances == local


def test_pools_own_contiguous_ranges_in_order() -> None:
    where = placed({"policy": vllm(node_pool="c")}, {"a": pool(2), "b": pool(), "c": pool()})
    assert where.pools == {"a": (0, 1), "b": (2,), "c": (3,)}
    assert (where.total_nodes, where.driver_node, where.by_pool) == (4, 3, True)


@pytest.mark.parametrize("host", ["${oc.env:HEAD_NODE_IP}", "${oc.env:HEAD_NODE_IP,localhost}"])
def test_a_policy_host_that_is_another_node_than_the_policys_is_warned_of(host: str) -> None:
    services = {"policy": vllm(node_pool="b"), "judge": vllm(node_pool="a")}
    (told,) = warnings_of(config(services, {"a": pool(2), "b": pool()}, driver={"policy_host": host}))
    assert told.startswith("driver.policy_host: HEAD_NODE_IP is node 0 of the job, and 'policy' (pool 'b') listens")
    assert "node 2" in told and "leave policy_host out" in told


@pytest.mark.parametrize(
    ("services", "policy", "host"),
    [
        ({"policy": vllm(node_pool="a"), "judge": vllm(node_pool="b")}, "policy", "${oc.env:HEAD_NODE_IP}"),
        ({"policy": vllm(node_pool="b"), "judge": vllm(node_pool="a")}, "policy", "${oc.env:MY_HOST}"),
        ({"policy": vllm(node_pool="b"), "judge": vllm(node_pool="a")}, "policy", "localhost"),
        ({"policy": vllm(node_pool="b"), "judge": vllm(node_pool="a")}, None, "${oc.env:HEAD_NODE_IP}"),
        ({"policy": pair()}, "policy", "${oc.env:HEAD_NODE_IP}"),
        ({"policy": vllm()}, "policy", "${oc.env:HEAD_NODE_IP}"),
    ],
)
def test_other_policy_hosts_are_not(services: dict[str, Any], policy: str | None, host: str) -> None:
    pools = {"a": pool(), "b": pool()}
    assert not warnings_of(config(services, pools, policy=policy, driver={"policy_host": host}))


def test_without_pools_there_is_one_node() -> None:
    where = placed({"policy": vllm()}, {})
    assert (where.total_nodes, where.services["policy"].nodes, where.by_pool, where.spans_nodes) == (
        1,
        (0,),
        False,
        False,
    )


def test_a_pinned_service_stays_on_its_pool_and_is_sized_by_it() -> None:
    services = {"policy": vllm(node_pool="a"), "judge": vllm(node_pool="b", port=8100, tensor_parallel_size=8)}
    where = placed(services, {"a": pool(1, 1), "b": pool(2, 4)})
    assert (where.services["judge"].nodes, where.services["judge"].shape) == ((1, 2), Shape.RAY_BACKED)
    assert where.services["policy"].shape is Shape.SINGLE and where.spans_nodes


def test_the_driver_follows_the_policy_and_unpinned_routers_follow_the_driver() -> None:
    services = {"policy": vllm(node_pool="b"), "ray": ray(), "other": pair(prefill={"node_pool": "a"})}
    services["other"]["decode"] = {"node_pool": "b", "port": 8102}
    services["other"] |= {"port": 8100}
    where = placed(services, {"a": pool(), "b": pool()})
    assert where.driver_node == 1
    assert where.services["ray"].nodes == (1,)
    assert where.services["other"].nodes == (1,)
    assert placed({"policy": vllm()}, {"a": pool(2)}, policy=None).driver_node == 0


def test_a_ray_cluster_has_its_head_at_the_driver_and_workers_on_the_rest() -> None:
    services = {"policy": vllm(node_pool="gpu"), "ray": ray(node_pools=["aux"])}
    where = placed(services, {"gpu": pool(), "aux": pool(2)})
    assert (where.services["ray"].nodes, where.services["ray"].shape) == ((0, 1, 2), Shape.RAY_CLUSTER)
    services["ray"] = ray(node_pools=["aux", "gpu"])
    services["policy"] = vllm(node_pool="aux", use_ray_serve=True)
    assert placed(services, {"gpu": pool(2), "aux": pool()}).services["ray"].nodes == (2, 0, 1)


def test_a_pair_is_two_tiers_and_a_router() -> None:
    found = loaded(config({"policy": pair()}, {"a": pool(2, 4), "b": pool(3, 4)}))
    assert list(found.deployed_services) == ["policy-prefill", "policy-decode", "policy"]
    where = found.placement.services
    assert [where[name].nodes for name in found.deployed_services] == [(0, 1), (2, 3, 4), (0,)]
    assert [where[name].shape for name in found.deployed_services] == [Shape.RAY_BACKED, Shape.RAY_BACKED, Shape.ROUTER]
    prefill: Any = found.deployed_services["policy-prefill"]
    decode: Any = found.deployed_services["policy-decode"]
    assert [prefill.kv_transfer_config["kv_role"], decode.kv_transfer_config["kv_role"]] == [
        "kv_producer",
        "kv_consumer",
    ]
    assert (prefill.nixl_side_channel_port, decode.nixl_side_channel_port) == (5600, 5601)


def test_servers_on_every_node_all_answer() -> None:
    where = placed({"policy": pair(server_per_node=True)}, {"a": pool(2), "b": pool(3)})
    assert where.services["policy-decode"].api_nodes == (2, 3, 4)
    assert where.services["policy-decode"].shape is Shape.PER_NODE
    assert not where.spans_nodes


def test_ray_clusters_of_services_on_the_same_nodes_get_ports_of_their_own() -> None:
    services = {"policy": vllm(), "judge": vllm(port=6380), "ray": ray()}
    where = placed(services, {"main": pool(2)}).services
    assert (where["policy"].ray_port, where["judge"].ray_port) == (6381, 6382)
    assert any("6379" in text and "policy" in text for text in warnings_of(config(services, {"main": pool(2)})))
    apart = {"policy": vllm(node_pool="a"), "judge": vllm(node_pool="b")}
    both = placed(apart, {"a": pool(2), "b": pool(2)}).services
    assert (both["policy"].ray_port, both["judge"].ray_port) == (6379, 6379)


@pytest.mark.parametrize(
    ("nodes", "gpus", "fields", "fragments"),
    [
        (1, 8, {"tensor_parallel_size": 4, "number_of_instances": 3}, ["12", "8"]),
        (1, 8, {"tensor_parallel_size": 4, "number_of_instances": 3, "use_ray_serve": True}, ["12", "8"]),
        (2, 4, {"tensor_parallel_size": 9}, ["9", "8"]),
        (2, 4, {"tensor_parallel_size": 3, "number_of_instances": 4}, ["6", "4"]),
        (4, 4, {"tensor_parallel_size": 8, "number_of_instances": 3}, ["24", "16"]),
        (1, 0, {}, ["1", "0"]),
    ],
)
def test_too_few_gpus_is_an_error_with_the_footprint(
    nodes: int, gpus: int, fields: dict[str, Any], fragments: list[str]
) -> None:
    what = problems_of(config({"policy": vllm(**fields)}, {"main": pool(nodes, gpus)}))["services.policy"]
    assert all(fragment in what for fragment in fragments)


@pytest.mark.parametrize(
    ("nodes", "gpus", "fields", "idle"),
    [
        (1, 8, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 4),
        (2, 4, {"number_of_instances": 4}, 2),
        (2, 4, {"tensor_parallel_size": 1}, 7),
        (3, 4, {"tensor_parallel_size": 5, "number_of_instances": 2}, 2),
        (1, 8, {"tensor_parallel_size": 8}, 0),
        (2, 4, {"tensor_parallel_size": 2, "number_of_instances": 4}, 0),
        (2, 4, {"tensor_parallel_size": 8}, 0),
        (4, 8, {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "number_of_instances": 2}, 0),
    ],
)
def test_too_many_gpus_is_a_warning_that_counts_them(nodes: int, gpus: int, fields: dict[str, Any], idle: int) -> None:
    found = [
        text for text in warnings_of(config({"policy": vllm(**fields)}, {"main": pool(nodes, gpus)})) if "idle" in text
    ]
    assert len(found) == bool(idle)
    assert not idle or f"{idle} would idle" in found[0]


def test_tiers_are_sized_by_their_own_pool_or_node() -> None:
    pools = {"a": pool(4, 4), "b": pool(6, 4)}
    per_node = pair(server_per_node=True, prefill={"node_pool": "a", "tensor_parallel_size": 8})
    problems = problems_of(config({"policy": per_node}, pools))
    assert "8" in problems["services.policy.prefill"] and "4" in problems["services.policy.prefill"]
    exact = {tier: {"node_pool": name, "tensor_parallel_size": 4} for tier, name in (("prefill", "a"), ("decode", "b"))}
    assert not warnings_of(config({"policy": pair(server_per_node=True, **exact)}, pools))


def test_two_services_may_each_fill_the_same_node() -> None:
    services = {"policy": vllm(tensor_parallel_size=8), "judge": vllm(tensor_parallel_size=8, port=8100)}
    assert not warnings_of(config(services, {"main": pool(1, 8)}))


def test_pools_without_gpus_are_not_judged() -> None:
    services = {"policy": vllm(tensor_parallel_size=64)}
    assert not warnings_of(config(services, {"main": pool(2)}))
    assert not warnings_of(config(services, {"main": pool(2), "other": pool(1, 8)}))


def test_instances_divide_over_nodes_unless_a_gateway_spreads_them() -> None:
    services = {"policy": vllm(number_of_instances=3)}
    what = problems_of(config(services, {"main": pool(2)}))["services.policy.number_of_instances"]
    assert "3" in what and "2" in what
    services["policy"]["use_ray_serve"] = True
    loaded(config(services, {"main": pool(2)}))
