"""The submission record of a run directory, gym-job.json: its template for the scripts, and its reader."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 1
"""The newest version of the record that we write and read."""


@dataclass(frozen=True)
class RecordHead:
    """What the record says of the submission as a whole. Fixed by the first benchmark that is queued.

    `submitted_at` is UTC in ISO 8601 with a trailing Z; `hostname` is None when submitted on this machine;
    `gym_version` and `gym_commit` are None when unknown.
    """

    gym_job_id: str
    submitted_at: str
    cluster: str
    gym_version: str | None = None
    gym_commit: str | None = None
    hostname: str | None = None
    submitted_by: str | None = None
    executor_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordEntry:
    """One benchmark of a record. `job_id` is the newest job of its chain; None exactly when queueing it failed, and
    then `error` says why. `slurm_cluster`: where that job was sent, on a site of several clusters; None for the
    default one.
    """

    benchmark: str
    job_dir: str
    job_id: str | None
    error: str | None
    slurm_cluster: str | None = None


@dataclass(frozen=True)
class Record:
    """A record as read: `fields` as they stand in the file, and the benchmarks."""

    fields: Mapping[str, Any]
    benchmarks: tuple[RecordEntry, ...]


def record_template(head: RecordHead, run_dir: str, benchmarks: Sequence[str]) -> str:
    """What record.sh makes gym-job.json from: the order of benchmarks, then the JSON with a gap for them."""
    before = {
        "gym_job_id": head.gym_job_id,
        "gym_version": head.gym_version,
        "gym_commit": head.gym_commit,
        "submitted_at": head.submitted_at,
        "run_dir": run_dir,
        "cluster": head.cluster,
        "executor": "slurm",
        "hostname": head.hostname,
        "submitted_by": head.submitted_by,
    }
    after = {"executor_metadata": dict(head.executor_metadata), "schema_version": SCHEMA_VERSION}
    first = json.dumps(before, indent=2).removesuffix("\n}")
    last = json.dumps(after, indent=2).removeprefix("{\n")
    return f'{" ".join(benchmarks)}\n{first},\n  "benchmarks": [\n@benchmarks@\n],\n{last}\n'


def entry_head(benchmark: str, job_dir: str) -> str:
    """The first lines of one benchmark's entry; record.sh adds job_id, slurm_cluster and error."""
    return f'      "benchmark": {json.dumps(benchmark)},\n      "job_dir": {json.dumps(job_dir)}'


def read_record(text: str) -> Record:
    """The record in the text of a gym-job.json of any version up to our own.

    Raises ValueError for a newer one, or for what is no record, with the reason.
    """
    try:
        fields = json.loads(text)
        version = fields["schema_version"]
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise ValueError(
                f"gym-job.json has schema_version {version!r}, this provider reads up to {SCHEMA_VERSION}: update it"
            )
        entries = tuple(
            RecordEntry(
                item["benchmark"], item["job_dir"], item.get("job_id"), item.get("error"), item.get("slurm_cluster")
            )
            for item in fields["benchmarks"]
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"gym-job.json is no submission record: {error!r}") from error
    return Record(fields, entries)
