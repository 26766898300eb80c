from __future__ import annotations

import pytest

from airflow_gym_provider.config.services import MODEL_SERVICE_TYPES, SERVICE_TYPES
from airflow_gym_provider.jobscript import render_job_script
from airflow_gym_provider.jobscript.services import STEPS

from .stage import config_of

OTEL = {"enabled": True, "endpoint": "https://otlp.example.com", "service_name": "x", "gym_telemetry": False}


@pytest.mark.parametrize("name", SERVICE_TYPES)
def test_every_type_of_service_has_its_steps(name: str) -> None:
    assert [model for model in STEPS if issubclass(SERVICE_TYPES[name], model)]


@pytest.mark.parametrize("name", MODEL_SERVICE_TYPES)
def test_every_type_that_serves_a_model_names_its_metrics(name: str) -> None:
    assert SERVICE_TYPES[name].metrics_prefix.isidentifier()


@pytest.mark.parametrize(("services", "renamed"), [(["vllm"], ['"^vllm:", "vllm_"']), ([], [])])
def test_the_collector_renames_the_metrics_of_the_servers_there_are(services: list[str], renamed: list[str]) -> None:
    declared = {name: {"type": name, "container": "image", "model": "m"} for name in services}
    config = config_of({"services": declared, "otel": OTEL}, {"OTEL_TOKEN": "t"})
    script = render_job_script(config, "bench", "/lustre/run/bench")
    assert script.count("replace_pattern") == len(renamed) and all(pattern in script for pattern in renamed)
    assert ("processors: [transform/names, resource, batch]" in script) == bool(renamed)
    assert ("transform/names:" in script) == bool(renamed)
