"""The `env` of one step as export statements, to stand inside that step's own shell.

Set inside, because a container image's own variables win over what the step inherits from the job; and on standard
input rather than in an argument, because values may be secrets and arguments are visible to every account on a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from airflow_gym_provider.config import EnvValue, Problem, SubmitConfigError
from airflow_gym_provider.jobscript.quoting import MAX_ARGUMENTS_BYTES, MAX_WORD_BYTES, quote

# Read-only in bash, or values that bash makes up whenever they are read or a program is started.
_BASH_OWN = re.compile(
    "_|BASHOPTS|BASHPID|BASH_(ALIASES|ARGC|ARGV|ARGV0|CMDS|COMMAND|LINENO|MONOSECONDS|REMATCH|SOURCE|SUBSHELL|TRAPSIG"
    "|VERSINFO)|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OPTIND|PIPESTATUS|PPID|RANDOM"
    "|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID"
)
# Variables of the steps' own text (templates/*_body.sh.j2).
_STEPS_OWN = re.compile("gym_checkout|gym_file|gateway_program|metrics_port|ray_address|serve|symmetric")


def export_lines(env: Mapping[str, EnvValue], place: str) -> list[str]:
    """One bash statement per entry of `env`; `place` is its dotted place in the config, for errors.

    ``lit:`` and ``host:`` values are quoted texts. ``runtime:VAR`` is expanded where the step runs; if the job has no
    VAR there, the entry stays unset, since an empty CUDA_VISIBLE_DEVICES would mean something else than none.
    Runtime entries come first and in an order in which no entry reads a name that another one has just set.

    Raises SubmitConfigError for names that bash or the step keeps for itself and for values that no variable can hold,
    or that are too large together.
    """
    problems: list[Problem] = []
    runtime = {name: value.value for name, value in env.items() if value.kind == "runtime"}
    lines = [_runtime_line(name, runtime[name]) for name in _readers_first(runtime)]
    for name, value in env.items():
        if _BASH_OWN.fullmatch(name):
            problems.append(Problem(f"{place}.{name}", "bash keeps this variable for itself; use another name"))
        elif _STEPS_OWN.fullmatch(name):
            problems.append(Problem(f"{place}.{name}", "the job script uses this variable itself; use another name"))
        elif value.kind != "runtime":
            lines.extend(_literal_line(name, value, f"{place}.{name}", problems))
    size = sum(len(value.value.encode(errors="replace")) for value in env.values() if value.kind != "runtime")
    if size > MAX_ARGUMENTS_BYTES:
        told = f"the values have {size} bytes together, and a program gets {MAX_ARGUMENTS_BYTES} at most; use files"
        problems.append(Problem(place, told))
    if problems:
        raise SubmitConfigError(problems)
    return lines


def _runtime_line(name: str, variable: str) -> str:
    return f'[[ ! -v {variable} ]] || export {name}="${variable}"'


def _literal_line(name: str, value: EnvValue, place: str, problems: list[Problem]) -> Iterator[str]:
    try:
        line = f"export {name}={quote(value.value)}"
    except ValueError as error:
        problems.append(Problem(place, str(error)))
        return
    if len(name) + 1 + len(value.value.encode()) > MAX_WORD_BYTES:
        problems.append(Problem(place, f"Linux passes at most {MAX_WORD_BYTES} bytes in one variable; use a file"))
    yield line


def _readers_first(runtime: Mapping[str, str]) -> list[str]:
    """Names in an order where a variable is read before an entry of that name replaces it (a cycle keeps its order)."""
    waiting, ordered = list(runtime), []
    while waiting:
        free = (name for name in waiting if all(runtime[other] != name for other in waiting if other != name))
        chosen = next(free, waiting[0])
        waiting.remove(chosen)
        ordered.append(chosen)
    return ordered
