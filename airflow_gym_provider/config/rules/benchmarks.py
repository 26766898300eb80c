"""The policy that benchmarks are wired to, and what a benchmark may combine."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.driver import BenchmarkRunConfig, DriverConfig
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.names import deferred_variables
from airflow_gym_provider.config.placement import place
from airflow_gym_provider.config.services import MODEL_SERVICE_TYPES, BaseModelServiceConfig, service_type
from airflow_gym_provider.config.submit import POLICY_KEYS, PolicyWiring, wire_policy
from airflow_gym_provider.config.suggest import did_you_mean, one_of


def policy_problems(draft: Draft) -> Iterator[Problem]:
    """``policy_model`` must name a service that serves a model, and ``run`` may not set what it injects."""
    driver = draft.driver
    if driver is None or driver.policy_model is None:
        return
    name = driver.policy_model
    service = draft.services.get(name)
    if name not in draft.service_names:
        known = did_you_mean(name, draft.service_names) or f"; services are {one_of(draft.service_names)}"
        yield Problem("driver.policy_model", f"{name!r} is not a service{known}", absent=True)
    elif service is not None and not isinstance(service, BaseModelServiceConfig):
        what = f"{name!r} is a {service_type(type(service))} service and serves no model"
        yield Problem("driver.policy_model", f"{what}; name a {one_of(MODEL_SERVICE_TYPES)} one")
    for benchmark, settings in driver.benchmarks.items():
        for key in POLICY_KEYS:
            if key in settings.run:
                cure = "remove it here, or set driver.policy_model to null"
                what = f"is set by driver.policy_model ({name!r}) already; {cure}"
                yield Problem(f"driver.benchmarks.{benchmark}.run.{key}", what)


def policy_host_warnings(draft: Draft) -> Iterator[Problem]:
    """HEAD_NODE_IP is the address of the job's first node, and the policy of a later pool listens on another one."""
    driver = draft.driver
    if driver is None or "HEAD_NODE_IP" not in deferred_variables(driver.policy_host):
        return
    placed = place(draft).services.get(driver.policy_model or "")
    if placed is None or placed.api_node == 0:
        return
    pool = draft.deployed_services[placed.name].node_pool
    what = f"HEAD_NODE_IP is node 0 of the job, and {placed.name!r} (pool {pool!r}) listens on node {placed.api_node}"
    asked = "whatever has its port on node 0 would be asked in its place"
    cure = f"leave policy_host out (the driver runs beside its policy), or declare the pool {pool!r} first"
    yield Problem("driver.policy_host", f"{what}: {asked}; {cure}")


def command_problems(draft: Draft) -> Iterator[Problem]:
    """A ``command`` replaces ``gym eval run``, so neither its overrides nor its cache can go with it."""
    for name, benchmark in draft.driver.benchmarks.items() if draft.driver else ():
        if benchmark.command is None:
            continue
        where = f"driver.benchmarks.{name}.command"
        if benchmark.run:
            yield Problem(where, "cannot be combined with run: a command runs instead of gym eval run; remove one")
        if benchmark.resume_config is not None:
            yield Problem(where, "cannot be combined with resumable: a command has no cache to resume from; remove one")


def results_warnings(draft: Draft) -> Iterator[Problem]:
    """One results file for several evaluations: each would be judged, and resumed, by another's rollouts."""
    first: dict[str, str] = {}
    for name, benchmark in draft.driver.benchmarks.items() if draft.driver else ():
        path = benchmark.run.get("output_jsonl_fpath")
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        where = f"driver.benchmarks.{name}.run.output_jsonl_fpath"
        other = first.setdefault(path, name)
        if other != name:
            yield Problem(where, f"is {path!r}, which {other!r} writes too: both would count the other's rollouts")
        if benchmark.run.get("resume_from_cache", benchmark.resume_config is not None) is True:
            what = "is the same file in every run, so a new run would take over the rollouts of the one before"
            yield Problem(where, f"{what}; write a path relative to the benchmark's directory, or leave it out")


def without_injected(draft: Draft) -> DriverConfig | None:
    """Return the driver without policy keys that are exactly what would be injected.

    A resolved config shows them, and submitting it again has to work; all three together, unchanged, are no conflict.
    """
    driver = draft.driver
    wiring = wire_policy(driver, draft.services) if driver else None
    if driver is None or wiring is None:
        return driver
    benchmarks = {name: _stripped(benchmark, wiring) for name, benchmark in driver.benchmarks.items()}
    return driver.model_copy(update={"benchmarks": benchmarks})


def _stripped(benchmark: BenchmarkRunConfig, wiring: PolicyWiring) -> BenchmarkRunConfig:
    injected = wiring.run_values()
    if any(benchmark.run.get(key) != value for key, value in injected.items()):
        return benchmark
    run = {key: value for key, value in benchmark.run.items() if key not in injected}
    return benchmark.model_copy(update={"run": run})
