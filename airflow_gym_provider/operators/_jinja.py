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
from jinja2.filters import do_indent, do_tojson, do_trim, make_attrgetter, sync_do_join
from jinja2.nativetypes import NativeCodeGenerator, NativeEnvironment
from jinja2.utils import pass_eval_context
from markupsafe import escape

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


_OURS = object()


class _Text(str):
    """A text that only this module makes: what is done with one, `format` included, gives an ordinary text."""

    __slots__ = ()

    def __new__(cls, text: str, key: object = None) -> Any:
        return super().__new__(cls, text) if key is _OURS else str(text)


class Block(_Text):
    """Text of the template's author: what a block or a macro gave, or a literal."""

    __slots__ = ()


class Json(_Text):
    """What `tojson` gave: one value."""

    __slots__ = ()


def _block_of(text: Any) -> Any:
    return Block(text, _OURS) if isinstance(text, str) else text


class _KnowsBlocks:
    """To be mixed into a generator of Jinja's: as it compiles, but the author's texts are each a `Block`."""

    def return_buffer_contents(self: Any, frame: Frame, force_unescaped: bool = False) -> None:
        self.writeline(f"return environment.block_of(concat({frame.buffer}))")

    def visit_AssignBlock(self: Any, node: nodes.AssignBlock, frame: Frame) -> None:
        node.filter = self._of_a_block(node.filter)
        super().visit_AssignBlock(node, frame)  # type: ignore[misc]

    def visit_FilterBlock(self: Any, node: nodes.FilterBlock, frame: Frame) -> None:
        # as Jinja's own, which passes no `finalize`
        within = frame.inner()
        within.symbols.analyze_node(node)
        self.enter_frame(within)
        self.buffer(within)
        self.blockvisit(node.body, within)
        self._write_finalized(node, frame, lambda: self.visit_Filter(self._of_a_block(node.filter), within))
        self.leave_frame(within)

    def visit_CallBlock(self: Any, node: nodes.CallBlock, frame: Frame) -> None:
        # what is called need not be a macro
        call_frame, macro = self.macro_body(node, frame)
        self.writeline("caller = ")
        self.macro_def(macro, call_frame)
        self._write_finalized(node, frame, lambda: self.visit_Call(node.call, frame, forward_caller=True))

    def _write_finalized(self: Any, node: nodes.Stmt, frame: Frame, write: Callable[[], None]) -> None:
        finalize = self._make_finalize()
        self.start_write(frame, node)
        self._output_child_pre(node, frame, finalize)
        write()
        self._output_child_post(node, frame, finalize)
        self.end_write(frame)

    def _of_a_block(self: Any, given: nodes.Filter | None) -> nodes.Filter:
        """A filter that takes the text of a block as such; in Jinja's own, one without an input takes the bare text."""
        self.filters["block_of"] = "environment.block_of"
        captured = nodes.Filter(None, "block_of", [], [], None, None)
        if given is None:
            return captured
        innermost = given
        while isinstance(innermost.node, nodes.Filter):
            innermost = innermost.node
        if innermost.node is None:
            innermost.node = captured
        return given

    def visit_Const(self: Any, node: nodes.Const, frame: Frame) -> None:
        if isinstance(node.value, str):
            self.write(f"environment.block_of({node.value!r})")
        else:
            super().visit_Const(node, frame)  # type: ignore[misc]

    def _output_child_to_const(self: Any, node: nodes.Expr, frame: Frame, finalize: Any) -> Any:
        const = node.as_const(frame.eval_ctx)
        return const if isinstance(const, str) else super()._output_child_to_const(node, frame, finalize)  # type: ignore[misc]


class _Blocks(_KnowsBlocks, CodeGenerator):
    pass


class _NativeBlocks(_KnowsBlocks, NativeCodeGenerator):
    pass


def knowing_blocks(environment: Any, finalize: Callable[[Any], Any]) -> Any:
    """A Jinja environment like the one given, in which `finalize` gets the author's texts as `Block` and values of
    `tojson` as `Json`.
    """
    native = isinstance(environment, NativeEnvironment)
    made = environment.overlay(finalize=finalize, autoescape=False)
    made.code_generator_class = _NativeBlocks if native else _Blocks
    made.block_of = _block_of
    html = dict.fromkeys(("e", "escape", "forceescape"), lambda value: str(escape(value)))
    ours = {"tojson": _tojson, "trim": _trim, "indent": _indent, "join": _joining(finalize), "block_of": _block_of}
    made.filters = {**environment.filters, **html, **ours}
    return made


def renderer(context: Context) -> Callable[[str], str]:
    """Jinja as in any template field of the DAG, but always to text: YAML is parsed by us. Who may fill in a form is
    not thereby to read the worker's environment, or to write another config.
    """
    filled_in = _several_lines([dict(context.get("params") or {}), getattr(context.get("dag_run"), "conf", None)])
    given: Any = context["dag"].get_template_env(force_sandboxed=True)
    environment = knowing_blocks(given, partial(_as_yaml, filled_in))

    def render(text: str) -> str:
        try:
            return str(environment.from_string(text).render(context))
        except Exception as err:
            cure = "Braces that are meant as text go between {% raw %} and {% endraw %}"
            raise ValueError(f"{type(err).__name__}: {err}. {cure}") from None

    return render


@pass_eval_context
def _tojson(eval_ctx: Any, value: Any, indent: int | None = None) -> Any:
    return Json(str(do_tojson(eval_ctx, value, indent)), _OURS)


def _trim(value: Any, chars: str | None = None) -> Any:
    """Of a block, without saying what: what is left is still its author's."""
    found = do_trim(value, chars)
    return _block_of(str(found)) if isinstance(value, Block) and chars is None else found


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> Any:
    found = do_indent(value, width, first, blank)
    return _block_of(str(found)) if isinstance(value, Block) and isinstance(width, int) else found


def _joining(finalize: Callable[[Any], Any]) -> Callable[..., Any]:
    @pass_eval_context
    def join(eval_ctx: Any, value: Any, d: str = "", attribute: Any = None) -> Any:
        """With a separator of the author's it puts values together as a loop over them would."""
        if not isinstance(d, Block) or isinstance(value, str):
            return sync_do_join(eval_ctx, value, d, attribute)
        if attribute is not None:
            value = map(make_attrgetter(eval_ctx.environment, attribute), value)
        return _block_of(d.join(part if isinstance(part, Block) else str(finalize(part)) for part in value))

    return join


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

    if isinstance(value, Block):
        return value
    if isinstance(value, Json):
        flow = as_flow(json.loads(value))
        return flow if has_token(flow) else str(value)
    if isinstance(value, str) and value in filled_in:
        raise ValueError("a param, or a value of the run's conf, has several lines; write {{ … | tojson }} for it")
    if value is None or isinstance(value, bool | int | float):
        return value
    return as_flow(value) if isinstance(value, list | tuple | dict) else as_token(str(value))
