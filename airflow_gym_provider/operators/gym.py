"""GymEvalOperator and GymSubmitOperator: an evaluation as one task, and a whole config queued at once.

This module is imported by every DAG file that uses it, so it imports next to nothing: models, Hydra and the SSH client
come when a task runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_gym_provider.links.gym import EVAL_LINKS, FILE_LINKS
from airflow_gym_provider.operators._arguments import (
    EvalArguments,
    SubmitArguments,
    given_overrides,
    refuse_dag_defaults,
    refuse_stored_values,
)
from airflow_gym_provider.operators._failure import faults_without_secrets, reason_left
from airflow_gym_provider.operators._outlets import known_asset, publish, with_alias
from airflow_gym_provider.operators.retry import retry_arguments
from airflow_gym_provider.seconds import Seconds, seconds

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk.definitions.context import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_gym_provider.operators._chain import ChainTask, Waiting

ConfigArgument = "str | Path | Sequence[str | Path] | Mapping[str, Any]"
DEFAULT_POLL_INTERVAL = 30.0
_TIMES = {"poll_interval": False, "results_timeout": True, "lost_timeout": True}  # and whether it may be zero


def _time(name: str, value: Seconds) -> float:
    return seconds(name, value, zero=_TIMES[name])


class _GymOperator(BaseOperator):
    """What both operators share: their arguments, and that retries are the chain's own.

    `retries` and `retry_policy` are always ours: the config's `resumable` draws the bounds, whatever a DAG's
    `default_args` or the arguments say. `partial` does the same for mapped tasks, which take both from there and never
    from `__init__`. `retry_delay` is yours.
    """

    template_fields: Sequence[str] = ("config", "benchmark", "overrides", "ssh_conn_id")
    # Empty on purpose. With ".yaml" here Airflow would put the text of a file in the place of its name, and fragments
    # named beside it could not be found any more. The Jinja in the files is rendered when they are read.
    template_ext: Sequence[str] = ()
    ui_color = "#e8f1d4"

    def __init__(
        self,
        *,
        config: str | Path | Sequence[str | Path] | Mapping[str, Any],
        overrides: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        ssh_conn_id: str | None = None,
        poll_interval: Seconds = DEFAULT_POLL_INTERVAL,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**(kwargs | self.forced_arguments(kwargs)))
        refuse_dag_defaults(self.get_dag())
        self.poll_interval = _time("poll_interval", poll_interval)
        self.deferrable = deferrable
        self.config = config
        self.overrides = overrides
        self.environ = environ
        self.ssh_conn_id = ssh_conn_id
        self._filled_in: dict[str, tuple[Any, Any]] = {}

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As of every operator, with our retries: see the class. Raises ValueError for an `environ` to be stored, and
        for times that are none: else each mapped task would find that out by itself.
        """
        from airflow_gym_provider.operators._mapped import guarded

        refuse_stored_values(kwargs.get("environ"))
        kwargs |= {name: _time(name, kwargs[name]) for name in _TIMES if name in kwargs}
        partial = guarded(super().partial(**(kwargs | cls.forced_arguments(kwargs))))
        try:
            refuse_dag_defaults(partial.kwargs["dag"])
        except ValueError:
            partial._expand_called = True
            raise
        return partial

    @classmethod
    def forced_arguments(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Operator arguments that are ours, whatever was given: a mapped operator takes them from `partial` alone."""
        return retry_arguments()

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """As of every operator; but what a template brings into `config` or `overrides` is text, whatever it holds."""
        field = next((name for name in ("config", "overrides") if content is getattr(self, name, None)), None)
        if content is None or field is None:
            return super().render_template(content, context, jinja_env, seen_oids)
        from airflow_gym_provider.operators._templates import filled_in, shown, stays_below, with_xcoms_as_text

        environment = jinja_env or self.get_template_env()
        content = with_xcoms_as_text(content, overrides=field == "overrides")
        render = partial(super().render_template, content, context, seen_oids=seen_oids)
        found = filled_in(lambda env: render(jinja_env=env), environment, overrides=field == "overrides")
        if field == "config":
            stays_below(content, found)
        return self._keep(field, found, shown(found))

    def given(self, field: str) -> Any:
        """`config` or `overrides` for `load_config`: rendered, so that what templates brought in is known as text. A
        value that somebody has given the attribute since is taken as it is.
        """
        found, shown = self._filled_in.get(field, (None, None))
        return found if shown is not None and getattr(self, field) is shown else getattr(self, field)

    def _keep(self, field: str, found: Any, shown: Any) -> Any:
        # Airflow copies an operator for each run, and a copy shares what is in it.
        self._filled_in = {**self._filled_in, field: (found, shown)}
        return shown

    def _rendered_environ(self, context: Context) -> dict[str, str]:
        """`environ` with its templates rendered. It is no template field: those are stored and shown."""
        from airflow_gym_provider.config.brought_in import FilledIn
        from airflow_gym_provider.operators._config import mask_given

        rendered: dict[str, str] = self.render_template(dict(self.environ or {}), context)
        given = self.environ or {}
        found = {name: str(value) if value == given[name] else FilledIn(value) for name, value in rendered.items()}
        mask_given(found)
        return found


class GymEvalOperator(_GymOperator):
    """Runs one benchmark of a submit config on Slurm, from the config to its metrics.

    Green means evidence: the Slurm job COMPLETED *and* the results are complete (a benchmark with its own `command` is
    judged by its exit status). Each try is one Slurm job. A job that ended otherwise is resumed in the same directory
    as far as the benchmark's `resumable` allows; Airflow shows the reason of every retry. A config that cannot be used
    and a permanent refusal by sbatch fail at once.

    ==============  ================================  ======================================  ===============
    the Slurm job   the task is retried               the task is cleared                     marked by hand
    ==============  ================================  ======================================  ===============
    waits or runs   it is taken up again              it is cancelled; a new one, new budget  it is cancelled
    ended, red      the chain goes on, if it may      new one, same directory, new budget     nothing
    ended, green    its results are returned          all new, in a directory of its own      nothing
    ==============  ================================  ======================================  ===============

    Returns (and pushes to XCom) ids, states, elapsed seconds, paths, counts and metrics: numbers and short texts, at
    most 64 KB. A green result is also an event of the asset `gym://<cluster>/<benchmark>`, and the reason of a try
    that failed the XCom `gym_failure`. Before it waits it pushes the XCom `gym_job`: where the job and its files are.

    :param config: path of the submit config, list of paths (later over earlier), or a mapping (templated). Files are
        read in the worker when the task runs, `defaults:` fragments from beside them; the Jinja in them is rendered.
        Relative paths are looked for beside the DAG file, then in the worker's directory.
    :param benchmark: which one; may be left out when the config has one (templated).
    :param overrides: in Hydra's grammar, such as `compute.cluster.walltime=4:00:00`, or by role and taken as it stands:
        `@policy.model=/ckpt/7`, `@cluster.walltime=4:00:00`, `@run.limit=10`. Empty ones change nothing (templated).
    :param environ: names to values for `host:` and `forward_env`, before the worker's environment. Templates in values
        are rendered, and neither they nor the values are stored or shown. In a mapped task give templates only:
        Airflow stores what `partial` and `expand` are given.
    :param ssh_conn_id: connection (type slurm or ssh) of the login node, whose account, partition and output path stand
        in for what the config leaves out; None when Slurm's commands are on the worker (templated).
    :param poll_interval: seconds between two looks at the job; the connection's extra `poll_interval` (30 unless given)
        is the shortest. All tasks that wait for one login node in the triggerer share one look.
    :param deferrable: wait in the triggerer (default) or in the worker. Both behave alike, but in a worker each task
        looks for itself.
    :param results_timeout: seconds that complete results may come after the job's end.
    :param lost_timeout: seconds for which squeue and sacct must both answer and not know the job until it is lost.
    :param follow_log: show new lines of the driver's log while the job runs, without the config's secrets, at most
        16 KB with each look. job.sh (0600) then also lists what to hide, the values of `forward_env` included.
    :param run_group: share one run directory and record with the other tasks of this name in the DAG run.
    :param execution_timeout: counts from the first start, over all retries and deferrals. When it is over the job is
        cancelled and the task fails.
    """

    operator_extra_links = EVAL_LINKS

    def __init__(
        self,
        *,
        benchmark: str | None = None,
        results_timeout: Seconds = 60.0,
        lost_timeout: Seconds = 60.0,
        run_group: str | None = None,
        follow_log: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.benchmark = benchmark
        self.results_timeout = _time("results_timeout", results_timeout)
        self.lost_timeout = _time("lost_timeout", lost_timeout)
        self.run_group = run_group
        self.follow_log = follow_log
        self._chain: ChainTask | None = None
        # Of a mapped task Airflow knows the outlets from `partial`: one that it has not seen there would be refused.
        if not getattr(self, "_BaseOperator__from_mapped", False):
            asset = known_asset(self.config, benchmark)
            self.outlets += [asset] if asset and asset not in self.outlets else []

    @classmethod
    def forced_arguments(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """As of every operator here, and the outlet through which results become assets."""
        return super().forced_arguments(given) | {"outlets": with_alias(given.get("outlets"))}

    def execute(self, context: Context) -> dict[str, Any]:
        """Make sure of one job, then wait for it; see the class."""
        with reason_left(context):
            chain = self._open(context)
            try:
                return self._until_done(chain, chain.start())
            finally:
                chain.close()

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, plan: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """After the trigger: look at the cluster, return the result or say what comes next."""
        with reason_left(context):
            chain = self._open(context)
            try:
                return self._until_done(chain, chain.resume(plan or {}, event))
            finally:
                chain.close()

    def on_kill(self) -> None:
        """Cancel the job, in less than 5 s, whatever the task was doing. Says what it found, never raises.

        A worker that is only shut down cancels nothing: the next try takes the job up.
        """
        if self._chain is not None:
            self._chain.kill()

    def _open(self, context: Context) -> ChainTask:
        from airflow_gym_provider.operators._chain import ChainTask

        self._chain = ChainTask(self._arguments(context), context, self.log)
        return self._chain

    def _until_done(self, chain: ChainTask, step: Waiting | dict[str, Any]) -> dict[str, Any]:
        from airflow_gym_provider.operators._waiting import make_trigger, wait_here

        while not isinstance(step, dict):
            if self.deferrable:
                # No timeout: Airflow's would end the task without on_kill and leave its job running.
                self.defer(
                    trigger=make_trigger(chain, step),
                    method_name="execute_complete",
                    kwargs={"plan": chain.plan.as_dict() if chain.plan else {}},
                    timeout=None,
                )
            step = chain.go_on(wait_here(chain, step))
        publish(chain, self.outlets, step)
        return step

    def _arguments(self, context: Context) -> EvalArguments:
        limit = self.execution_timeout
        return EvalArguments(
            config=self.given("config"),
            benchmark=self.benchmark,
            overrides=given_overrides(self.given("overrides")),
            environ=self._rendered_environ(context),
            ssh_conn_id=self.ssh_conn_id,
            poll_interval=self.poll_interval,
            results_timeout=self.results_timeout,
            lost_after=self.lost_timeout,
            run_group=self.run_group,
            execution_timeout=limit.total_seconds() if limit else None,
            retry_delay=self.retry_delay.total_seconds(),
            retries=int(self.retries or 0),
            follow_log=bool(self.follow_log),
        )


class GymSubmitOperator(_GymOperator):
    """Validates a submit config, renders and queues every benchmark, and returns the submission record.

    It does not wait: use `SlurmJobSensor` on its record, or `GymEvalOperator`, for that. One benchmark that cannot be
    queued does not keep the others: its `job_id` is null and its `error` says why, and the task is red in the end.

    A retry finds what is queued already. A clear of a green task queues everything again, in a directory of its own; of
    a red one what is missing. Nothing is ever cancelled: what an earlier run of the task has queued goes on beside it.
    Parameters as of `GymEvalOperator`; `poll_interval` and `deferrable` are taken, so that both may share their
    arguments, and mean nothing.

    :param benchmark: queue only this one, or these; all of the config unless given (templated).
    """

    operator_extra_links = FILE_LINKS

    def __init__(self, *, benchmark: str | Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.benchmark = benchmark

    def execute(self, context: Context) -> dict[str, Any]:
        """Queue everything, exactly once, however often the task is tried."""
        from airflow_gym_provider.operators._submit_all import submit_all

        with faults_without_secrets():
            return submit_all(self._arguments(context), context, self.log)

    def _arguments(self, context: Context) -> SubmitArguments:
        return SubmitArguments(
            config=self.given("config"),
            benchmark=self.benchmark,
            overrides=given_overrides(self.given("overrides")),
            environ=self._rendered_environ(context),
            ssh_conn_id=self.ssh_conn_id,
            retries=int(self.retries or 0),
        )
