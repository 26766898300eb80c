"""The chain of one task instance, as one worker process holds it: where it lies, how it is reached, how it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators import _config
from airflow_gym_provider.operators._arguments import EvalArguments
from airflow_gym_provider.operators._cluster import Cluster, kill
from airflow_gym_provider.operators._memory import ChainMemory
from airflow_gym_provider.operators._plan import ChainPlan, chain_key, check_stayed, make_plan
from airflow_gym_provider.operators._wanted import reason_to_go_on, timed_out

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class HeldChain:
    """A chain with its memory; with a plan and a cluster once it is prepared, or taken up again.

    `config` is there when this process has read the submit config: with it comes that the masker knows its secrets.
    """

    def __init__(self, arguments: EvalArguments, context: Context, log: Any) -> None:
        self.arguments = arguments
        self.context = context
        self.log = log
        self.memory = ChainMemory.of(context)
        self.plan: ChainPlan | None = None
        self.cluster: Cluster | None = None
        self.config: SubmitConfig | None = None
        self.killed = False

    def prepare(self) -> None:
        """Read the config, work out where the chain lies, and remember it before anything is done there."""
        self.config = self.load()
        benchmark = _config.pick_benchmark(self.config, self.arguments.benchmark)
        key = chain_key(self.context, self.memory, self.arguments.run_group)
        self.plan = make_plan(self.config, benchmark, key, self.context)
        check_stayed(self.plan.job_dir, self.memory.asked)
        self.cluster = self.reach(self.plan)
        self.memory.place = {"plan": self.plan.as_dict(), "ssh_conn_id": self.arguments.ssh_conn_id}
        self.memory.save()

    def load(self) -> SubmitConfig:
        """The submit config, as it is now; Airflow's masker knows its secrets from then on."""
        arguments = self.arguments
        environ = _config.whole_environ(arguments.environ)
        return _config.load_config(
            arguments.config,
            arguments.overrides,
            environ,
            self.context,
            self.log,
            ssh_conn_id=arguments.ssh_conn_id,
        )

    def mask(self) -> None:
        """Have this process's masker know the secrets as well: logs of the job are shown from here."""
        try:
            self.config = self.load()
        except Exception as err:
            self.log.warning("the submit config cannot be read any more, the job's logs are not shown: %s", err)

    def reach(self, plan: ChainPlan) -> Cluster:
        """The cluster of a plan, over this task's connection."""
        hook = SlurmHook(self.arguments.ssh_conn_id, plan.hostname)
        hook.load()
        return Cluster(hook, plan)

    def here(self) -> tuple[ChainPlan, Cluster]:
        """Plan and cluster. Raises RuntimeError before the chain is prepared."""
        if self.plan is None or self.cluster is None:
            raise RuntimeError("the chain has not been prepared")
        return self.plan, self.cluster

    def check_killed(self) -> None:
        """Raise ChainRetry once a signal has ended the task."""
        if self.killed:
            raise ChainRetry("the task was ended from outside")

    def kill(self) -> None:
        """From a signal handler: let the interrupted work end soon, and cancel what this chain has on the cluster.

        Not when only this process is to go, and another one goes on with the task: see `_wanted`.
        """
        self.killed = True
        place, cluster = self.memory.place, self.cluster
        if cluster is None:
            if "plan" not in place:
                self.log.info("nothing had been submitted yet")
                return
            # An earlier try may have left a job: its place is remembered.
            plan = ChainPlan.from_dict(place["plan"])
            cluster = Cluster(SlurmHook(place.get("ssh_conn_id"), plan.hostname), plan)
        job_id = place.get("job_id")
        over = timed_out()
        self.log.info(
            "%s",
            kill(
                cluster,
                "execution_timeout is over" if over else "the task was ended in Airflow",
                [job_id] if job_id else [],
                lambda: None if over else reason_to_go_on(self.context),
            ),
        )

    def close(self) -> None:
        """Give the connection back."""
        if self.cluster is not None:
            self.cluster.hook.close()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds, unless the task is ended meanwhile. Raises ChainRetry then."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            self.check_killed()
            time.sleep(min(rest, 1.0))
