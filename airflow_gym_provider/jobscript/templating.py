"""The jinja2 environment in which the bash templates are rendered."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from airflow_gym_provider.jobscript.names import one_line
from airflow_gym_provider.jobscript.quoting import collector_yaml, quote


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - the output is bash, not HTML; values pass through `q`
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        comment_start_string="{%#",  # jinja2's own {# is bash's length of a variable
        comment_end_string="#%}",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["q"] = lambda value: quote(str(value))
    environment.filters["y"] = collector_yaml
    environment.filters["one_line"] = one_line
    return environment


def render_template(name: str, **values: object) -> str:
    """The text of ``templates/<name>`` with `values`, without a trailing line break.

    Filters: ``q`` quotes a value as one shell word, ``y`` as a YAML string for the collector, ``one_line`` makes it fit
    for a comment. A variable that the
    template names and `values` lacks is an error, never an empty string.
    """
    return _environment().get_template(name).render(**values).rstrip("\n")
