"""`@task.gym_eval`: a function says what to evaluate, the task evaluates it.

    @task.gym_eval(config="submit.yaml", ssh_conn_id="gym_cluster")
    def evaluate(checkpoint: str) -> list[str]:
        return [f"@policy.model={checkpoint}"]

This module is imported by DAG files, so it imports next to nothing; see `operators.gym`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, determine_kwargs, task_decorator_factory

from airflow_gym_provider.operators._arguments import given_overrides, refuse_dag_defaults, refuse_stored_values
from airflow_gym_provider.operators._failure import reason_left
from airflow_gym_provider.operators.gym import GymEvalOperator

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator
    from airflow.sdk.definitions.context import Context

KEY = "gym_decorated"
"""Where the task state store keeps what the function returned, and for which budget of tries."""


class _GymEvalDecoratedOperator(DecoratedOperator, GymEvalOperator):
    """GymEvalOperator whose config or overrides a function returns. See `gym_eval_task`."""

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *GymEvalOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {**DecoratedOperator.template_fields_renderers}
    custom_operator_name: str = "@task.gym_eval"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, config=config, **kwargs)

    def execute(self, context: Context) -> Any:
        """Ask the function, unless it has answered for this budget of tries already; then as every evaluation."""
        with reason_left(context):
            self._take(self._answer(context))
        return GymEvalOperator.execute(self, context)

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, plan: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """After the trigger, with what the function said before; it is not asked again."""
        store: Any = context["task_state_store"]
        self._take((store.get(KEY) or {}).get("answer"))
        return GymEvalOperator.execute_complete(self, context, event, plan)

    def _answer(self, context: Context) -> Any:
        """What the function returns: once between two clears, so that no try of a chain gets another config."""
        store: Any = context["task_state_store"]
        kept, tries = store.get(KEY) or {}, context["ti"].max_tries
        if kept.get("max_tries") == tries:
            self.log.info("the function is not called again: it has answered for this chain")
            return kept["answer"]
        answer = _plain(self._call(context), self.python_callable)
        store.set(KEY, {"max_tries": tries, "answer": answer})
        return answer

    def _call(self, context: Context) -> Any:
        known = {**context, **self.op_kwargs}
        return self.python_callable(*self.op_args, **determine_kwargs(self.python_callable, self.op_args, known))

    def _take(self, answer: Any) -> None:
        """A list beside a `config` is overrides; all else is a config, merged over the one there is."""
        if answer is None:
            return
        config = self.given("config")
        if isinstance(answer, list) and config is not None:
            self._set("overrides", [*given_overrides(self.given("overrides")), *answer])
        elif config is None:
            self._set("config", answer)
        else:
            self._set("config", [*(config if isinstance(config, list | tuple) else [config]), answer])

    def _set(self, field: str, value: Any) -> None:
        from airflow_gym_provider.operators._templates import shown

        setattr(self, field, self._keep(field, value, shown(value)))


def _plain(answer: Any, function: Callable[..., Any]) -> Any:
    """The answer as JSON keeps it. Raises AirflowFailException for what is no config and no list of overrides."""
    from airflow.sdk.exceptions import AirflowFailException

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return fspath(value) if isinstance(value, PathLike) else value

    found, name = plain(answer), getattr(function, "__name__", "the function")
    wanted = "return a path, a mapping, a list of overrides or None"
    if not isinstance(found, str | dict | list | None):
        raise AirflowFailException(f"{name} returned a {type(answer).__name__}: {wanted}")
    try:
        json.dumps(found)
    except (TypeError, ValueError) as err:
        raise AirflowFailException(f"{name} returned what is no plain data ({err}): {wanted}") from None
    return found


def gym_eval_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """`@task.gym_eval`: evaluate what the function returns, a config or overrides.

    Takes the arguments of `GymEvalOperator`. With a `config` among them the function may return a list of overrides; a
    path or a mapping is merged over that config. Without, it returns the config: a path, a list of paths or a mapping.
    None adds nothing. What it returns is stored, so it should hold no secrets: `environ` is for those.

    The function runs in the worker, once for all tries of a chain: a retry goes on with what it has said, and so does
    the task after its deferral. A clear asks it again. The task returns what `GymEvalOperator` returns.
    """
    refuse_stored_values(kwargs.get("environ"))
    # A mapped task takes these from here and never from the operator; see GymEvalOperator.partial.
    kwargs |= GymEvalOperator.forced_arguments(kwargs)
    made: Any = task_decorator_factory(
        python_callable=python_callable,
        # The function's own annotation is about what it returns, which is not what the task returns.
        multiple_outputs=bool(multiple_outputs),
        decorated_operator_class=_GymEvalDecoratedOperator,
        **kwargs,
    )
    found: TaskDecorator = _guarded(made) if python_callable is not None else lambda function: _guarded(made(function))
    return found


def _guarded(decorator: Any) -> Any:
    """A decorated function whose other ways to a task are held to what the decorator is held to.

    What `override` sets counts for mapped tasks as well, which take it from there and not from the operator.
    """
    plain, kinds = decorator.override, {name: getattr(decorator, name) for name in ("expand", "expand_kwargs")}

    def override(**kwargs: Any) -> Any:
        refuse_stored_values(kwargs.get("environ"))
        return _guarded(plain(**(kwargs | GymEvalOperator.forced_arguments({**decorator.kwargs, **kwargs}))))

    def mapped(name: str) -> Callable[..., Any]:
        def expand(*args: Any, **kwargs: Any) -> Any:
            made = kinds[name](*args, **kwargs)
            refuse_dag_defaults(made.operator.dag)
            return made

        return expand

    decorator.override, decorator.expand, decorator.expand_kwargs = override, mapped("expand"), mapped("expand_kwargs")
    return decorator
