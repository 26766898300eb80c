"""Names that end up in paths, job names and shell variables."""

from __future__ import annotations

import re
from typing import Any

from airflow_gym_provider.config.fields import as_line, as_text, refuse, shown

_BENCHMARK = re.compile(r"[A-Za-z0-9._-]+\Z")
_RECORD_FILES = frozenset({"gym-job.json", "resolved-config.yaml"})
_MAX_NAME = 150
_DEFERRED = re.compile(r"\$\{\s*oc\.env\s*:\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:,[^${}]*)?\}")
_HOST_CHARACTERS = re.compile(r"[A-Za-z0-9._:\[\]-]*\Z")


def read_benchmark_name(value: Any) -> str:
    """Check a benchmark's name: a directory, part of a job name, and a word in what a submission reports."""
    name = as_text(value)
    if not _BENCHMARK.match(name):
        raise refuse(f"benchmark name {name!r} must match ^[A-Za-z0-9._-]+$: letters, digits, dot, underscore, dash")
    if name in (".", ".."):
        raise refuse(f"benchmark name {name!r} is a directory that is already there; choose another")
    if name.startswith("-"):
        raise refuse(f"benchmark name {name!r} starts with a dash and would be read as an option")
    if name.lower() in _RECORD_FILES or name.startswith(".gym"):
        raise refuse(f"benchmark name {name!r} is a file of the run's own record; choose another")
    if len(name) > _MAX_NAME:
        raise refuse(
            f"benchmark name {name[:20]!r}… has {len(name)} characters; at most {_MAX_NAME} fit in a job's name"
        )
    return name


def service_name_fault(name: str) -> str | None:
    """Return why a service cannot have this name, or None. Names are free, but each becomes part of a log's name."""
    if not name.strip():
        return "a service needs a name"
    if "/" in name or any(ord(character) < 32 or ord(character) == 127 for character in name):
        return f"service name {shown(name)} holds a slash or control character and cannot be part of a log's name"
    if name in (".", "..") or name.startswith("-"):
        return f"service name {name!r} cannot be part of a log's name or of a command line"
    return f"a service's name has at most {_MAX_NAME} characters, not {len(name)}" if len(name) > _MAX_NAME else None


def shell_name(name: str) -> str:
    """Return ``name`` as part of a shell variable: upper case, everything but ASCII letters and digits as ``_``."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def check_policy_host(value: Any) -> str:
    """Check the host of the policy's URL: a name, an address, or ``${oc.env:NAME}`` that the driver resolves."""
    text = as_line(value)
    if not _HOST_CHARACTERS.match(_DEFERRED.sub("", text)):
        raise refuse(f"{text!r} is not a host; write a name, an address or ${{oc.env:HEAD_NODE_IP}}, without http://")
    if ":" in re.sub(r"\[[^]]*\]", "", _DEFERRED.sub("", text)):
        raise refuse(f"{text!r} holds a colon: the port is the service's own, and an IPv6 address stands in brackets")
    return text


def deferred_variables(policy_host: str) -> tuple[str, ...]:
    """Return the variables of the job's environment that a policy host refers to."""
    return tuple(_DEFERRED.findall(policy_host))
