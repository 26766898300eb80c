"""The policy model for a shell: addresses that Gym's own Hydra would resolve become shell expansions."""

from __future__ import annotations

import re

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.jobscript.quoting import quote

_DEFERRED = re.compile(r"\$\{\s*oc\.env\s*:\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:,([^${}]*))?\}")


def policy_run_keys(config: SubmitConfig) -> dict[str, str]:
    """``policy_base_url``, ``_model_name`` and ``_api_key`` for a benchmark's `run`; empty without a policy.

    An ``${oc.env:NAME}`` in ``driver.policy_host`` stays as it is: Gym's own Hydra resolves it where the driver runs.
    """
    return {} if config.policy_wiring is None else config.policy_wiring.run_values()


def policy_exports(config: SubmitConfig) -> list[str]:
    """The same as ``NEMO_GYM_POLICY_*`` export statements for a benchmark's own command; empty without a policy.

    A shell knows no ``${oc.env:NAME}``: it becomes ``${NAME}``, expanded where the driver runs.
    """
    return [
        f"export NEMO_GYM_{key.upper()}={_shell_word(value) if key == 'policy_base_url' else quote(value)}"
        for key, value in policy_run_keys(config).items()
    ]


def deferred_variables(policy_host: str) -> set[str]:
    """Names of the job's variables that a policy host refers to as ``${oc.env:NAME}``."""
    return {found[1] for found in _DEFERRED.finditer(policy_host)}


def _shell_word(text: str) -> str:
    words, end = [], 0
    for found in _DEFERRED.finditer(text):
        words += [_quoted(text[end : found.start()]), _variable(found[1], found[2])]
        end = found.end()
    return "".join([*words, _quoted(text[end:])])


def _quoted(text: str) -> str:
    return quote(text) if text else ""


def _variable(name: str, default: str | None) -> str:
    if default is None:
        return f'"${{{name}}}"'
    return f'"${{{name}-' + re.sub(r'([\\"`])', r"\\\1", default.strip()) + '}"'
