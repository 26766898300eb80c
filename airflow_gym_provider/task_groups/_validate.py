"""The first task of `gym_evals`: is the config sound, and which of its benchmarks are to run."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.operators._arguments import given_overrides
from airflow_gym_provider.operators._failure import faults_without_secrets
from airflow_gym_provider.operators.gym import _GymOperator

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.config import SubmitConfig


class GymValidateOperator(_GymOperator):
    """Checks a submit config without asking the cluster, and returns the names of the benchmarks to run.

    Checks all that can be known before: the config, the choice of benchmarks, the job script of each, and that the
    variables of `host:` and `forward_env` are there. Fails once, with every problem. Parameters as of
    `GymEvalOperator`; where the worker itself fails it begins again after half a minute (`retry_delay`).

    :param benchmarks: names or patterns ("gpqa", "mmlu*", "!slow_*"); all of the config unless given (templated).
    """

    template_fields: Sequence[str] = ("config", "benchmarks", "overrides", "ssh_conn_id")

    def __init__(
        self,
        *,
        benchmarks: str | Sequence[str] | None = None,
        retry_delay: timedelta | float = timedelta(seconds=30),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs, retry_delay=retry_delay)
        self.benchmarks = benchmarks

    def execute(self, context: Context) -> list[str]:
        """The names, in the config's order. Raises AirflowFailException with all problems."""
        with faults_without_secrets():
            return self._validated(context)

    def _validated(self, context: Context) -> list[str]:
        from airflow_gym_provider.operators import _config

        _refuse_misspelt(context)
        environ = _config.whole_environ(self._rendered_environ(context))
        config = _config.load_config(
            self.given("config"),
            given_overrides(self.given("overrides")),
            environ,
            context,
            self.log,
            ssh_conn_id=self.ssh_conn_id,
        )
        names = self._checked(config, environ)
        self.log.info("to be evaluated on %s: %s", config.cluster_name, ", ".join(names))
        return names

    def _checked(self, config: SubmitConfig, environ: dict[str, str]) -> list[str]:
        from airflow.sdk.exceptions import AirflowFailException

        from airflow_gym_provider.task_groups._choose import ChoiceError, choose, read_patterns

        names, problems = list(config.driver.benchmarks), list[str]()
        try:
            names = choose(names, read_patterns(self.benchmarks))
        except ChoiceError as err:
            problems.append(str(err))
        problems += _later_problems(config, names, environ)
        if problems:
            raise AirflowFailException("\n".join(["Nothing was submitted:", *dict.fromkeys(problems)]))
        return names


def _refuse_misspelt(context: Context) -> None:
    """A name in the run's conf that is nearly one of the DAG's params: Airflow takes it without a word, and what was
    meant to be evaluated would not be. Other names in conf are nobody's business but the DAG's.
    """
    from airflow.sdk.exceptions import AirflowFailException

    from airflow_gym_provider.config.suggest import did_you_mean

    params = context["dag"].params
    for name in getattr(context.get("dag_run"), "conf", None) or {}:
        if name not in params and (guess := did_you_mean(name, params)):
            raise AirflowFailException(f"conf has {name!r}, which is no param of this DAG{guess} Nothing was submitted")


def _later_problems(config: SubmitConfig, names: Sequence[str], environ: dict[str, str]) -> list[str]:
    """What would otherwise be found by each benchmark's own task, when the others are running."""
    from airflow_gym_provider.config import SubmitConfigError
    from airflow_gym_provider.config.errors import gathering
    from airflow_gym_provider.jobscript import render_job_script
    from airflow_gym_provider.operators import _config

    try:
        with gathering() as part:
            for name in names:
                with part():  # where the run will lie does not matter yet
                    render_job_script(config, name, posixpath.join(config.job.output_path, "gym-job", name))
            with part():
                _config.mask(frozenset(config.forwarded_environ(environ).values()))
    except SubmitConfigError as err:
        return [f"  - {problem}" for problem in err.problems]
    return []
