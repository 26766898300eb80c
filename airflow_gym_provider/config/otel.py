"""The ``otel`` section: the OpenTelemetry collector beside every benchmark job. On unless it is switched off."""

from __future__ import annotations

import re

from pydantic import field_validator

from airflow_gym_provider.config.fields import Count, Flag, Line, Port, StrictModel, Text, VariableName, refuse

_URL = re.compile(r"https?://[^\s/]+\S*\Z")


class OtelConfig(StrictModel):
    """Collector settings. While enabled, ``endpoint``, ``service_name`` and the token variable must be set.

    That is checked when a script is rendered, as the reference's ``--resolve-only`` does not ask for it.
    """

    enabled: Flag = True
    endpoint: Line | None = None
    service_name: Line | None = None
    token_env: VariableName = "OTEL_TOKEN"  # noqa: S105 - the name of a variable
    binary: Line = "otelcol-contrib"
    container: Line | None = None
    component: Line = "gym-vllm"
    gpu_metrics_port: Port | None = 9400
    node_metrics_port: Port | None = 9100
    scrape_interval_seconds: Count = 15
    health_check_timeout_seconds: Count = 300
    gym_telemetry: Flag = True
    gym_span_groups: Text = "default,verify"
    gym_logs: Flag = True

    @field_validator("endpoint")
    @classmethod
    def _is_url(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not _URL.match(endpoint):
            raise refuse(f"{endpoint!r} is not a URL; write https://host[:port][/path]")
        return endpoint
