"""Jinja in config files: what an expression brings in is text, and neither YAML nor an interpolation.

What a block or a macro gives is its author's text, with what expressions brought into it known as such, as long as
nothing else is done with it. All else is a value, however it was put together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.filters import do_indent, do_tojson, do_trim
from jinja2.utils import pass_eval_context
from markupsafe import escape

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class _Block(str):
    """What a block or a macro gave: text of the file's."""

    __slots__ = ()


class _Json(str):
    """What `tojson` gave: one value."""

    __slots__ = ()


class _Blocks(CodeGenerator):
    """As Jinja compiles, but what a block or a macro gives is a `_Block`."""

    def return_buffer_contents(self, frame: Frame, force_unescaped: bool = False) -> None:
        self.writeline(f"return environment.block_of(concat({frame.buffer}))")

    def visit_AssignBlock(self, node: nodes.AssignBlock, frame: Frame) -> None:
        if node.filter is None:
            self.filters["block_of"] = "environment.block_of"
            node.filter = nodes.Filter(None, "block_of", [], [], None, None)
        super().visit_AssignBlock(node, frame)


def renderer(context: Context) -> Callable[[str], str]:
    """Jinja as in any template field of the DAG, but always to text: YAML is parsed by us. Who may fill in a form is
    not thereby to read the worker's environment, or to write another config.
    """
    filled_in = _several_lines([dict(context.get("params") or {}), getattr(context.get("dag_run"), "conf", None)])
    environment: Any = context["dag"].get_template_env(force_sandboxed=True)
    environment = environment.overlay(finalize=partial(_as_yaml, filled_in), autoescape=False)
    environment.code_generator_class = _Blocks
    environment.block_of = _Block
    ours = {"tojson": _tojson, "trim": _trim, "indent": _indent, "block_of": _Block}
    html = dict.fromkeys(("e", "escape", "forceescape"), lambda value: str(escape(value)))
    environment.filters = {**environment.filters, **html, **ours}

    def render(text: str) -> str:
        try:
            return str(environment.from_string(text).render(context))
        except Exception as err:
            cure = "Braces that are meant as text go between {% raw %} and {% endraw %}"
            raise ValueError(f"{type(err).__name__}: {err}. {cure}") from None

    return render


@pass_eval_context
def _tojson(eval_ctx: Any, value: Any, indent: int | None = None) -> _Json:
    return _Json(do_tojson(eval_ctx, value, indent))


def _trim(value: Any) -> Any:
    """Of a block without arguments: what is left is still its author's."""
    found = do_trim(value)
    return _Block(found) if isinstance(value, _Block) else found


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> Any:
    found = do_indent(value, width, first, blank)
    return _Block(found) if isinstance(value, _Block) and isinstance(width, int) else found


def _several_lines(value: Any) -> set[str]:
    """All texts of more than one line in a value of JSON."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return set().union(*map(_several_lines, value))
    return {value} if isinstance(value, str) and len(value.splitlines()) > 1 else set()


def _as_yaml(filled_in: set[str], value: Any) -> Any:
    """What an expression came to, as it stands in a file: a value of JSON or a text, and a block as it is.

    Raises ValueError for one of the texts `filled_in` as it is.
    """
    from airflow_gym_provider.config.brought_in import as_flow, as_token, has_token

    if isinstance(value, _Block):
        return value
    if isinstance(value, _Json):
        flow = as_flow(json.loads(value))
        return flow if has_token(flow) else str(value)
    if isinstance(value, str) and value in filled_in:
        raise ValueError("a param, or a value of the run's conf, has several lines; write {{ … | tojson }} for it")
    if value is None or isinstance(value, bool | int | float):
        return value
    return as_flow(value) if isinstance(value, list | tuple | dict) else as_token(str(value))
