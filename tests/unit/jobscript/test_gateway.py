from __future__ import annotations

import ast
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from airflow_gym_provider import jobscript
from airflow_gym_provider.jobscript import render_job_script

from .stage import Job, config_of, play

PROGRAM = Path(jobscript.__file__).parent / "templates" / "gateway.py"


def _tree(nodes: int, gpus: int | None, **service: Any) -> dict[str, Any]:
    pool = {"partition": "p", "nodes": nodes, "gpus_per_node": gpus}
    policy = {"type": "vllm", "container": "c", "model": "org/model", "port": 8222, **service}
    return {
        "services": {"policy": policy},
        "compute": {"cluster": {"type": "slurm", "account": "a", "node_pools": {"main": pool}}},
        "driver": {"policy_model": "policy"},
    }


# What the gateway is given instead of running it: a python3 that records, and that has everything installed.
_PYTHON = r"""
exec() { "$@"; }
python3() {
  [[ $1 != -c ]] || return 0
  printf '%s\0' "$@" >gateway.argv
  cp "$1" gateway.py
  /bin/sleep 30
}
"""


def _gateway(tree: dict[str, Any], tmp_path: Path, rays: int) -> tuple[list[str], str, dict[str, list[str]]]:
    tree["services"]["policy"]["pre_command"] = _PYTHON
    played = play(Job(config_of(tree), expect={"ray": rays}, statuses={"curl.slow": 0}), tmp_path)
    assert played.status == 0, played.log("policy")
    deadline = time.monotonic() + 10
    while not (played.folder / "gateway.py").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    argv = (played.folder / "gateway.argv").read_text().split("\0")[1:-1]
    assert [call.argv[-1] for call in played.of("curl")][-1] == "http://localhost:8222/health"
    return argv, (played.folder / "gateway.py").read_text(), {call.node: call.argv for call in played.of("ray")}


def test_the_gateway_travels_in_the_script_and_starts_on_the_head(tmp_path: Path) -> None:
    extra = """--hf-overrides '{"a": ["b c"]}'"""
    tree = _tree(4, 8, tensor_parallel_size=8, pipeline_parallel_size=2, number_of_instances=2, extra_args=extra)
    argv, program, rays = _gateway(tree, tmp_path, 4)
    assert argv == [
        "--port", "8222", "--instances", "2", "--per-node", "1", "--", "vllm", "serve", "org/model",
        "--tensor-parallel-size", "8", "--pipeline-parallel-size", "2", "--distributed-executor-backend", "ray",
        "--hf-overrides", '{"a": ["b c"]}',
    ]  # fmt: skip
    assert program.rstrip("\n") == PROGRAM.read_text().rstrip("\n")
    assert rays.pop("n0") == ["start", "--head", "--port=6379"]
    assert list(rays.values()) == [["start", "--address=10.0.0.1:6379", "--block"]] * 3


def test_on_one_node_it_has_a_local_ray(tmp_path: Path) -> None:
    argv, _, rays = _gateway(
        _tree(1, 8, use_ray_serve=True, tensor_parallel_size=2, number_of_instances=4), tmp_path, 1
    )
    assert argv[:6] == ["--port", "8222", "--instances", "4", "--per-node", "4"]
    assert list(rays.values()) == [["start", "--head", "--port=6379"]]


def test_without_declared_gpus_there_is_no_cap() -> None:
    script = render_job_script(config_of(_tree(1, None, use_ray_serve=True)), "bench", "/x")
    assert "--per-node" in PROGRAM.read_text()
    assert "--per-node" not in script.split("END_GATEWAY_PROGRAM")[2]


def test_the_program_knows_nothing_of_the_package() -> None:
    tree = ast.parse(PROGRAM.read_text())
    imported = {
        name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    } | {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"aiohttp", "ray", "starlette"}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The program's names, with stand-ins for what only the image has."""
    ray, serve = types.ModuleType("ray"), types.ModuleType("ray.serve")
    ray.serve = serve  # type: ignore[attr-defined]
    ray.get_runtime_context = lambda: types.SimpleNamespace(gcs_address="10.0.0.1:6379")  # type: ignore[attr-defined]
    serve.deployment = lambda **_: lambda kind: kind  # type: ignore[attr-defined]
    requests, responses = types.ModuleType("starlette.requests"), types.ModuleType("starlette.responses")
    requests.Request = object  # type: ignore[attr-defined]
    for name in ("PlainTextResponse", "Response", "StreamingResponse"):
        setattr(responses, name, object)
    util, strategies = types.ModuleType("ray.util"), types.ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = object  # type: ignore[attr-defined]
    names = {
        "ray": ray,
        "ray.serve": serve,
        "ray.util": util,
        "ray.util.scheduling_strategies": strategies,
        "starlette.requests": requests,
        "starlette.responses": responses,
    }
    for name, module in {
        **names,
        "starlette": types.ModuleType("starlette"),
        "aiohttp": types.ModuleType("aiohttp"),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(PROGRAM))


SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write((os.environ['RAY_ADDRESS'] + str('CUDA_VISIBLE_DEVICES' in os.environ)).encode())
HTTPServer(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])), Handler).serve_forever()
"""


def test_a_replicas_server_listens_on_a_free_port_and_ends_with_it(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BaseHTTPRequestHandler
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server = program["Server"]([sys.executable, "-c", SERVER])
    server.wait_until_healthy()
    server.check()
    text = subprocess.run(
        ["curl", "-s", "--noproxy", "*", server.url], capture_output=True, text=True, check=True
    ).stdout
    assert text == "10.0.0.1:6379False"
    server.stop()
    assert server.process.returncode == -signal.SIGTERM
    with pytest.raises(RuntimeError, match="ended with status -15"):
        server.check()
    server.stop()


def test_the_roll_counts_those_who_said_so_lately(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    roll = program["Roll"]()
    for name in ("a", "b", "a"):
        roll.up(name)
    assert roll.count() == 2
    roll.down("a")
    roll.down("never there")
    assert roll.count() == 1
    later = time.monotonic() + program["STALE_SECONDS"]
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert roll.count() == 0


def test_a_server_that_cannot_start_is_an_error_not_a_wait(program: dict[str, Any]) -> None:
    server = program["Server"]([sys.executable, "-c", "raise SystemExit(7)"])
    with pytest.raises(RuntimeError, match="ended with status 7"):
        server.wait_until_healthy()


def test_a_server_does_not_outlive_a_killed_replica(tmp_path: Path) -> None:
    code = f"""
import ctypes, os, runpy, signal, subprocess, sys, time
source = open({str(PROGRAM)!r}).read()
scope = {{"ctypes": ctypes, "signal": signal}}
exec(source[source.index("def end_with_parent"):source.index("@serve.deployment")], scope)
child = subprocess.Popen(["sleep", "60"], preexec_fn=scope["end_with_parent"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the server outlived its parent")
