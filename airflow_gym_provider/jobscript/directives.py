"""The ``#SBATCH`` lines at the top of a job script."""

from __future__ import annotations

from airflow_gym_provider.config import Problem, SubmitConfig, SubmitConfigError
from airflow_gym_provider.config.fields import shown
from airflow_gym_provider.jobscript.quoting import quote_directive

# What slurmctld takes of each (slurmctld/job_mgr.c); paths and whatever is not named here are bounded as paths are.
_NAMES = ("account", "comment", "constraint", "job-name", "licenses", "mail-user", "mcs-label", "network", "partition")
_MOST_BYTES = dict.fromkeys([*_NAMES, "clusters", "qos", "reservation", "wckey"], 1024)
_LONG = frozenset({"dependency", "exclude", "export", "nodelist"})  # lists of jobs, nodes and variables


def directive_lines(config: SubmitConfig, benchmark: str, job_dir: str) -> list[str]:
    """One line per option, each option once, for a config that has passed ``check_render_time``.

    The pools of a job share one allocation: their nodes add up, and everything else is the same in all of them.
    Requeueing by Slurm is off unless `extra_args` has ``requeue``: a requeued job would run beside its own successor.
    Raises SubmitConfigError naming every value that cannot stand in a directive, which is one line, and every one that
    slurmctld would refuse without saying which it was ("Pathname of a file, directory or other parameter too long").
    """
    options = _managed(config, benchmark, job_dir)
    options.update(config.cluster.extra_args)
    for pool in config.cluster.node_pools.values():
        options.update(pool.extra_args)
    if not {"requeue", "no-requeue"} & options.keys():
        options["no-requeue"] = ""
    problems: list[Problem] = []
    lines = [_line(name, value, problems) for name, value in options.items()]
    if problems:
        raise SubmitConfigError(problems)
    return lines


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


def _line(name: str, value: str, problems: list[Problem]) -> str:
    place, size, most = f"the directive --{name}", len(value.encode(errors="replace")), _MOST_BYTES.get(name, 4096)
    if size > most and name not in _LONG:
        problems.append(Problem(place, f"its value has {size} bytes, and Slurm takes at most {most}"))
    try:
        return f"#SBATCH --{name}" + (f"={quote_directive(value)}" if value else "")
    except ValueError as error:
        problems.append(Problem(place, f"{error}, but its value is {shown(value)}"))
        return ""
