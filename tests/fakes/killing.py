"""Killing a script at a line of its own, and what the tries after it do."""

from __future__ import annotations

import subprocess

import pytest

from airflow_gym_provider.chain import Action, OutcomeKind, submit_script
from airflow_gym_provider.slurm.remote import RemoteScript

from .chains import Chains

# Every command of our functions passes here. In the first run it only tells its line. The variables are settings of the
# environment, or of a line before.
TRACED = """\
set -T
_hit() {
  if [ -z "$KILL_AT" ]; then
    printf '%s\\n' "$1" >>"$KILL_LOG"
  elif [ "$1" = "$KILL_AT" ] && ! [ -e "${KILL_PID-}" ]; then
    trap - DEBUG
    [ -z "${KILL_PID-}" ] || printf '%s\\n' "$$" >"$KILL_PID"
    kill "-${KILL_SIGN:-KILL}" -- "${KILL_WHOM:-${KILL_PREFIX-}$$}"
  fi
}
trap '[[ ${FUNCNAME[0]-} != gym_* ]] || _hit "$LINENO"' DEBUG
"""


def start(chains: Chains, script: RemoteScript, **environ: str) -> subprocess.Popen:
    process = subprocess.Popen(
        ["bash", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**chains.slurm.environ, **environ},
        start_new_session=True,
    )
    process.stdin.write(script.text.encode())
    process.stdin.close()
    return process


def a_submission(chains: Chains) -> RemoteScript:
    return submit_script(chains.files(), chains.submissions(chains.look()), timing=chains.timing)


def traced(script: RemoteScript) -> RemoteScript:
    return begun_with(TRACED, script)


def begun_with(text: str, script: RemoteScript) -> RemoteScript:
    """The script with this bash before its own, but behind the command by which it undoes traps of a login."""
    first, end, rest = script.text.partition("} 2>/dev/null\n")
    assert end, "the script's first command is not what it was"
    return RemoteScript(first + end + text + rest, script.nonce)


def recover(chains: Chains) -> None:
    """What the tries after the killed one do, with time passing between them."""
    for _ in range(6):
        look = chains.look()
        decision = chains.decisions(look)["gpqa"]
        if decision.action is Action.ADOPT and not look.chains["gpqa"].found:
            return
        if decision.action is Action.WAIT:
            chains.age_intent(60)
            continue
        (outcome,) = chains.submit(look).outcomes.values()
        assert outcome.kind in (OutcomeKind.SUBMITTED, OutcomeKind.ADOPTED, OutcomeKind.CHANGED, OutcomeKind.WAIT)
        chains.age_intent(60)
    pytest.fail("the chain never came to rest")
