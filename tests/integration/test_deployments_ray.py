"""Services over the real Ray, on nodes that are machines of their own. Never two at once: see conftest.py."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from deploying import Job, a_config, make_image, standin_script, vllm

# Ray takes its time where two cores are four machines, and gives up after a minute unless told otherwise.
PATIENCE = {"health_check": {"timeout_seconds": 240}}
SLOWLY = {"RAY_raylet_start_wait_time_s": "240", "RAY_USAGE_STATS_ENABLED": "0"}

# What vLLM does with Ray's executor, before it is a stand-in: join the cluster, and use every node of it.
LOOK = """
import json, os, socket, ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)

@ray.remote(num_cpus=0)
def where():
    return socket.gethostname()

nodes = [node for node in ray.nodes() if node["Alive"]]
place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
hosts = ray.get([where.options(scheduling_strategy=place(node["NodeID"], soft=False)).remote() for node in nodes])
with open(os.environ["STANDIN_RECORD_DIR"] + "/ray.json", "w") as file:
    json.dump({"hosts": sorted(hosts), "address": os.environ["RAY_ADDRESS"]}, file)
"""


@pytest.fixture
def images(deploy, router_ray_image):
    """Makes images with the real Ray: images(name, program=script, …)."""
    real = deploy.cluster.folder / "images" / router_ray_image

    def image(name: str, **programs: str) -> str:
        return make_image(deploy.cluster, name, {**{part: real / part for part in ("ray", "python3")}, **programs})

    return image


@pytest.fixture
def vllm_on_ray() -> str:
    """A `vllm` that uses the real Ray before it is the stand-in."""
    return standin_script("vllm", f"python3 - <<'END' || exit\n{LOOK}\nEND")


def hosts_of_ray(job: Job) -> dict:
    """What vLLM saw of its Ray."""
    return json.loads((job.folder / "records" / "ray.json").read_text())


def test_one_instance_spans_four_nodes(deploy, images, vllm_on_ray):
    image = images("ray-vllm", vllm=vllm_on_ray)
    service = vllm(container=image, tensor_parallel_size=8, pipeline_parallel_size=4, **PATIENCE)
    job = deploy(a_config({"policy": service}, {"main": {"nodes": 4, "gpus_per_node": 8}}), **SLOWLY)
    job.wait(280).succeeded()
    server = job.call("vllm")
    assert hosts_of_ray(job)["hosts"] == job.nodes()
    assert server.node == job.nodes()[0]
    assert server.value("--distributed-executor-backend") == "ray"
    assert (server.value("--tensor-parallel-size"), server.value("--pipeline-parallel-size")) == ("8", "4")
    assert job.call("gym").env["RAY_HEAD_NODE_IP"] == hosts_of_ray(job)["address"].partition(":")[0]
    assert len(job.rollouts()) == 3


def test_an_older_ray_is_put_together_by_hand(deploy, images, vllm_on_ray):
    older = (
        '#!/bin/bash\n[ "$1" != symmetric-run ] || { echo "Error: No such command"; exit 2; }\nexec "$0-real" "$@"\n'
    )
    image = images("older-ray-vllm", vllm=vllm_on_ray)
    make_image(
        deploy.cluster, image, {"ray-real": deploy.cluster.folder / "images" / "real-router-ray" / "ray", "ray": older}
    )
    services = {"judge": vllm(node_pool="front", port=8100)}
    services["policy"] = vllm(container=image, node_pool="back", tensor_parallel_size=16, **PATIENCE)
    pools = {"front": {"nodes": 1, "gpus_per_node": 8}, "back": {"nodes": 2, "gpus_per_node": 8}}
    job = deploy(a_config(services, pools, driver={"policy_model": "policy"}), **SLOWLY)
    job.wait(280).succeeded()
    assert hosts_of_ray(job)["hosts"] == job.nodes()[1:]
    assert job.call("gym").node == job.nodes()[1]
    assert len(job.rollouts()) == 3


CLUSTER = """
import json, os, socket, time, ray
address = os.environ["GYM_RAY_ADDRESS_MY_CLUSTER"]
ray.init(address=address, log_to_driver=False)
deadline = time.monotonic() + 120
while len(nodes := [node for node in ray.nodes() if node["Alive"]]) < 3 and time.monotonic() < deadline:
    time.sleep(0.5)

