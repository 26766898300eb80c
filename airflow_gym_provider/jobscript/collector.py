"""The OpenTelemetry collector beside a job: its configuration, its step, and its end after the driver."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.config.services import BaseModelServiceConfig
from airflow_gym_provider.jobscript.health import HealthCheck
from airflow_gym_provider.jobscript.nodes import host_word
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.steps import ONE_TASK
from airflow_gym_provider.jobscript.templating import render_template

HEALTH_PORT = 13133
FLUSH_PAUSES = (1, 1, 2, 3, 5, 8, 10)
"""Seconds between looks whether the collector has ended: half a minute together, and few programs to start."""
_LOG = 'logs/collector-"$SLURM_JOB_ID".log'


@dataclass(frozen=True)
class Collector:
    """The collector of one benchmark's job. Only for a config whose ``otel`` is enabled and complete."""

    config: SubmitConfig
    benchmark: str
    job_dir: str

    def render_start(self) -> str:
        """The section that writes ``otel/collector.yaml``, starts the collector and waits until it listens."""
        config = self.config
        url = f"http://{'localhost' if config.placement.driver_node == 0 else self._driver_host()}:{HEALTH_PORT}/"
        check = HealthCheck("collector", _LOG, f'"{url}"', config.otel.health_check_timeout_seconds)
        return render_template(
            "collector.sh.j2",
            otel=config.otel,
            job_dir=self.job_dir,
            health_port=HEALTH_PORT,
            scrapes=self._scrapes(),
            engines=self._engines(),
            attributes=self._attributes(),
            options=self._options(image=True),
            command=f"{quote(config.otel.binary)} --config {quote(self._path())}",
            log=_LOG,
            attempts=check.attempts,
            url=check.url,
        )

    def render_end(self) -> str:
        """The section after the driver: a last scrape, SIGTERM to the collector, at most half a minute to flush."""
        # Anchored at the start of the command line, since the srun that started it has all of this further on in its
        # own. In front there may be the folder in which srun found the binary, and an interpreter if it is a script.
        name = posixpath.basename(self.config.otel.binary)
        pattern = f"^([^ ]+ )?([^ ]*/)?{re.escape(name)} --config {re.escape(self._path())}$"
        return render_template(
            "collector_end.sh.j2",
            otel=self.config.otel,
            options=self._options(image=False),
            pattern=pattern,
            log=_LOG,
            flush_pauses=FLUSH_PAUSES,
        )

    def driver_exports(self) -> dict[str, str]:
        """Export statements, by variable, that turn Gym's own telemetry on and aim it at this collector."""
        otel = self.config.otel
        if not otel.gym_telemetry:
            return {}
        values = {
            "NEMO_GYM_OTEL_ENABLED": "1",
            "NEMO_GYM_OTEL_RUN_ID": self._run_id(),
            "NEMO_GYM_OTEL_SPAN_GROUPS": otel.gym_span_groups,
            "NEMO_GYM_OTEL_LOGS_ENABLED": "1" if otel.gym_logs else "0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
        }
        return {name: f"export {name}={quote(value)}" for name, value in values.items()}

    def _path(self) -> str:
        return f"{self.job_dir}/otel/collector.yaml"

    def _run_id(self) -> str:
        """The submission's id: the benchmark's directory is inside the run's."""
        return posixpath.basename(posixpath.dirname(self.job_dir))

    def _driver_host(self) -> str:
        return f"${{nodes[{self.config.placement.driver_node}]}}"

    def _options(self, *, image: bool) -> list[str]:
        options = [*ONE_TASK, "--job-name=collector"]
        if self.config.placement.total_nodes > 1:
            options.append(f"--nodelist={host_word(self.config.placement.driver_node)}")
        if image and self.config.otel.container is not None:
            options += [
                "--no-container-mount-home",
                quote(f"--container-image={self.config.otel.container}"),
                quote(f"--container-mounts={self.job_dir}:{self.job_dir}"),
            ]
        return options

    def _engines(self) -> list[str]:
        """What the names of the servers' metrics begin with, up to their colon."""
        deployed = self.config.deployed_services.values()
        return sorted({service.metrics_prefix for service in deployed if isinstance(service, BaseModelServiceConfig)})

    def _scrapes(self) -> list[dict[str, object]]:
        """Prometheus jobs: every server of a model, on its own nodes, then the exporters of every node."""
        otel, placement = self.config.otel, self.config.placement
        scrapes: list[dict[str, object]] = []
        for name, service in self.config.deployed_services.items():
            if isinstance(service, BaseModelServiceConfig):
                targets = [self._target(node, service.port) for node in placement.services[name].api_nodes]
                scrapes.append({"job": f"{otel.component}/{name}", "service": name, "targets": targets})
        for job, port in (("dcgm", otel.gpu_metrics_port), ("node", otel.node_metrics_port)):
            if port is not None:
                targets = [self._target(node, port) for node in range(placement.total_nodes)]
                scrapes.append({"job": job, "service": None, "targets": targets})
        return scrapes

    def _target(self, node: int, port: int) -> str:
        host = "localhost" if self.config.placement.total_nodes == 1 else f"${{nodes[{node}]}}"
        return f'"{host}:{port}"'

    def _attributes(self) -> dict[str, str]:
        attributes = {
            "service.name": self.config.otel.service_name or "",
            "run_id": self._run_id(),
            "benchmark": self.benchmark,
            "cluster": self.config.cluster_name,
        }
        if self.config.policy_wiring is not None:
            attributes["model"] = self.config.policy_wiring.model_name
        return attributes
