"""How every question to Slurm is put: one builder for all, so that each is explicit about cluster, columns and
clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from airflow_gym_provider.jobscript.quoting import quote

__all__ = [
    "check_cluster",
    "check_id",
    "check_key",
    "chunks",
    "command",
    "command_here",
    "id_list",
    "is_cluster",
    "is_id",
    "name_list",
]

_CHUNK_BYTES = 6_000  # of ids: with the options one command stays below 8 KB, whatever a site's wrappers allow
_ID = re.compile(r"[1-9][0-9]{0,9}")
_LAST_ID = 0xFFFF_FFFD  # slurm.h: the two numbers after it mean "none" and "infinite"
_CLUSTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def command(tool: str, cluster: str | None, options: Iterable[str]) -> str:
    """`tool` with already quoted options as bash words: times in UTC, at `cluster`, or at the default one for None.

    Meant for a RemoteScript, which clears the variables that would change formats and filters.
    Raises ValueError for a cluster name that cannot be one.
    """
    return f"env TZ=UTC0 {command_here(tool, cluster, options)}"


def command_here(tool: str, cluster: str | None, options: Iterable[str]) -> str:
    """As `command`, for a shell whose own TZ is UTC0: one program less to start."""
    where = [f"--clusters={check_cluster(cluster)}"] if cluster else []
    return " ".join([tool, *where, *options])


def id_list(ids: Sequence[str]) -> str:
    """Job ids as one argument. Raises ValueError for none at all, or for one that is no plain number."""
    if not ids:
        raise ValueError("no job ids: Slurm would answer for every job")
    return ",".join(check_id(job_id) for job_id in ids)


def name_list(names: Sequence[str]) -> str:
    """Job names as one quoted word. Raises ValueError for none, or one that is empty or holds a comma or line break."""
    if not names:
        raise ValueError("no job names: Slurm would answer for every job")
    for name in names:
        if not name or re.search(r"[,\r\n\0]", name):
            raise ValueError(f"job name {name!r} cannot be searched for: commas and line breaks end a name")
    return quote(",".join(names))


def chunks(ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Distinct ids in order, in groups that each fit one command of less than 8 KB."""
    group: list[str] = []
    size = 0
    for job_id in dict.fromkeys(ids):
        if group and size + len(job_id) + 1 > _CHUNK_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(job_id)
        size += len(job_id) + 1
    if group:
        yield tuple(group)


def is_id(text: str) -> bool:
    """Whether `text` is a number as sbatch answers. Asked of another one, squeue tells nothing of those beside it."""
    return _ID.fullmatch(text) is not None and int(text) <= _LAST_ID


def is_cluster(text: str) -> bool:
    """Whether `text` can be a cluster's name."""
    return _CLUSTER.fullmatch(text) is not None


def check_id(job_id: str) -> str:
    """`job_id` if it is a plain number as sbatch answers. Raises ValueError otherwise."""
    if not is_id(job_id):
        raise ValueError(f"job id {job_id!r} is not a number that sbatch answers")
    return job_id


def check_cluster(cluster: str) -> str:
    """`cluster` if it can be a cluster's name. Raises ValueError otherwise."""
    if not is_cluster(cluster):
        raise ValueError(f"cluster name {cluster!r} is not letters, digits, '_', '.' or '-'")
    return cluster


def check_key(key: str) -> str:
    """`key` if it is a job as sbatch answers with --parsable: "60", or "60;c2". Raises ValueError otherwise."""
    job_id, semicolon, cluster = key.partition(";")
    check_id(job_id)
    if semicolon:
        check_cluster(cluster)
    return key
