"""Bind mounts as Pyxis reads them: ``src``, ``src:dst`` or ``src:dst:flags``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from airflow_gym_provider.config.fields import as_line, refuse


def read_mount(value: Any) -> str:
    """Check the form of one mount, ``src:dst[:flags]`` with absolute paths, as Pyxis takes it. Refuses a comma, which
    Pyxis takes for the next mount. Whether the source exists is asked on the cluster, at submit time.
    """
    text = as_line(value)
    parts = text.split(":")
    if "," in text:
        raise refuse(f"{text!r} holds a comma, which Pyxis takes as the end of a mount; mount a path without one")
    if len(parts) > 3 or not all(parts):
        raise refuse(f"{text!r} is not src, src:dst or src:dst:flags")
    if len(parts) > 1 and not parts[1].startswith("/"):
        raise refuse(f"{text!r}: the path inside the container must be absolute, not {parts[1]!r}")
    return text


def mount_source(mount: str) -> str:
    """Return the path on the cluster: the part before the first colon."""
    return mount.split(":", 1)[0]


Mounts = list[Annotated[str, BeforeValidator(read_mount)]]
