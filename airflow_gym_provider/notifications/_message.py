"""What happened to a task, if it is worth telling, and how it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
from airflow.sdk.log import redact  # type: ignore[attr-defined]

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.exceptions import ChainRetry
from airflow_gym_provider.links.gym import EVAL_LINKS, job_place
from airflow_gym_provider.results.headline import headline
from airflow_gym_provider.results.numbers import is_number

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_REGRESSED = "regressed"
_COMMAND = re.compile(r"<(?=[!@#a-zA-Z])")
# before a name, and wherever it would call a whole room; an address and pass@1 stay what they are
_MENTION = re.compile(r"@(?=(?:everyone|here|channel|all)\b(?![.-]))|(?<![\w.‹])@(?=\w)", re.IGNORECASE)
_LINK = re.compile(r"\](?=[(\[])")
_NOTHING = "\u200b"
"""A space without width: to be seen it is not there, to a chat it is."""
_MOST_METRICS = 8
_COUNTS = re.compile(r"\b(\d+) of (\d+) rollouts")


class GymEvent(StrEnum):
    """What there is to be told: a job ended and its chain goes on; a chain is over and red; a gate said no."""

    RESUMED = "resumed"
    STOPPED = "stopped"
    REGRESSED = "regressed"


@dataclass(frozen=True)
class GymMessage:
    """One thing that happened. `title` is one line, `text` the whole, ready to be sent; neither holds a secret.

    `done` and `expected` count rollouts, None when that is not known. `links`: name to address.
    """

    event: str
    title: str
    text: str
    benchmark: str
    reason: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    done: int | None = None
    expected: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As JSON for a webhook: its fields. In what chats show is no mention, link or command of theirs."""
        return asdict(self) | {"title": inert(self.title), "text": inert(self.text)}


def inert(text: str) -> str:
    """The text, looking as it does, so that a chat finds no mention (`@`, `<`), link or picture (`](`, `<`) in it."""
    text = _COMMAND.sub("‹", text)
    return _LINK.sub(f"]{_NOTHING}", _MENTION.sub(f"@{_NOTHING}", text))


def compose(context: Context) -> GymMessage | None:
    """The message for a task's context as Airflow gives it to callbacks; None when nothing happened worth telling.

    What cannot be read any more (XComs, links) is left out.
    """
    ti: Any = context["ti"]
    verdict = _xcom(ti, xcom_keys.VERDICT)
    event = _event(ti, context.get("exception"), verdict)
    if event is None:
        return None
    values = _values(ti, verdict)
    reason = str(redact(_reason(context.get("exception"), verdict if event is GymEvent.REGRESSED else {})))
    benchmark = str(values.get("benchmark") or _asked(context) or _named(reason) or ti.task_id)
    done, expected = _counts(values, reason)
    message = GymMessage(
        event.value,
        inert(f"{benchmark} {event.value}: {_one_line(reason) or 'no reason was given'}"[:300]),
        "",
        benchmark,
        reason,
        ti.dag_id,
        ti.run_id,
        ti.task_id,
        -1 if ti.map_index is None else ti.map_index,
        ti.try_number,
        done,
        expected,
        _metrics(values),
        _links(context, ti),
    )
    return GymMessage(**{**message.__dict__, "text": inert(_text(message))})


def _event(ti: Any, exception: object, verdict: Mapping[str, Any]) -> GymEvent | None:
    """A gate's word comes first, whether it failed, skipped or went green with it."""
    if _regressed(verdict):
        return GymEvent.REGRESSED
    if exception is None:
        return None
    state = str(getattr(ti, "state", None) or "")
    if isinstance(exception, ChainRetry) and state != "failed":  # a wait for a login node is no news
        return None if exception.passing else GymEvent.RESUMED
    return None if state in ("up_for_retry", "deferred", "up_for_reschedule", "skipped") else GymEvent.STOPPED


def _regressed(verdict: Mapping[str, Any]) -> bool:
    return verdict.get("verdict") == _REGRESSED or bool(_worse(verdict))


