"""vLLM services on one node and on several, told from what was started where and what answered."""

from __future__ import annotations

import pytest
from deploying import a_config, vllm


@pytest.fixture
def policy_host_of_the_head() -> dict:
    """The policy addressed as from elsewhere, by a variable of the job."""
    return {"policy_host": "${oc.env:HEAD_NODE_IP}"}


def test_one_server_on_one_node_answers_the_driver(deploy):
    job = deploy(a_config({"policy": vllm(served_model_name="tiny", extra_args="--max-model-len 4096")})).succeeded()
    server, gym = job.call("vllm"), job.call("gym")
    words = "serve org/model --port 8000 --tensor-parallel-size 1 --served-model-name tiny --max-model-len 4096"
    assert server.argv == ["vllm", *words.split()]
    assert len(job.rollouts()) == 3
    assert gym.argv[:3] == ["gym", "eval", "run"] and gym.value("--model-type") == "openai_model"
    assert gym.overrides()["policy_base_url"] == "http://localhost:8000/v1"
    assert gym.cwd == str(job.folder)


def test_steps_run_in_their_own_images_without_the_home_folder(deploy):
    job = deploy(a_config({"policy": vllm(mounts=["/etc", "/usr:/data/usr:ro"])})).succeeded()
    server, gym = job.call("vllm"), job.call("gym")
    assert (server.env["PYXIS_STANDIN_IMAGE"], gym.env["PYXIS_STANDIN_IMAGE"]) == ("vllm/image:1", "gym/image:1")
    assert "no-container-mount-home" in server.env["PYXIS_STANDIN_FLAGS"]
    assert "no-container-mount-home" in gym.env["PYXIS_STANDIN_FLAGS"]
    assert server.env["PYXIS_STANDIN_MOUNTS"] == "/etc:/etc,/usr:/data/usr:ro"
    assert gym.env["PYXIS_STANDIN_MOUNTS"] == f"{job.folder}:{job.folder}"


def test_instances_of_one_node_are_its_data_parallel_size(deploy):
    job = deploy(
        a_config({"policy": vllm(number_of_instances=4, tensor_parallel_size=2)}, {"main": {"gpus_per_node": 8}})
    )
    server = job.succeeded().call("vllm")
    assert (server.value("--data-parallel-size"), server.value("--tensor-parallel-size")) == ("4", "2")
    assert len(job.rollouts()) == 3


def test_ranks_on_four_nodes_find_the_head_and_one_api_serves(deploy, policy_host_of_the_head):
    service = vllm(number_of_instances=8, extra_args="--api-server-count 2 --seed 7", data_parallel_rpc_port=13399)
    job = deploy(a_config({"policy": service}, {"main": 4}, driver=policy_host_of_the_head)).succeeded()
    calls = {call.node: call for call in job.calls("vllm")}
    nodes, address = job.nodes(), job.call("gym").env["HEAD_NODE_IP"]
    assert sorted(calls) == nodes and len(nodes) == 4
    assert not address.startswith("127.")
    for place, node in enumerate(nodes):
        call = calls[node]
        assert call.value("--data-parallel-size") == "8" and call.value("--data-parallel-size-local") == "2"
        assert call.value("--data-parallel-address") == address and call.value("--data-parallel-rpc-port") == "13399"
        assert call.value("--seed") == "7"
        assert ("--headless" in call.argv, "--api-server-count" in call.argv) == (place > 0, place == 0)
        if place:
            assert call.value("--data-parallel-start-rank") == str(2 * place)
    assert job.call("gym").node == nodes[0]
    assert len(job.rollouts()) == 3


def test_ranks_of_a_pinned_service_meet_on_their_own_pools_first_node(deploy):
    services = {"judge": vllm(node_pool="front", port=8100), "policy": vllm(node_pool="back", number_of_instances=2)}
    config = a_config(services, {"front": 1, "back": 2}, driver={"policy_model": "policy"})
    job = deploy(config).succeeded()
    n1, n2, n3 = job.nodes()
    judge, head, rank = sorted(job.calls("vllm"), key=lambda call: call.node)
    assert [call.node for call in (judge, head, rank)] == [n1, n2, n3]
    assert "--data-parallel-address" not in judge.argv
    assert head.value("--data-parallel-address") == rank.value("--data-parallel-address")
    gym = job.call("gym")
    assert gym.node == n2
    assert (gym.env["GYM_POOL_FRONT_NODES"], gym.env["GYM_POOL_BACK_NODES"]) == (n1, f"{n2},{n3}")
    assert gym.overrides()["policy_base_url"] == "http://localhost:8000/v1"
    assert len(job.rollouts()) == 3


def test_several_services_start_apart_and_each_has_its_own_environment_and_log(deploy):
    services = {
        "policy": vllm(env={"WHO": "lit:policy"}),
        "judge model": vllm(model="org/judge", port=8200, env={"WHO": "lit:judge"}, pre_command="export EXTRA=$WHO!"),
    }
    job = deploy(a_config(services)).succeeded()
    calls = {call.env["WHO"]: call for call in job.calls("vllm")}
    assert calls["judge"].value("--port") == "8200" and calls["judge"].env["EXTRA"] == "judge!"
    assert "EXTRA" not in calls["policy"].env and "WHO" not in job.call("gym").env
    logs = sorted(path.name for path in (job.folder / "logs").iterdir())
    assert len(logs) == 3 and f"policy-{job.id}.log" in logs and all(log.endswith(f"-{job.id}.log") for log in logs)
