from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import render_job_script

from .stage import RUN, Job, Played, config_of, play

SERVICE = {"type": "vllm", "container": "c", "model": "org/model", "served_model_name": 'it\'s $5 "big" ${x}'}


def _tree(otel: dict[str, Any] | None = None, nodes: int = 1, **driver: Any) -> dict[str, Any]:
    settings = {"endpoint": "https://otlp.example.com/$x", "service_name": "my evals", "gym_telemetry": False}
    pool = {"partition": "p", "nodes": nodes}
    service = {**SERVICE, "served_model_name": 'it\'s $5 "big" \\${x}'}
    return {
        "services": {"policy": service},
        "compute": {"here": {"type": "slurm", "account": "a", "node_pools": {"main": pool}}},
        "driver": {"policy_model": "policy", **driver},
        "otel": {"enabled": True, **settings, **(otel or {})},
    }


def _play(tree: dict[str, Any], tmp_path: Path, statuses: dict[str, int] | None = None, vllm: int = 1) -> Played:
    job = Job(
        config_of(tree, {"OTEL_TOKEN": "canary-1"}),
        environ={"OTEL_TOKEN": "canary-1"},
        statuses=statuses or {},
        expect={"otelcol-contrib": 1, "vllm": vllm},
    )
    return play(job, tmp_path)


def _settings(played: Played) -> dict[str, Any]:
    """The collector's configuration as it reads it: `$$` is a dollar."""

    def read(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: read(item) for key, item in value.items()}
        if isinstance(value, list):
            return [read(item) for item in value]
        return value.replace("$$", "$") if isinstance(value, str) else value

    return read(yaml.safe_load((played.folder / "otel" / "collector.yaml").read_text()))


def test_what_the_collector_is_told_is_nobody_elses_business(tmp_path: Path) -> None:
    played = _play(_tree({"endpoint": "https://me:pass@otlp.example.com"}), tmp_path)
    assert (played.folder / "otel" / "collector.yaml").stat().st_mode & 0o777 == 0o600