def _worse(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The benchmarks of a gate's verdict that regressed."""
    parts = verdict.get("benchmarks")
    pairs = parts.items() if isinstance(parts, Mapping) else [("", part) for part in _listed(parts)]
    bad = [(name, part) for name, part in pairs if isinstance(part, Mapping) and part.get("verdict") == _REGRESSED]
    return [{"benchmark": name, **part} for name, part in bad]


def _listed(parts: object) -> list[Any]:
    return parts if isinstance(parts, list) else []


def _reason(exception: object, verdict: Mapping[str, Any]) -> str:
    """Of our own and Airflow's exceptions the text; of others, which may hold anything, the class."""
    if _regressed(verdict):
        own, each = _sentence(verdict), [_sentence(part) for part in _worse(verdict)]
        if told := own or "\n".join(sentence for sentence in each if sentence):
            return told
    if isinstance(exception, AirflowException):
        return str(exception)
    if isinstance(exception, AirflowTaskTimeout):
        return "execution_timeout is over"
    return f"unexpected {type(exception).__name__}, see the log" if exception is not None else ""


def _sentence(part: Mapping[str, Any]) -> str:
    return str(part.get("sentence") or part.get("reason") or "")


def _one_line(reason: str) -> str:
    """Its first line; of one that announces a list, with what comes first in it."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    told = next((at for at, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    return " ".join(line.removeprefix("- ") for line in lines[: told + 1])


def _asked(context: Context) -> str:
    """The benchmark that the task is for: what there is to call it by as long as it has no job."""
    benchmark = getattr(context.get("task"), "benchmark", None)
    return benchmark if isinstance(benchmark, str) and "{{" not in benchmark else ""


def _named(reason: str) -> str:
    head, colon, _ = reason.partition(":")
    return head if colon and re.fullmatch(r"[A-Za-z0-9._-]+", head) else ""


def _values(ti: Any, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What the task and its gate pushed, as one mapping."""
    try:
        place = job_place(ti)
    except Exception:
        place = {}
    result = _xcom(ti, "return_value")
    worse = _worse(verdict)
    named = worse[0] if len(worse) == 1 else {"benchmark": ", ".join(str(part["benchmark"]) for part in worse)}
    told = {key: value for part in (verdict, named) for key, value in part.items() if value}
    return {**place, **result, **told}


def _xcom(ti: Any, key: str) -> Mapping[str, Any]:
    from airflow.sdk.execution_time.xcom import XCom

    try:
        value = XCom.get_value(ti_key=ti, key=key)
    except Exception:
        return {}
    return value if isinstance(value, Mapping) else {}


def _counts(values: Mapping[str, Any], reason: str) -> tuple[int | None, int | None]:
    done, expected = values.get("rollouts_done"), values.get("rollouts_expected")
    if isinstance(done, int) and isinstance(expected, int):
        return done, expected
    found = _COUNTS.search(reason)
    return (int(found[1]), int(found[2])) if found else (None, None)


def _metrics(values: Mapping[str, Any]) -> dict[str, float]:
    metrics = values.get("metrics")
    pairs = metrics.items() if isinstance(metrics, Mapping) else ()
    plain = {name: value.get("candidate") if isinstance(value, Mapping) else value for name, value in pairs}
    numbers = {str(name): value for name, value in plain.items() if is_number(value)}
    return headline(numbers, _MOST_METRICS)


def _links(context: Context, ti: Any) -> dict[str, str]:
    """Where to look: the task in Airflow, and what its buttons lead to."""
    found = {"Airflow": str(getattr(ti, "log_url", "") or "")}
    operator: Any = context.get("task")
    for link in EVAL_LINKS:
        address = link.get_link(operator, ti_key=ti) if operator is not None else ""
        if "://" in address:
            found[link.name] = address
    return {name: address for name, address in found.items() if address}


def _text(message: GymMessage) -> str:
    index = f"[{message.map_index}]" if message.map_index >= 0 else ""
    counts = f"{message.done} of {message.expected} rollouts" if message.expected is not None else ""
    metrics = ", ".join(f"{name} = {value:g}" for name, value in message.metrics.items())
    parts = [
        f"{message.benchmark} {message.event}: {message.reason or 'no reason was given'}",
        counts if counts and counts not in message.reason else "",
        metrics,
        f"{message.dag_id}, run {message.run_id}, task {message.task_id}{index}, try {message.try_number}",
        *(f"{name}: {address}" for name, address in message.links.items()),
    ]
    return "\n".join(part for part in parts if part)
