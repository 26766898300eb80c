"""When squeue or sacct cannot answer: what kind of trouble that is, in words for people.

None of these says anything about a job. A caller keeps waiting through all of them; the kind only tells how: slower
after RATE_LIMITED, without accounting at all after ACCOUNTING_DISABLED.
"""

from __future__ import annotations

import re
from enum import StrEnum

__all__ = ["TROUBLE", "Problem", "ProblemKind", "damage", "table_problem", "tool_problem"]


class ProblemKind(StrEnum):
    """Why a tool gave no answer to rely on."""

    ACCOUNTING_DISABLED = "accounting_disabled"
    RATE_LIMITED = "rate_limited"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    UNKNOWN_CLUSTER = "unknown_cluster"
    NO_TOOL = "no_tool"
    CUT = "cut"
    OTHER = "other"


class Problem(str):
    """One trouble as text for people, with its `kind`. Equal to the same text."""

    kind: ProblemKind

    def __new__(cls, text: str, kind: ProblemKind) -> Problem:
        """A problem that reads as `text`."""
        problem = super().__new__(cls, text)
        problem.kind = kind
        return problem


# The first that fits decides. Texts of Slurm 22.05 to 25.05 (src/common/slurm_errno.c and the tools' own), in lower
# case and in what Python's expressions and those of POSIX have in common.
_KINDS = (
    (ProblemKind.ACCOUNTING_DISABLED, "accounting storage is disabled"),
    (ProblemKind.RATE_LIMITED, "rate.?limit"),
    (ProblemKind.UNKNOWN_CLUSTER, "no cluster |invalid entry for --cluster"),
    (ProblemKind.TIMED_OUT, "timed? ?out"),
    (
        ProblemKind.UNREACHABLE,
        "connection refused|unable to (contact|connect|establish|resolve)|connect(ion)? failure"
        "|persist(ent)?.conn|no route to host|talking to the database|zero bytes|unexpected message|in standby mode"
        "|establish a configuration source|slurmdbd: |dbd_[a-z_]+ failure|response (type|to message type)",
    ),
)
_ERROR = "s[a-z0-9_]+: (?:error|fatal): |slurm_[a-z0-9_]+ error: "
TROUBLE = f"(^|\n)({_ERROR.replace('?:', '')})[^\n]*({'|'.join(pattern for _, pattern in _KINDS)})"
"""For scripts: what finds a line of these kinds in a tool's standard error, put in lower case. POSIX, extended."""
_NOT_KNOWN = re.compile(r"Invalid job id specified", re.IGNORECASE)
_ERROR_LINE = re.compile(f"^(?:{_ERROR})(.+)", re.MULTILINE | re.IGNORECASE)
_HEADER = re.compile(r"^JOBID(RAW)?[\x1f|]", re.IGNORECASE | re.MULTILINE)
_TIMEOUT_STATUSES = (124, 137)  # of timeout(1): it ended the tool, or had to kill it
_ADVICE = (
    "accounting is disabled on this cluster, so how a job ended is known only while squeue remembers it (MinJobAge); "
    "an evaluation chain needs slurmdbd"
)


def tool_problem(tool: str, status: int | None, stderr: str) -> Problem | None:
    """What kept `tool` from answering; None when its answer can be relied on, even an empty one.

    `status` is its exit status, None when the connection ended before it was known. "Invalid job id specified" is an
    answer: slurmctld does not know that job. An exit status of 0 beside an error about the connection is none: some
    releases of sacct print what they have and exit 0. Lines that tell of no trouble we know ("Ignoring ControlMachine
    since SlurmctldHost is set", at every call) take nothing from an answer that is whole, nor from that one.
    """
    if status is None:
        return Problem(f"{tool}: its answer was cut off", ProblemKind.CUT)
    if status in _TIMEOUT_STATUSES:
        return Problem(f"{tool}: no answer in time", ProblemKind.TIMED_OUT)
    errors = list(dict.fromkeys(line.strip() for line in _ERROR_LINE.findall(stderr)))
    said = "; ".join(errors) or " ".join(stderr.split())
    kind = _kind(status, said)
    if tool == "squeue" and kind is ProblemKind.OTHER and any(_NOT_KNOWN.search(line) for line in errors):
        return None
    if status and kind is ProblemKind.OTHER and (plain := _kind(status, stderr)) is not kind:
        said, kind = " ".join(stderr.split()), plain  # what matters came without "error:", beside a line that does not
    if status == 0 and (not errors or kind is ProblemKind.OTHER):
        return None
    text = f"{_ADVICE} ({said})" if kind is ProblemKind.ACCOUNTING_DISABLED else said or f"exit status {status}"
    return Problem(f"{tool}: {text}"[:600], kind)


def table_problem(tool: str, status: int | None, stderr: str, table: str) -> Problem | None:
    """As `tool_problem`, of a call that prints a header: an answer without one is none, whatever its exit status.

    A site's wrapper that prints nothing and exits 0 has not said that there are no jobs.
    """
    problem = tool_problem(tool, status, stderr)
    if problem is not None or status or _HEADER.search(table):
        return problem
    return Problem(f"{tool}: exit status 0, but its answer lacks the header line", ProblemKind.OTHER)


def damage(tool: str, rest: str) -> Problem:
    """An answer in which rows are not whole: a banner or a wrapper got in between. `rest`: what is left of one."""
    return Problem(f"{tool}: its answer is damaged, this is no whole row: {rest[:200]!r}", ProblemKind.OTHER)


def _kind(status: int, said: str) -> ProblemKind:
    if status in (126, 127):
        return ProblemKind.NO_TOOL
    return next((kind for kind, pattern in _KINDS if re.search(pattern, said, re.IGNORECASE)), ProblemKind.OTHER)