def test_what_the_collector_is_told(tmp_path: Path) -> None:
    played = _play(_tree(), tmp_path)
    assert played.status == 0
    found = _settings(played)
    attributes = {entry["key"]: entry.get("value") for entry in found["processors"]["resource"]["attributes"]}
    assert attributes == {
        "service.name.override": None,
        "service.name": "my evals",
        "run_id": RUN,
        "benchmark": "bench",
        "cluster": "here",
        "model": SERVICE["served_model_name"],
        "user": "someone",
        "slurm_job_id": "4242",
    }
    assert found["exporters"]["otlphttp"] == {
        "endpoint": "https://otlp.example.com/$x",
        "headers": {"Authorization": "Bearer ${env:OTEL_TOKEN}"},
    }
    assert found["exporters"]["file/traces"] == {"path": f"{played.folder}/otel/traces.jsonl", "append": True}
    for pipeline in found["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            known = found["connectors"].keys() | found[part].keys()
            assert set(pipeline[part]) <= known
    assert set(found["service"]["pipelines"]) == {"metrics", "traces", "logs"}


def test_the_token_is_in_no_file_and_no_argument(tmp_path: Path) -> None:
    played = _play(_tree(), tmp_path)
    assert not any("canary" in word for call in played.calls for word in call.argv)
    assert not any("canary" in path.read_text() for path in played.folder.rglob("*") if path.is_file())
    assert played.of("otelcol-contrib")[0].env["OTEL_TOKEN"] == "canary-1"


def test_it_listens_before_services_start_and_ends_after_the_driver(tmp_path: Path) -> None:
    played = _play(_tree(), tmp_path, {"gym.run": 5})
    assert played.status == 5
    steps = [call.argv[-1] if call.program == "curl" else call.program for call in played.calls]
    assert steps.index("http://localhost:13133/") < steps.index("http://localhost:8000/health") < steps.index("gym")
    assert steps.index("gym") < steps.index("pkill")
    (collector,) = played.of("otelcol-contrib")
    assert collector.argv == ["--config", f"{played.folder}/otel/collector.yaml"]
    started = [call for call in played.of("srun") if "otelcol-contrib" in call.argv]
    assert not any(word.startswith("--container") for word in started[0].argv)


def test_only_the_collector_itself_is_told_to_end(tmp_path: Path) -> None:
    (pkill,) = _play(_tree(), tmp_path).of("pkill")
    assert pkill.argv[:4] == ["--signal", "TERM", "--full", "--"]
    line = f"otelcol-contrib --config {tmp_path / RUN / 'bench' / 'otel' / 'collector.yaml'}"
    pattern = re.compile(pkill.argv[4])
    assert pattern.search(line) and pattern.search(f"/usr/bin/{line}") and pattern.search(f"python3 /usr/bin/{line}")
    started_by = "srun --overlap --nodes=1"
    assert not pattern.search(f"{started_by} {line}") and not pattern.search(f"{started_by} /usr/bin/{line}")
    assert not pattern.search(line.replace("bench/otel", "other/otel"))


def test_it_has_half_a_minute_to_flush_in_few_looks(tmp_path: Path) -> None:
    scrape, *pauses = _play(_tree({"scrape_interval_seconds": 4}), tmp_path).pauses  # it never ends here
    assert (scrape, sum(pauses)) == (4, 30)
    assert len(pauses) < 10 and pauses[0] == 1 and pauses == sorted(pauses)


def test_a_collector_that_does_not_come_up_ends_the_job_before_any_service(tmp_path: Path) -> None:
    played = _play(_tree(), tmp_path, {"otelcol-contrib": 1, "curl": 7}, vllm=0)
    assert played.status == 1 and "collector has ended by itself" in played.output
    assert not played.of("vllm") and not played.of("gym")


def test_an_image_and_other_settings(tmp_path: Path) -> None:
    otel = {
        "container": "otel/img:1",
        "binary": "otelcol-contrib",
        "gpu_metrics_port": None,
        "scrape_interval_seconds": 3,
    }
    played = _play(_tree({**otel, "component": "eng", "token_env": "OTEL_TOKEN"}), tmp_path)
    found = _settings(played)
    scrapes = found["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert [(scrape["job_name"], scrape["scrape_interval"]) for scrape in scrapes] == [
        ("eng/policy", "3s"),
        ("node", "3s"),
    ]
    (step,) = [call for call in played.of("srun") if "otelcol-contrib" in call.argv]
    assert step.flag("--container-image") == "otel/img:1"
    assert step.flag("--container-mounts") == f"{played.folder}:{played.folder}"


def test_every_server_is_scraped_where_it_is(tmp_path: Path) -> None:
    tree = _tree()
    pair = {"type": "vllm_pd", "container": "r", "model": "m", "port": 9000, "server_per_node": True}
    tree["services"] = {"llm": {**pair, "prefill": {"node_pool": "p"}, "decode": {"node_pool": "d"}}}
    tree["driver"] = {"policy_model": "llm"}
    pools = {"p": {"partition": "x"}, "d": {"partition": "x", "nodes": 2}}
    tree["compute"] = {"here": {"type": "slurm", "account": "a", "node_pools": pools}}
    scrapes = _settings(_play(tree, tmp_path, vllm=3))["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert {scrape["job_name"]: scrape["static_configs"][0]["targets"] for scrape in scrapes} == {
        "gym-vllm/llm-prefill": ["n0:9001"],
        "gym-vllm/llm-decode": ["n1:9002", "n2:9002"],
        "gym-vllm/llm": ["n0:9000"],
        "dcgm": ["n0:9400", "n1:9400", "n2:9400"],
        "node": ["n0:9100", "n1:9100", "n2:9100"],
    }


def test_nothing_to_scrape_is_no_prometheus(tmp_path: Path) -> None:
    tree = {**_tree({"gpu_metrics_port": None, "node_metrics_port": None}), "services": {}, "driver": {}}
    found = _settings(_play(tree, tmp_path, vllm=0))
    assert "prometheus" not in found["receivers"]
    assert found["service"]["pipelines"]["metrics"]["receivers"] == ["otlp", "spanmetrics"]


def test_gyms_own_telemetry_is_aimed_at_it_unless_the_driver_says_otherwise(tmp_path: Path) -> None:
    env = {"NEMO_GYM_OTEL_SPAN_GROUPS": "lit:sandbox"}
    tree = _tree({"gym_telemetry": True, "gym_logs": False}, gym_install={"ref": "main"}, env=env)
    played = _play(tree, tmp_path)
    (gym,) = played.of("gym")
    found = {name: value for name, value in gym.env.items() if "OTEL" in name and name != "OTEL_TOKEN"}
    assert found == {
        "NEMO_GYM_OTEL_ENABLED": "1",
        "NEMO_GYM_OTEL_RUN_ID": RUN,
        "NEMO_GYM_OTEL_SPAN_GROUPS": "sandbox",
        "NEMO_GYM_OTEL_LOGS_ENABLED": "0",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
    }
    assert played.of("uv")[-1].argv[-1] == ".[telemetry]"


def test_switched_off_leaves_no_trace() -> None:
    tree = {**_tree(), "otel": {"enabled": False}}
    script = render_job_script(config_of(tree), "bench", "/x")
    assert "otel" not in script.lower() and "collector" not in script.lower()


def test_an_unfinished_section_is_refused_while_rendering() -> None:
    with pytest.raises(SubmitConfigError, match=r"OTEL_TOKEN"):
        render_job_script(config_of(_tree()), "bench", "/x")