@ray.remote(num_cpus=0, resources={"extra_gpu": 4})
def where():
    return socket.gethostname()

found = {"address": address, "nodes": {node["NodeManagerHostname"]: node["Resources"] for node in nodes}}
found["where"] = ray.get(where.remote(), timeout=60)
with open("found.json", "w") as file:
    json.dump(found, file)
"""


def test_a_ray_service_spans_its_pools_and_offers_their_resources(deploy, router_ray_image):
    service = {"type": "ray", "container": router_ray_image, "node_pools": ["main", "aux"], "port": 6400}
    service |= {"num_cpus": 1, "resources": {"aux": {"extra_gpu": 4}, "main": {"fast disk": 1}}}
    service |= {"extra_args": "--include-dashboard=false --object-store-memory 80000000"}
    config = a_config({"my cluster": service}, {"main": 1, "aux": 2, "rest": 1})
    config["driver"] |= {"policy_model": None, "container": router_ray_image}
    config["driver"]["env"] = {"GRPC_DNS_RESOLVER": "lit:native"}  # the nodes' names stand in /etc/hosts alone
    config["driver"]["benchmarks"] = {"demo": {"command": f"python3 - <<'END'{CLUSTER}END"}}
    job = deploy(config, **SLOWLY).wait(180).succeeded()
    found = json.loads((job.folder / "found.json").read_text())
    main, aux, other, _ = job.nodes()
    assert found["address"] == f"{main}:6400"
    assert sorted(found["nodes"]) == [main, aux, other]
    assert [found["nodes"][node]["CPU"] for node in (main, aux, other)] == [1, 1, 1]
    assert [found["nodes"][node].get("extra_gpu") for node in (main, aux, other)] == [None, 4, 4]
    assert found["nodes"][main]["fast disk"] == 1
    assert found["where"] in (aux, other)


def test_the_gateway_routes_streams_and_tells_the_truth_about_its_instances(deploy, images):
    image = images("gateway-vllm", vllm=standin_script("vllm"))
    env = {"STANDIN_VLLM_LATENCY": "lit:4", "STANDIN_VLLM_PACE": "lit:0.4"}
    service = vllm(container=image, number_of_instances=2, use_ray_serve=True, env=env, **PATIENCE)
    config = a_config({"policy": service})
    client = Path(__file__).parent / "gateway_driver.py"
    command = f"python3 {shlex.quote(str(client))} records found.json"
    config["driver"]["benchmarks"] = {"demo": {"command": command}}
    job = deploy(config, **SLOWLY).wait(400).succeeded()
    found = json.loads((job.folder / "found.json").read_text())
    assert found["health"] == 200 and found["unknown model"] == 404
    ports = [argv[argv.index("--port") + 1] for argv in found["servers"]]
    assert len(set(ports)) == 2 and "8000" not in ports
    assert all(argv[argv.index("--host") + 1] == "127.0.0.1" for argv in found["servers"])
    assert all(argv[argv.index("--distributed-executor-backend") + 1] == "ray" for argv in found["servers"])
    assert found["pieces"] > 3 and found["streaming seconds"] > 1
    # Ray Serve's own limit is five requests for each replica: six rounds of four seconds.
    assert found["crowd seconds"] < 20
    assert min(found["answered"]) >= 15 and sum(found["answered"]) == 61
    assert found["unhealthy after a death"] and found["healthy again"] and found["servers after a death"] == 2
    assert found["all ended"] and found["health at the end"] == 0


def test_the_gateway_spreads_instances_that_exceed_a_node(deploy, images):
    image = images("gateway-vllm", vllm=standin_script("vllm"))
    service = vllm(container=image, number_of_instances=3, tensor_parallel_size=4, use_ray_serve=True, **PATIENCE)
    job = deploy(a_config({"policy": service}, {"main": {"nodes": 2, "gpus_per_node": 8}}), **SLOWLY)
    job.wait(280).succeeded()
    calls = job.calls("vllm")
    assert sorted({call.node for call in calls}) == job.nodes() and len(calls) == 3
    assert len(job.rollouts()) == 3
