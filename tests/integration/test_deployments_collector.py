"""The collector beside a job: a stand-in that reads the real configuration, keeps everything and flushes on SIGTERM."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import STANDINS
from deploying import Job, a_config, benchmark, make_image, vllm

TOKEN = "t0ken $HOME 'quoted'"


class Backend:
    """Where the collector sends everything: (path, headers, body) of each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict, list]] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                requests.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def backend(machines):
    """A backend on this machine, at the address by which the nodes reach it."""
    found = Backend()
    control = machines.run("scontrol show config | sed -n 's/^SlurmctldHost.*(\\(.*\\))$/\\1/p'").strip()
    found.url = f"http://{control}:{found.server.server_port}/otlp"
    yield found
    found.server.shutdown()


@pytest.fixture
def collector_binary(tmp_path: Path) -> str:
    """The stand-in with this Python, which has PyYAML; nodes run it as a host process."""
    path = tmp_path / "bin" / "otelcol-contrib"
    path.parent.mkdir()
    path.write_text(f'#!/bin/bash\nexec {sys.executable} {STANDINS}/otelcol-contrib "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def otel(backend: Backend, collector_binary: str) -> dict:
    """The config's `otel` section: complete, and quick."""
    return {
        "enabled": True,
        "endpoint": backend.url,
        "service_name": 'evals: "nightly" $HOME',
        "binary": collector_binary,
        "scrape_interval_seconds": 1,
        "gpu_metrics_port": None,
        "gym_telemetry": False,
    }


def kept(job: Job, signal: str) -> list[dict]:
    """The collector's own copies."""
    return [json.loads(line) for line in (job.folder / "otel" / f"{signal}.jsonl").read_text().splitlines()]


def test_the_collector_is_there_before_any_service_and_flushes_before_the_jobs_end(deploy, otel, backend):
    services = {"judge": vllm(node_pool="front", port=8100), "policy": vllm(node_pool="back", served_model_name="tiny")}
    config = a_config(services, {"front": 1, "back": 1}, otel=otel, driver={"policy_model": "policy"})
    job = deploy(config, {"OTEL_TOKEN": TOKEN}, STANDIN_OTELCOL_FLUSH="2").succeeded()
    collector, gym = job.call("otelcol"), job.call("gym")
    _, n2 = job.nodes()
    assert collector.node == gym.node == n2
    assert "PYXIS_STANDIN_IMAGE" not in collector.env
    assert all(call.started_at > collector.started_at for call in job.calls("vllm"))
    said = job.output.index
    assert said("collector is healthy") < said("started judge") < said("policy is healthy")
    assert "Flushed everything" in job.log("collector")
    flushed = float(job.log("collector").rpartition("Flushed everything at ")[2].split()[0])
    assert gym.started_at + 2 < flushed <= job.ended_at + 1

    scraped = {line["labels"]["gym_service"]: line for line in kept(job, "metrics") if "gym_service" in line["labels"]}
    assert set(scraped) == {"judge", "policy"}
    assert scraped["policy"]["metrics"]["vllm_num_requests_running"] == "gauge"
    assert scraped["policy"]["metrics"]["vllm_e2e_request_latency_seconds"] == "histogram"
    assert not [name for name in scraped["policy"]["metrics"] if ":" in name]
    resource = scraped["policy"]["resource"]
    expected = {"service.name": 'evals: "nightly" $HOME', "slurm_job_id": job.id, "benchmark": "demo"}
    expected |= {"cluster": "cluster", "model": "tiny", "run_id": job.folder.parent.name, "user": "root"}
    assert {key: resource.get(key) for key in expected} == expected

    assert {path for path, _, _ in backend.requests} == {"/otlp/v1/metrics", "/otlp/v1/traces", "/otlp/v1/logs"}
    assert {headers["Authorization"] for _, headers, _ in backend.requests} == {f"Bearer {TOKEN}"}
    files = [path for path in job.folder.rglob("*") if path.is_file() and path.parent.name != "records"]
    assert not [path for path in files if "t0ken" in path.read_text(errors="replace")]
    assert "t0ken" not in json.dumps([call.argv for tool in ("vllm", "gym", "otelcol") for call in job.calls(tool)])


NOTHING = "#!/bin/sh\n"
TELEMETRY = """\
cd "$NEMO_GYM_BENCH_DIR"
env | grep -E '^(NEMO_GYM_OTEL_|OTEL_EXPORTER_OTLP_ENDPOINT)' | sort >telemetry
curl --silent --fail --data '{"resourceSpans": []}' "$OTEL_EXPORTER_OTLP_ENDPOINT/v1/traces"
exit 7
"""


def test_a_failed_driver_has_its_telemetry_flushed_and_its_status_kept(deploy, otel):
    otel |= {"gym_telemetry": True, "gym_span_groups": "default"}
    config = a_config({"policy": vllm()}, otel=otel, driver={"env": {"NEMO_GYM_OTEL_RUN_ID": "lit:mine"}})
    config["driver"]["gym_install"] = {"ref": "main"}
    config["driver"]["container"] = make_image(deploy.cluster, "installs-nothing", {"git": NOTHING, "uv": NOTHING})
    config["driver"]["benchmarks"] = {"demo": {"command": TELEMETRY}}
    job = deploy(config, {"OTEL_TOKEN": TOKEN}, STANDIN_OTELCOL_FLUSH="2").failed(7)
    assert (job.folder / "telemetry").read_text().splitlines() == [
        "NEMO_GYM_OTEL_ENABLED=1",
        "NEMO_GYM_OTEL_LOGS_ENABLED=1",
        "NEMO_GYM_OTEL_RUN_ID=mine",
        "NEMO_GYM_OTEL_SPAN_GROUPS=default",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
    ]
    assert [line["body"] for line in kept(job, "traces")] == ['{"resourceSpans": []}']


def test_no_service_starts_beside_a_collector_that_does_not(deploy, otel):
    otel |= {"binary": "/not/there/otelcol-contrib"}
    job = deploy(a_config({"policy": vllm()}, otel=otel, driver=benchmark(run={})), {"OTEL_TOKEN": TOKEN}).failed(1)
    assert "collector has ended by itself" in job.output
    assert not job.calls("vllm") and not job.calls("gym")
