"""One benchmark's ``job.sh``, put together from its sections."""

from __future__ import annotations

from airflow_gym_provider.config import HealthCheckConfig, Problem, SubmitConfig, SubmitConfigError, check_render_time
from airflow_gym_provider.config.errors import gathering
from airflow_gym_provider.jobscript.collector import Collector
from airflow_gym_provider.jobscript.directives import directive_lines
from airflow_gym_provider.jobscript.driver import driver_step
from airflow_gym_provider.jobscript.health import HealthCheck, render_health_checks
from airflow_gym_provider.jobscript.nodes import render_node_setup
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.ray_setup import ray_driver_exports, render_ray_setup
from airflow_gym_provider.jobscript.services import service_steps
from airflow_gym_provider.jobscript.steps import Step
from airflow_gym_provider.jobscript.templating import render_template


def render_job_script(config: SubmitConfig, benchmark: str, job_dir: str) -> str:
    """The complete bash text of one benchmark's Slurm job; store it with mode 0600, since it holds ``host:`` values.

    `job_dir` is the benchmark's directory on the cluster: absolute, without a colon or comma (a bind mount of it could
    not be written). The job expects to start there, as its ``--chdir`` says. Its exit status is the driver's, or 1 when
    a service dies or never becomes healthy; it submits no other job. The same arguments give the same text.

    Raises SubmitConfigError naming everything that cannot be rendered: pools that disagree, a collector without its
    settings, an unknown benchmark, values that no program or directive can be given.
    """
    with config.hiding():
        return _render(config, benchmark, job_dir)


def _render(config: SubmitConfig, benchmark: str, job_dir: str) -> str:
    collector = Collector(config, benchmark, job_dir) if config.otel.enabled else None
    defaults = ray_driver_exports(config) | (collector.driver_exports() if collector else {})
    node = config.placement.driver_node if config.placement.total_nodes > 1 else None
    steps: dict[str, list[Step]] = {}
    with gathering() as part:
        with part():
            check_render_time(config)
        with part():
            _check_job_dir(job_dir)
        for name in config.deployed_services:
            with part():
                steps[name] = service_steps(config, name)
        with part():
            driver = driver_step(config, benchmark, job_dir, node=node, defaults=defaults)
        with part():
            directives = directive_lines(config, benchmark, job_dir)
    sections = [setup for setup in (render_node_setup(config), render_ray_setup(config)) if setup]
    sections += [collector.render_start()] if collector else []
    sections += [step.render() for started in steps.values() for step in started]
    checks = _health_checks(config, steps)
    if steps:
        sections.append(render_health_checks(checks))
    sections.append(
        render_template(
            "driver.sh.j2",
            step=driver.render_foreground(),
            log=driver.log,
            collector_end=collector.render_end() if collector else "",
        )
    )
    text = render_template(
        "job.sh.j2",
        directives=directives,
        benchmark=benchmark,
        background=bool(steps or collector),
        sections=sections,
    )
    return text + "\n"


def _health_checks(config: SubmitConfig, steps: dict[str, list[Step]]) -> list[HealthCheck]:
    checks = []
    for name, service in config.deployed_services.items():
        if service.health_check is None:
            continue
        for node in config.placement.services[name].api_nodes:
            url = _url(node, service.health_check)
            checks.append(HealthCheck(name, steps[name][0].log, url, service.health_check.timeout_seconds))
    return checks


def _url(node: int, check: HealthCheckConfig) -> str:
    """The endpoint as a bash word. The batch shell runs on the first node, so that one is localhost."""
    if node == 0:
        return quote(f"http://localhost:{check.port}{check.path}")
    return f'"http://${{nodes[{node}]}}:{check.port}"{quote(check.path)}'


def _check_job_dir(job_dir: str) -> None:
    if not job_dir.startswith("/") or any(char in job_dir for char in ":,\n\r"):
        told = f"the benchmark's directory {job_dir!r} must be an absolute path without colon, comma or line break"
        raise SubmitConfigError([Problem("job.output_path", told)])
    if "${" in job_dir:
        told = f"the benchmark's directory {job_dir!r} holds '${{', which Gym takes for an interpolation; rename it"
        raise SubmitConfigError([Problem("job.output_path", told)])
