"""What is asked about a job, and what is known of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_gym_provider.slurm.accounting import JobRow
from airflow_gym_provider.slurm.keys import job_key
from airflow_gym_provider.slurm.states import Ending

__all__ = ["JobRef", "JobStatus"]


@dataclass(frozen=True)
class JobRef:
    """A job to ask about, with what tells it from another one that was given the same number.

    `cluster` as sbatch answered it on a federation. `job_dir` is the job's working directory as it was given to sbatch;
    `submitted_at` is in seconds since 1970, by the login node's clock.
    """

    job_id: str
    cluster: str | None = None
    job_dir: str | None = None
    submitted_at: float | None = None

    @property
    def key(self) -> str:
        """The job in sbatch's own notation: "60", or "60;c2" when it has a cluster. Unique among all refs."""
        return job_key(self.job_id, self.cluster)


@dataclass(frozen=True)
class JobStatus:
    """What squeue and sacct together say of one job.

    ===============================================  ======  =======  =========  ========
    squeue and sacct                                 `live`  `known`  `missing`  `ending`
    ===============================================  ======  =======  =========  ========
    squeue shows it alive                            True    True     False      None
    both agree on its end, or squeue has forgotten   False   True     False      how
    squeue saw it end, sacct has not written how     False   False    False      None
    sacct has it alive, squeue has never heard       True    False    False      None
    both answered, neither has heard of it           False   False    True       None
    squeue has not, and the site keeps no accounts   False   False    True       None
    squeue or sacct could not be asked               True    False    False      None
    ===============================================  ======  =======  =========  ========

    `live` is True unless it certainly is not: never submit beside such a job. `known` False means "not now": ask again.
    Only the caller, who sees time pass, may turn `missing` into Ending.LOST. That holds for `runaway` as well, which is
    True in the row of a job that only sacct has: slurmdbd may be behind, or wait for ever for an end that slurmctld has
    lost (sacctmgr show runawayjobs).

    `state` is the latest word, for people, "" when there is none. `elapsed` is in seconds, summed over every time the
    job was requeued. `reason` says why it waits, `start_estimate` (UTC, ISO 8601) until when. `failed_steps` are texts
    such as "step 5.0 FAILED 1:0". `time_limit` (seconds) is of the present attempt, None when unlimited or not known.
    `exit_code` and `signal` are None when accounting did not say.
    """

    ref: JobRef
    state: str = ""
    live: bool = True
    known: bool = False
    missing: bool = False
    runaway: bool = False
    ending: Ending | None = None
    cancelled_by: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    elapsed: int = 0
    reason: str = ""
    nodes: str = ""
    start_estimate: str | None = None
    time_limit: int | None = None
    failed_steps: tuple[str, ...] = ()
    rows: tuple[JobRow, ...] = ()
    source: Literal["squeue", "sacct", "both"] | None = None
