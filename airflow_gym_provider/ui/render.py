"""Jinja templates to HTML. Everything is escaped unless it is our own SVG."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent
STATIC = HERE / "static"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def page(template: str, **values: Any) -> str:
    """The page of `templates/<template>` with these values, as text that UTF-8 can spell: half a surrogate is a "?"."""
    text = environment().get_template(template).render(now=time.time(), **values)
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def environment() -> Environment:
    """The templates with their filters; undefined names are errors, everything is escaped."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "signed": signed,
        "duration": duration,
        "moment": moment,
        "word": word,
        "ours": Markup,
    }
    return made


def number(value: float | None) -> str:
    """Four digits, or a dash."""
    return "–" if value is None else f"{value:.4g}"


def signed(value: float | None) -> str:
    """As `number`, with its sign."""
    if value is None:
        return "–"
    return "±0" if abs(value) < 1e-12 else f"{value:+.3g}".replace("-", "−")


def duration(seconds: float | None) -> str:
    """ "3 s", "4 min 05 s", "2 h 07 min", "3 d 4 h"; a dash for None."""
    if seconds is None:
        return "–"
    rest = int(seconds)
    if rest < _MINUTE:
        return f"{rest} s"
    if rest < _HOUR:
        return f"{rest // _MINUTE} min {rest % _MINUTE:02} s"
    if rest < _DAY:
        return f"{rest // _HOUR} h {rest % _HOUR // _MINUTE:02} min"
    return f"{rest // _DAY} d {rest % _DAY // _HOUR} h"


def moment(value: datetime | float | None) -> str:
    """A moment in UTC, to the second; a dash for one that no calendar has."""
    if value is None:
        return "–"
    try:
        if isinstance(value, int | float):
            value = datetime.fromtimestamp(value, UTC)
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "–"


def word(value: object) -> str:
    """One part of an address: nothing in it has a meaning of its own."""
    return quote(str(value), safe="")
