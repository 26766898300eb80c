"""Prefill/decode pairs: the real vllm-router in front of stand-in tiers."""

from __future__ import annotations

import json

from deploying import a_config


def pair(image: str, **fields) -> dict:
    """A vllm_pd service; prefill on pool one, decode on pool two."""
    tiers = {"prefill": {"node_pool": "one"}, "decode": {"node_pool": "two"}}
    return {"type": "vllm_pd", "container": image, "model": "org/model", **tiers, **fields}


def tier(pool: str, **fields) -> dict:
    """A tier that brings the stand-in's image."""
    return {"node_pool": pool, "container": "vllm/image:1", **fields}


def test_the_router_splits_requests_between_two_tiers_of_several_ranks(deploy, router_ray_image):
    tiers = {"prefill": tier("one", number_of_instances=2), "decode": tier("two", number_of_instances=2)}
    config = a_config({"policy": pair(router_ray_image, log_level="info", **tiers)}, {"one": 2, "two": 2})
    job = deploy(config).succeeded()
    n1, n2, n3, n4 = job.nodes()
    calls = {call.node: call for call in job.calls("vllm")}
    for nodes, port, role, rpc, channel in (
        ((n1, n2), "8001", "kv_producer", "13345", "5600"),
        ((n3, n4), "8002", "kv_consumer", "13346", "5601"),
    ):
        head, rank = (calls[node] for node in nodes)
        for call, node in ((head, nodes[0]), (rank, nodes[1])):
            transfer = json.loads(call.value("--kv-transfer-config"))
            assert (transfer["kv_connector"], transfer["kv_role"]) == ("NixlConnector", role)
            assert transfer["kv_load_failure_policy"] == "fail"
            assert call.value("--data-parallel-rpc-port") == rpc
            assert call.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == node
            assert call.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == channel
        assert head.value("--port") == port
        assert "--headless" in rank.argv and rank.value("--data-parallel-start-rank") == "1"
    assert job.call("gym").node == n1
    assert job.call("gym").overrides()["policy_base_url"] == "http://localhost:8000/v1"
    assert len(job.rollouts()) == 3
    for name in ("policy-prefill", "policy-decode"):
        assert "POST /v1/responses" in job.log(name)


# Ten questions, one of them streamed; then how many answers each server counted.
ASK = """
import json, os, urllib.request
base = os.environ["NEMO_GYM_POLICY_BASE_URL"]
model = os.environ["NEMO_GYM_POLICY_MODEL_NAME"]

def post(path, **body):
    data = json.dumps({"model": model, **body}).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request).read().decode()

for number in range(9):
    assert "boxed" in post("/chat/completions", messages=[{"role": "user", "content": f"question {number}"}])
events = post("/completions", prompt="question 9", stream=True).split("\\n\\n")
served = {}
for pool, port in (("ONE", 8001), ("TWO", 8002)):
    for node in os.environ[f"GYM_POOL_{pool}_NODES"].split(","):
        lines = urllib.request.urlopen(f"http://{node}:{port}/metrics").read().decode().splitlines()
        served[node] = sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:request_success_total"))
with open("answers.json", "w") as file:
    json.dump({"served": served, "events": events}, file)
"""


def test_every_node_of_a_tier_can_be_a_server_of_its_own(deploy, router_ray_image):
    tiers = {"prefill": tier("one"), "decode": tier("two"), "node_pool": "one"}
    policies = {"prefill_policy": "round_robin", "decode_policy": "round_robin"}
    config = a_config(
        {"policy": pair(router_ray_image, server_per_node=True, **policies, **tiers)}, {"one": 2, "two": 2}
    )
    config["driver"]["benchmarks"] = {"demo": {"command": f"python3 - <<'END'{ASK}END"}}
    job = deploy(config).succeeded()
    calls = job.calls("vllm")
    assert sorted(call.node for call in calls) == job.nodes()
    assert not [call for call in calls if "--headless" in call.argv or "--data-parallel-size" in call.argv]
    answers = json.loads((job.folder / "answers.json").read_text())
    assert list(answers["served"]) == job.nodes()
    assert all(count >= 4 for count in answers["served"].values()), answers["served"]
    assert len(answers["events"]) > 3 and answers["events"][-2] == "data: [DONE]"
