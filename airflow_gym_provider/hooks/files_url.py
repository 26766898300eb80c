"""The extra `files_url` of a connection: where a browser shows a path of the cluster."""

from __future__ import annotations

import re

__all__ = ["is_files_url"]


def is_files_url(template: str) -> bool:
    """Whether a button may lead there: to a page of a site or of this one, never to a script."""
    return re.fullmatch(r"(https?://[^/\\\s{}]|/(?![/\\]))[!-~]*", template) is not None
