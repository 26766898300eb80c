"""Checks that the reference makes when a script is rendered, not when the config is composed."""

from __future__ import annotations

from airflow_gym_provider.config.compute import SlurmComputeConfig
from airflow_gym_provider.config.errors import Problem, SubmitConfigError
from airflow_gym_provider.config.hiding import NOT_SHOWN, name_to_show
from airflow_gym_provider.config.submit import SubmitConfig

_ONE_PER_JOB = ("partition", "ntasks_per_node", "gpus_per_node")


def check_render_time(config: SubmitConfig) -> None:
    """Refuse what would not make one job: pools that disagree, a collector without its settings.

    Raises SubmitConfigError with every such problem. Whether the collector's token is set was noted when the config
    was loaded.
    """
    problems = [*_pool_problems(config.cluster_name, config.cluster), *_collector_problems(config)]
    if problems:
        raise SubmitConfigError(problems)


def _pool_problems(cluster_name: str, cluster: SlurmComputeConfig) -> list[Problem]:
    where = f"compute.{cluster_name}.node_pools"
    problems = []
    for field in _ONE_PER_JOB:
        values = {name: getattr(pool, field) for name, pool in cluster.node_pools.items()}
        if len(set(values.values())) > 1:
            problems.append(Problem(where, _disagreement(field, values)))
    for key in dict.fromkeys(key for pool in cluster.node_pools.values() for key in pool.extra_args):
        values = {name: pool.extra_args[key] for name, pool in cluster.node_pools.items() if key in pool.extra_args}
        if len(set(values.values())) > 1:
            problems.append(Problem(where, _disagreement(f"extra_args.{key}", values)))
    return problems


def _disagreement(field: str, values: dict[str, object]) -> str:
    listed = ", ".join(f"{name}: {'null' if value is None else value}" for name, value in values.items())
    return f"pools disagree on {field} ({listed}); one job has one value, so give all pools the same"


def _collector_problems(config: SubmitConfig) -> list[Problem]:
    otel = config.otel
    if not otel.enabled:
        return []
    off = "or set otel.enabled: false"
    problems = []
    for field in ("endpoint", "service_name"):
        if getattr(otel, field) is None:
            problems.append(Problem(f"otel.{field}", f"is required while the collector is enabled; set it, {off}"))
    if not config.has_otel_token:
        name = name_to_show(otel.token_env) or f"the variable that is named here ({NOT_SHOWN})"
        why = f"{name} must be set, and not empty, in the submitting environment while the collector is enabled"
        problems.append(Problem("otel.token_env", f"{why}; set it, {off}", unset=otel.token_env))
    if otel.gym_telemetry and config.driver.gym_install is None:
        why = "Gym's telemetry needs a checkout that the driver installs: set driver.gym_install"
        problems.append(Problem("otel.gym_telemetry", f"{why}, or otel.gym_telemetry: false"))
    return problems
