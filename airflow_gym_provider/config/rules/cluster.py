"""The compute entry: directives that contradict each other, and settings that are legal but wasteful."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from airflow_gym_provider.config.draft import Draft
from airflow_gym_provider.config.errors import Problem
from airflow_gym_provider.config.fields import shown
from airflow_gym_provider.config.hiding import NOT_SHOWN, name_to_show
from airflow_gym_provider.config.placement import place

_PREFIXES_OF_SLURM = ("SLURM_", "SLURMD_")
_NOT_PASSED_ON = re.compile(
    "_|_gym_.*|BASH(OPTS|PID|_ARGV0|_COMMAND|_MONOSECONDS|_SUBSHELL|_VERSINFO)|EPOCH(REALTIME|SECONDS)|E?UID|PPID|S?RANDOM"
    "|SECONDS|SHELLOPTS|SHLVL"
)
_FROM_SCHEDULER = frozenset({"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"})


def directive_problems(draft: Draft) -> Iterator[Problem]:
    """A pool may not give a directive another value than the job does, nor forward_env steer sbatch."""
    if draft.compute is None:
        return
    where = f"compute.{draft.cluster_name}"
    for name, pool in draft.compute.node_pools.items():
        for key, value in pool.extra_args.items():
            ours = draft.compute.extra_args.get(key, value)
            if ours != value:
                what = f"is {value!r}, but the job's own extra_args say {ours!r}; one job has one value"
                yield Problem(f"{where}.node_pools.{name}.extra_args.{key}", what)
    for number, name in enumerate(draft.compute.forward_env):
        if name.startswith("SBATCH_") or name == "SLURM_CLUSTERS":
            what = f"{name} would override directives of the job script; set the field or extra_args instead"
            yield Problem(f"{where}.forward_env.{number}", what)
        elif _NOT_PASSED_ON.fullmatch(name):
            what = f"bash keeps {name} for itself, so its value would not arrive; use another name"
            yield Problem(f"{where}.forward_env.{number}", what)


def cluster_warnings(draft: Draft) -> Iterator[Problem]:
    """What a careful reader of the compute section would ask about."""
    if draft.compute is None:
        return
    where = f"compute.{draft.cluster_name}"
    yield from _kept_from_the_job(draft, where)
    for number, name in enumerate(draft.compute.forward_env):
        if name in _FROM_SCHEDULER or name.startswith(_PREFIXES_OF_SLURM):
            yield Problem(f"{where}.forward_env.{number}", f"{name} is set by the scheduler on the node; leave it out")
    yield from _unused_pools(draft, where)


def _kept_from_the_job(draft: Draft, where: str) -> Iterator[Problem]:
    """Directives by which sbatch does not hand on the environment, with which what is forwarded travels."""
    forwarded = [*draft.cluster.forward_env, *([draft.otel.token_env] if draft.otel and draft.otel.enabled else [])]
    extras = {where: draft.cluster.extra_args}
    extras |= {f"{where}.node_pools.{name}": pool.extra_args for name, pool in draft.cluster.node_pools.items()}
    for place_of_extra, extra in extras.items() if forwarded else ():
        for key, value in extra.items():
            if key == "export" and (why := _lost(value, forwarded)):
                yield Problem(f"{place_of_extra}.extra_args.export", why)
            elif key.replace("_", "-") == "export-file":
                what = "takes the job's environment from a file, which keeps forward_env from reaching the job"
                yield Problem(f"{place_of_extra}.extra_args.{key}", f"{what}; leave it out")


def _lost(export: str, forwarded: Sequence[str]) -> str | None:
    """Why variables do not arrive with this value of ``--export``; None when all of them do."""
    if export.upper() in ("NONE", "NIL"):
        return f"{export} keeps forward_env from reaching the job; leave it out"
    given = {part.partition("=")[0].strip() for part in export.split(",")}
    lost = [name_to_show(name) or f"({NOT_SHOWN})" for name in forwarded if name not in given]
    if not lost or "ALL" in map(str.upper, given):
        return None
    named = f"{shown(export)} names neither ALL nor {', '.join(lost)}"
    return f"{named}, which keeps forward_env from reaching the job; leave it out, or begin it with ALL,"


def chain_warnings(draft: Draft) -> Iterator[Problem]:
    """A cap on the whole chain that one job would already exceed."""
    limit = draft.compute.walltime_seconds if draft.compute else None
    for name, benchmark in draft.driver.benchmarks.items() if draft.driver else ():
        resume = benchmark.resume_config
        if resume and resume.max_walltime_seconds and limit and resume.max_walltime_seconds < limit:
            what = f"{resume.max_walltime} is less than one job's walltime, {draft.cluster.walltime}"
            why = "the first job's is cut to it, and no other follows; raise it, or leave resumable out"
            yield Problem(f"driver.benchmarks.{name}.resumable.max_walltime", f"{what}: {why}")


def _unused_pools(draft: Draft, where: str) -> Iterator[Problem]:
    placement = place(draft)
    used = {placement.driver_node, *(node for service in placement.services.values() for node in service.nodes)}
    for name, nodes in placement.pools.items():
        if not used.intersection(nodes):
            what = f"no service runs on this pool, so its nodes ({len(nodes)}) would wait unused"
            yield Problem(f"{where}.node_pools.{name}", f"{what}; remove it or pin a service to it")
