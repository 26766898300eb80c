"""Free text of a config as part of file names and comments."""

from __future__ import annotations

import hashlib
import re

_OWN_LOGS = ("driver", "collector")


def file_stem(name: str) -> str:
    """`name` as part of a file name: plain names stay; others are flattened and told apart by a short digest.

    So are the names of our own logs: a service called ``driver`` must not write into the driver's log.
    """
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name) and len(name) <= 100 and name not in _OWN_LOGS:
        return name
    flat = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]
    return f"_{flat}" if flat.startswith(("-", ".")) else f"{flat}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def one_line(text: str) -> str:
    """`text` fit for a comment: no line breaks or control characters, at most 200 characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)[:200]
