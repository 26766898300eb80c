"""From an operator's arguments to a checked config, before anything touches the cluster."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

from airflow_gym_provider.config import SubmitConfig, SubmitConfigError, SubmitConfigWarning, load_submit_config
from airflow_gym_provider.config.hiding import CREDENTIAL, hiding_by, shapes, worth_hiding
from airflow_gym_provider.hooks.defaults import connection_defaults
from airflow_gym_provider.operators._failure import without_secrets
from airflow_gym_provider.operators._jinja import renderer

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.definitions.context import Context

_MOST_COMPILED = 300_000
"""Characters that another process compiles, each text with all those before it; about 3 µs for one."""

ConfigSource = str | Path | Sequence[str | Path | Mapping[str, Any]] | Mapping[str, Any]


def load_config(
    source: ConfigSource,
    overrides: Sequence[str],
    environ: Mapping[str, str],
    context: Context,
    log: Any,
    *,
    ssh_conn_id: str | None = None,
) -> SubmitConfig:
    """The config, the Jinja in its files rendered; the connection stands in for what it leaves out. Its secrets are
    known to Airflow's masker from here on, its warnings are in the log.

    Raises AirflowFailException with every problem in one readable text: no retry repairs a config.
    """
    defaults = connection_defaults(ssh_conn_id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SubmitConfigWarning)
        try:
            with hiding_by(without_secrets):  # of connections, which templates read
                config = load_submit_config(
                    _located(source, context.get("dag")),
                    list(overrides),
                    environ,
                    render=renderer(context),
                    defaults=defaults,
                )
        except SubmitConfigError as err:
            raise AirflowFailException(f"The submit config cannot be used:\n{err}") from None
        except OSError as err:
            raise AirflowFailException(f"The submit config cannot be read: {err}") from None
        except Exception:
            # A fault of ours: nobody knows yet what was read, and the traceback is going to be written.
            mask(value for name, value in environ.items() if CREDENTIAL.search(name))
            raise
    for warning in caught:
        if issubclass(warning.category, SubmitConfigWarning):
            log.warning("submit config: %s", warning.message)
    # What a template took from a connection is known to the masker by now; what the config refers to is not, and needs
    # not be hidden where a reference stands for it.
    config.conceal(without_secrets)
    mask(config.secret_values())
    return config


def mask(values: Iterable[str]) -> None:
    """Register values with Airflow's masker, in this process and in the one that writes its log, in all their
    shapes; but for those that are not `worth_hiding`, which would leave no line readable.

    Airflow compiles all that it knows again for each text, which takes minutes for a key of fifty lines. So in this
    process, through which all goes that we log, they are compiled once; the other one is told as many as it can take
    in within a second, plain ones before others.
    """
    given = list(values)
    if not (found := shapes(given)):
        return
    _compile_once(found)
    plain = [line for value in given for line in value.split("\n") if worth_hiding(line)]
    # What is known here by now costs nothing here.
    mask_secret(list[Any](_affordable([*sorted(set(plain), key=len), *reversed(found)])))


def _compile_once(texts: Sequence[str]) -> None:
    """What Airflow's masker does for each text, once for all of them. Where it has become another one inside, it is
    told by `mask_secret` alone, as many as it can take in.
    """
    try:
        from airflow.sdk._shared.secrets_masker import _secrets_masker

        masker = _secrets_masker()
        least, known = masker.min_length_to_mask, masker.patterns
    except (ImportError, AttributeError):
        return
    known |= {re.escape(text) for text in texts if len(text) >= least}
    if known:
        masker.replacer = re.compile("|".join(sorted(known, key=len, reverse=True)))


def _affordable(texts: Iterable[str]) -> list[str]:
    taken, size, cost = dict[str, None](), 0, 0
    for text in texts:
        if text not in taken:
            size += len(text)
            cost += size
            if cost > _MOST_COMPILED:
                break
            taken[text] = None
    return list(taken)


def mask_given(environ: Mapping[str, str]) -> None:
    """Register the values of an operator's `environ` before anything can go wrong with them. Paths are no secrets,
    unless their name says so: a run's folder has to be found.
    """
    mask(value for name, value in environ.items() if not value.startswith("/") or CREDENTIAL.search(name))


def hidden(text: str, config: SubmitConfig) -> str:
    """Text of a job with the config's secrets taken out.

    Airflow's masker serves the task's log file only: LocalExecutor copies the log to the scheduler's output as it was.
    """
    return config.hide(text)


def forwarded(config: SubmitConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The values that travel with a submission, masked. Raises AirflowFailException naming all that are missing."""
    try:
        values = config.forwarded_environ(environ)
    except SubmitConfigError as err:
        raise AirflowFailException(f"Nothing was submitted:\n{err}") from None
    mask(frozenset(values.values()))
    return values


def whole_environ(given: Mapping[str, str] | None) -> dict[str, str]:
    """The worker's environment with the operator's `environ` before it."""
    return {**os.environ, **(given or {})}


def pick_benchmark(config: SubmitConfig, benchmark: str | None) -> str:
    """The one to run. Raises AirflowFailException naming those there are."""
    names = list(config.driver.benchmarks)
    if benchmark in names:
        return str(benchmark)
    if not benchmark and len(names) == 1:
        return names[0]
    what = f"there is no {benchmark!r}" if benchmark else "give `benchmark`"
    raise AirflowFailException(f"driver.benchmarks has {', '.join(names)}: {what}")


def _located(source: ConfigSource, dag: DAG | None) -> ConfigSource:
    """A relative path means a file beside the DAG when there is one, else one in the worker's working directory."""
    if isinstance(source, str | Path):
        return _beside(source, dag)
    if isinstance(source, Mapping):
        return source
    return [part if isinstance(part, Mapping) else _beside(part, dag) for part in source]


def _beside(path: str | Path, dag: DAG | None) -> str | Path:
    folder = getattr(dag, "folder", None)
    if folder and not Path(path).is_absolute() and (Path(folder) / path).exists():
        return Path(folder) / path
    return path
