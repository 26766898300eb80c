"""`report.html`: the evaluations of one DAG run as a single file, for people without access to Airflow. Pure.

The file loads nothing and runs nothing; its style and charts are in it. It holds what the results hold, which has no
secrets, and everything in it is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.ui.chains import read_chain
from airflow_gym_provider.ui.charts import chain_bars
from airflow_gym_provider.ui.gates import GateWord, gate_words, word_of
from airflow_gym_provider.ui.render import STATIC, page
from airflow_gym_provider.ui.runs import RunRow, read_run


def render_report(
    results: Sequence[Any],
    *,
    title: str = "Evaluation",
    chains: Sequence[Mapping[str, Any]] = (),
    states: Sequence[str] = (),
    places: Sequence[str] = (),
    gates: Sequence[GateWord | None] = (),
    verdict: Any = None,
) -> str:
    """The report of these results, which are return values of `GymEvalOperator` (or XComs `gym_job`).

    `chains`, `states`, `places` and `gates`, where given, belong to the results one by one: the XComs of each task, its
    state, the task instance as people write it, and its verdict. Without states a result counts as green, for only
    green tasks return one. A place is told where several rows have one benchmark, and stands for the name of what left
    no result; without a place that is left out. `verdict` is the XCom `gym_verdict`
    of a gate over them, or a list of those of several.
    """
    import time

    now = time.time()
    parts: list[dict[str, Any]] = []
    words = gate_words([("", "", "", one) for one in (verdict if isinstance(verdict, list) else [verdict])])
    for at, result in enumerate(results):
        xcoms = _at(chains, at, {xcom_keys.RESULT: result})
        place = _at(places, at, "")
        row = RunRow("", "", place, -1, _at(states, at, "success"), 1, None, None, None, result, result)
        run = read_run(row, place)
        if run is None:
            continue
        view = read_chain(xcoms)
        failure = xcoms.get(xcom_keys.FAILURE)
        parts.append(
            {
                "run": run,
                "view": view,
                "bars": chain_bars(view, now),
                "gate": _at(gates, at, None) if gates else word_of(words, run),
                "has_job": bool(view.jobs or run.jobs),
                "reason": view.reason or str(failure.get("reason", "") if isinstance(failure, Mapping) else ""),
            }
        )
    rows = Counter(part["run"].benchmark for part in parts)
    for part in parts:
        part["place"] = part["run"].row.task_id if rows[part["run"].benchmark] > 1 else ""
    css = (STATIC / "gym.css").read_text(encoding="utf-8")
    return page("report.html.j2", title=title, parts_of_run=parts, css=css)


def _at(given: Sequence[Any], at: int, otherwise: Any) -> Any:
    return given[at] if at < len(given) else otherwise
