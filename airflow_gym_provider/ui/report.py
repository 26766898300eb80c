"""`report.html`: the evaluations of one DAG run as a single file, for people without access to Airflow. Pure.

The file loads nothing and runs nothing; its style and charts are in it. It holds what the results hold, which has no
secrets, and everything in it is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.ui.chains import read_chain
from airflow_gym_provider.ui.charts import chain_bars
from airflow_gym_provider.ui.gates import GateWord, gate_words
from airflow_gym_provider.ui.render import STATIC, page
from airflow_gym_provider.ui.runs import RunRow, read_run


def render_report(
    results: Sequence[Any],
    *,
    title: str = "Evaluation",
    chains: Sequence[Mapping[str, Any]] = (),
    states: Sequence[str] = (),
    gates: Sequence[GateWord | None] = (),
    verdict: Any = None,
) -> str:
    """The report of these results, which are return values of `GymEvalOperator` (or XComs `gym_job`).

    `chains`, `states` and `gates`, where given, belong to the results one by one: the XComs of each task, its state
    and its verdict. Without states a result counts as green, for only green tasks return one. `verdict` is the XCom
    `gym_verdict` of a gate over all of them. Results that are none are left out.
    """
    import time

    now, parts = time.time(), []
    words = gate_words([("", "", "", verdict)])
    for at, result in enumerate(results):
        xcoms = chains[at] if at < len(chains) else {xcom_keys.RESULT: result}
        state = states[at] if at < len(states) else "success"
        run = read_run(RunRow("", "", "", -1, state, 1, None, None, None, result, result))
        if run is None:
            continue
        view = read_chain(xcoms)
        gate = gates[at] if at < len(gates) else words.get(("", "", run.benchmark))
        parts.append({"run": run, "view": view, "bars": chain_bars(view, now), "gate": gate})
    css = (STATIC / "gym.css").read_text(encoding="utf-8")
    return page("report.html.j2", title=title, parts_of_run=parts, css=css)
