from __future__ import annotations

from typing import Any

import pytest

from .builders import config, loaded, pair, pool, problems_of, ray, vllm

POOLS = {"a": pool(), "b": pool()}


@pytest.mark.parametrize(
    ("service", "field"),
    [
        (vllm(type="ray"), "model"),
        (vllm(node_pools=["main"]), "node_pools"),
        (vllm(server_per_node=True), "server_per_node"),
        (vllm(nixl_side_channel_port=1), "nixl_side_channel_port"),
        (vllm(kv_transfer_config={}), "kv_transfer_config"),
        (ray(node_pool="main"), "node_pool"),
        (ray(mode="worker"), "mode"),
        (ray(num_cpus=-1), "num_cpus"),
        (ray(num_gpus=1.5), "num_gpus"),
        (ray(resources={"main": {"slot": "many"}}, node_pools=["main"]), "resources.main.slot"),
        (ray(resources={"main": {"slot": -1}}, node_pools=["main"]), "resources.main.slot"),
        (ray(node_pools=["main", "main"]), "node_pools"),
        (ray(node_pools=["main", "aux"]), "node_pools.1"),
        (vllm(trust_remote_code="maybe"), "trust_remote_code"),
        (vllm(number_of_instances=0), "number_of_instances"),
        (vllm(number_of_instances=1.5), "number_of_instances"),
        (vllm(tensor_parallel_size=0), "tensor_parallel_size"),
        (vllm(pipeline_parallel_size=True), "pipeline_parallel_size"),
        (vllm(health_check={"timeout_seconds": 0}), "health_check.timeout_seconds"),
        (vllm(health_check={"path": "health"}), "health_check.path"),
        (vllm(health_check={"path": "/a b"}), "health_check.path"),
        (vllm(health_check={"port": 0}), "health_check.port"),
        (vllm(health_check=[]), "health_check"),
        (vllm(extra_args=None), "extra_args"),
        (vllm(mounts=None), "mounts"),
        (vllm(mounts="/a"), "mounts"),
    ],
)
def test_a_wrong_field_is_refused_by_its_place(service: dict[str, Any], field: str) -> None:
    assert list(problems_of(config({"x": service}, policy=None))) == [f"services.x.{field}"]


def test_resources_name_pools_that_the_cluster_spans() -> None:
    service = ray(node_pools=["a"], resources={"b": {"slot": 1}})
    assert "'b'" in problems_of(config({"x": service}, POOLS, policy=None))["services.x"]


def test_a_ray_check_needs_a_port() -> None:
    assert "port" in problems_of(config({"x": ray(health_check={"path": "/x"})}, policy=None))["services.x"]
    assert loaded(config({"x": ray()}, policy=None)).services["x"].health_check is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ("/health", 8123, 60)),
        ({}, ("/health", 8123, 60)),
        ({"path": "/v1/models?a=$B", "timeout_seconds": 1}, ("/v1/models?a=$B", 8123, 1)),
        ({"port": 9999}, ("/health", 9999, 60)),
    ],
)
def test_the_health_check_falls_back_to_the_services_port(given: Any, expected: tuple[str, int, int]) -> None:
    check = loaded(config({"policy": vllm(port=8123, health_check=given)})).services["policy"].health_check
    assert check is not None and (check.path, check.port, check.timeout_seconds) == expected


@pytest.mark.parametrize("mount", ["/a", "/a:/b", "/a:/b:ro", "/a b:/c:ro+rprivate", "./rel:/b"])
def test_mounts_of_every_form(mount: str) -> None:
    found = loaded(config({"policy": vllm(mounts=[mount, mount])}, driver={"mounts": ["/d:/e"]}))
    source = mount.split(":")[0]
    assert found.mount_sources() == [
        ("services.policy.mounts.0", source),
        ("services.policy.mounts.1", source),
        ("driver.mounts.0", "/d"),
    ]


def test_mounts_of_tiers_have_places_of_their_own() -> None:
    service = pair(
        mounts=["/r"], prefill={"node_pool": "a", "mounts": ["/p"]}, decode={"node_pool": "b", "mounts": ["/d"]}
    )
    assert loaded(config({"policy": service}, POOLS)).mount_sources() == [
        ("services.policy.mounts.0", "/r"),
        ("services.policy.prefill.mounts.0", "/p"),
        ("services.policy.decode.mounts.0", "/d"),
    ]


@pytest.mark.parametrize("mount", ["", "/a,b:/c", "/a:/b:ro:x", ":/b", "/a:", "/a::ro", "/a:b", "/a\n:/b", None, 5.5])
def test_mounts_that_pyxis_would_misread(mount: Any) -> None:
    assert list(problems_of(config({"policy": vllm(mounts=[mount])}))) == ["services.policy.mounts.0"]


@pytest.mark.parametrize("name", ["qwen2.5-7b", "my policy", "7b", "driver", "模型", "a'b", "_base", "a$b"])
def test_service_names_are_free(name: str) -> None:
    assert name in loaded(config({name: vllm()}, policy=name)).services


