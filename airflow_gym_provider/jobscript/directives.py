"""The ``#SBATCH`` lines at the top of a job script."""

from __future__ import annotations

from airflow_gym_provider.config import Problem, SubmitConfig, SubmitConfigError
from airflow_gym_provider.jobscript.quoting import quote_directive


def directive_lines(config: SubmitConfig, benchmark: str, job_dir: str) -> list[str]:
    """One line per option, each option once, for a config that has passed ``check_render_time``.

    The pools of a job share one allocation: their nodes add up, and everything else is the same in all of them.
    Requeueing by Slurm is off unless `extra_args` has ``requeue``: a requeued job would run beside its own successor.
    Raises SubmitConfigError for a value that cannot stand in a directive, which is one line.
    """
    options = _managed(config, benchmark, job_dir)
    options.update(config.cluster.extra_args)
    for pool in config.cluster.node_pools.values():
        options.update(pool.extra_args)
    if not {"requeue", "no-requeue"} & options.keys():
        options["no-requeue"] = ""
    return [_line(name, value) for name, value in options.items()]


def _managed(config: SubmitConfig, benchmark: str, job_dir: str) -> dict[str, str]:
    cluster, pools = config.cluster, list(config.cluster.node_pools.values())
    options = {"job-name": f"gym-{benchmark}", "account": cluster.account}
    if cluster.walltime is not None:
        options["time"] = cluster.walltime
    options["chdir"] = job_dir
    if pools:
        options["partition"] = pools[0].partition
        options["nodes"] = str(sum(pool.nodes for pool in pools))
        options["ntasks-per-node"] = str(pools[0].ntasks_per_node)
        if pools[0].gpus_per_node is not None:
            options["gpus-per-node"] = str(pools[0].gpus_per_node)
    return options


def _line(name: str, value: str) -> str:
    try:
        return f"#SBATCH --{name}" + (f"={quote_directive(value)}" if value else "")
    except ValueError as error:
        raise SubmitConfigError([Problem(f"the directive --{name}", f"{error}, but its value is {value!r}")]) from None