@pytest.mark.parametrize("name", ["org/policy", "", " ", "..", "-x", "a\nb", "x" * 151])
def test_a_service_name_becomes_part_of_a_files_name(name: str) -> None:
    assert any(place.startswith("services") for place in problems_of(config({name: vllm()}, policy=None)))


def test_names_that_become_one_variable_are_refused() -> None:
    services = {"a-b": vllm(), "A.b": vllm(port=8001)}
    assert "A_B" in problems_of(config(services, policy=None))["services.A.b"]
    assert "X_Y" in problems_of(config(pools={"x-y": pool(), "x.y": pool()}))["compute.cluster.node_pools.x.y"]


@pytest.mark.parametrize("tier", ["prefill", "decode"])
def test_tier_names_are_taken(tier: str) -> None:
    services = {"llm": pair(), f"llm-{tier}": vllm(port=8300, node_pool="b")}
    assert "'llm'" in problems_of(config(services, POOLS, policy="llm"))[f"services.llm-{tier}"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"prefill": {"tensor_parallel_size": 1}}, "prefill.node_pool"),
        ({"decode": {"node_pool": "zzz"}}, "decode.node_pool"),
        ({"decode": {"node_pool": "a"}}, "decode.node_pool"),
        ({"node_pool": "b"}, "node_pool"),
        ({"tensor_parallel_size": 4}, "tensor_parallel_size"),
        ({"prefill": {"node_pool": "a", "kv_connector": "X"}}, "prefill.kv_connector"),
        ({"prefill": {"node_pool": "a", "server_per_node": True}}, "prefill.server_per_node"),
        ({"prefill": {"node_pool": "a", "type": "ray"}}, "prefill.type"),
        ({"prefill": None}, "prefill"),
        ({"decode": {"node_pool": "b", "data_parallel_rpc_port": 13345}}, "decode.data_parallel_rpc_port"),
        (
            {"server_per_node": True, "prefill": {"node_pool": "a", "number_of_instances": 2}},
            "prefill.number_of_instances",
        ),
        ({"server_per_node": True, "decode": {"node_pool": "b", "use_ray_serve": True}}, "decode.use_ray_serve"),
        ({"nixl_side_channel_port": 65535}, "nixl_side_channel_port"),
        ({"port": 65534}, "decode.port"),
        ({"placement": "elsewhere"}, "placement"),
        ({"prefill": {"node_pool": "a", "placement": "elsewhere"}}, "prefill.placement"),
    ],
)
def test_rules_of_a_pair(fields: dict[str, Any], place: str) -> None:
    assert list(problems_of(config({"policy": pair(**fields)}, POOLS))) == [f"services.policy.{place}"]


def test_what_tiers_inherit_and_what_they_set_themselves() -> None:
    own = {"node_pool": "a", "container": "own:1", "port": 9000, "data_parallel_rpc_port": 14000, "type": "vllm"}
    found: Any = loaded(config({"policy": pair(prefill=own, served_model_name="nice")}, POOLS)).services["policy"]
    assert (found.prefill.container, found.prefill.port, found.prefill.health_check.port) == ("own:1", 9000, 9000)
    assert (found.decode.container, found.decode.port, found.decode.data_parallel_rpc_port) == (
        "router/image:1",
        8002,
        14001,
    )
    assert (found.decode.model_name, found.model_name, found.health_check.port) == ("nice", "nice", 8000)


@pytest.mark.parametrize(
    ("services", "pools", "place", "port"),
    [
        ({"policy": vllm(), "judge": vllm()}, {"m": pool()}, "judge.port", "8000"),
        ({"policy": vllm(), "judge": vllm()}, {"m": pool(2)}, "judge.port", "8000"),
        ({"policy": vllm(), "r": ray(port=8000)}, {"m": pool()}, "r.port", "8000"),
        ({"policy": pair(prefill={"node_pool": "a", "port": 8000})}, POOLS, "policy.port", "8000"),
        ({"policy": pair(prefill={"node_pool": "a", "port": 5600})}, POOLS, "policy.nixl_side_channel_port", "5600"),
        (
            {"policy": vllm(number_of_instances=2), "judge": vllm(number_of_instances=2, port=8100)},
            {"m": pool(2)},
            "judge.data_parallel_rpc_port",
            "13345",
        ),
    ],
)
def test_one_port_of_a_node_has_one_listener(services: Any, pools: Any, place: str, port: str) -> None:
    problems = problems_of(config(services, pools))
    assert list(problems) == [f"services.{place}"] and port in problems[f"services.{place}"]


def test_the_same_port_on_other_nodes_is_fine() -> None:
    loaded(config({"policy": vllm(node_pool="a"), "judge": vllm(node_pool="b")}, POOLS))
    loaded(config({"policy": vllm(), "judge": vllm(port=13345)}))


def test_the_collector_listens_too() -> None:
    on = {"endpoint": "https://x", "service_name": "s"}
    assert "4318" in problems_of(config({"policy": vllm(port=4318)}, otel=on))["services.policy.port"]
    loaded(config({"policy": vllm(port=4318)}))
