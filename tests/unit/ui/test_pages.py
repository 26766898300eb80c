"""What the pages show of what tasks have left, and that nothing which they left breaks or enters a page."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import pytest
from fakes.evaluations import evaluation, task

from airflow_gym_provider.results.kept import keep_rewards
from airflow_gym_provider.results.tasks import Task, TaskRewards
from airflow_gym_provider.ui import views
from airflow_gym_provider.ui.runs import RunRow, read_run
from tests.unit.ui.html import read

HOSTILE = """<img src=x onerror=alert(1)>'"&{{7*7}}</script><script>alert(2)</script>"""


def rows(page, table: str):
    return page.one("table", id=table).one("tbody").all("tr")


def cells(row):
    return [cell.text for cell in row.children if not isinstance(cell, str) and cell.tag in ("td", "th")]


def rewards(values, room: int = 1000) -> dict:
    return keep_rewards(TaskRewards.of(Task("a", str(at), 1, value, "7") for at, value in enumerate(values)), room)


def test_without_evaluations_a_page_says_what_to_do(us, evaluations):
    evaluations.run("ours", [task("something")])
    page = read(us.get("").text)
    assert "No evaluations yet" in page.text
    assert "GymEvalOperator" in page.text


def test_the_overview_has_a_row_for_each_benchmark(us, evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.25), evaluation("aime25", 0.5)])
    evaluations.run("ours", [evaluation("gpqa", None, state="failed"), evaluation("aime25", 0.75)])
    run = evaluations.run("ours", [evaluation("gpqa", 0.2, jobs=("TIMEOUT", "COMPLETED")), evaluation("aime25", 0.5)])
    page = read(us.get("").text)
    aime, gpqa = rows(page, "benchmarks")
    assert cells(gpqa)[2:7] == ["mean/reward", "0.2", "−0.05", "–", "success resumed"]
    assert cells(aime)[2:7] == ["mean/reward", "0.5", "−0.25", "–", "success"]
    assert [dot.attributes["class"] for dot in gpqa.all("circle")] == ["dot red", "dot resumed"]
    links = [urlsplit(link.attributes["href"]) for link in gpqa.all("a")]
    assert [link.path for link in links] == [f"./dags/ours/{page}" for page in ("benchmark", "compare", "chain")]
    assert parse_qs(links[2].query) == {"run_id": [run], "task_id": ["gpqa"], "map_index": ["-1"]}


def test_one_benchmark_on_two_clusters_or_in_two_dags_is_two_rows(sign, evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.1, task_id="a"), evaluation("gpqa", 0.2, task_id="b", cluster="big")])
    evaluations.run("theirs", [evaluation("gpqa", 0.3)])
    page = read(sign("viewer", "us", "them").get("").text)
    assert [(cells(row)[0], cells(row)[3]) for row in rows(page, "benchmarks")] == [
        ("gpqa ours on big", "0.2"),
        ("gpqa ours on cluster", "0.1"),
        ("gpqa theirs on cluster", "0.3"),
    ]


def test_mapped_tasks_are_told_apart_by_what_they_ran(us, evaluations):
    evaluations.run("ours", [evaluation(name, 0.5, task_id="eval", map_index=at) for at, name in enumerate("ab")])
    evaluations.run("ours", [evaluation(name, 0.7, task_id="eval", map_index=at) for at, name in enumerate("cba")])
    page = read(us.get("").text)
    assert [cells(row)[0].split()[0] for row in rows(page, "benchmarks")] == ["a", "b", "c"]
    history = read(us.get("dags/ours/benchmark", params={"name": "a"}).text)
    assert len(rows(history, "runs")) == 2


def test_numbers_at_the_end_of_all_floats_take_no_page_away(us, evaluations):
    """JSON knows integers of 309 digits, which are floats as well: the difference of two is none."""
    for value in (-17 * 10**307, 17 * 10**307):
        evaluations.run("ours", [evaluation("gpqa", value), evaluation("innocent", 0.5)])
    (row, other) = [cells(one) for one in rows(read(us.get("").text), "benchmarks")]
    assert (row[3], other[3]) == ("1.7e+308", "0.5")
    chart = rows(read(us.get("").text), "benchmarks")[0].one("polyline").attributes["points"]
    assert "nan" not in chart
    history = read(us.get("dags/ours/benchmark", params={"name": "gpqa"}).text)
    assert [cells(one)[2] for one in rows(history, "runs")] == ["1.7e+308", "-1.7e+308"]
    assert us.get("dags/ours/compare", params={"name": "gpqa"}).status_code == 200


def test_a_row_that_cannot_be_shown_says_so_and_leaves_the_others(us, evaluations, monkeypatch):
    made = views._history_row

    def broken(runs, at, metric, words):
        if runs[at].benchmark == "aime25" and runs[at].value(metric) == 0.25:
            raise ZeroDivisionError
        return made(runs, at, metric, words)

    monkeypatch.setattr(views, "_history_row", broken)
    for value in (0.5, 0.25):
        evaluations.run("ours", [evaluation("aime25", value), evaluation("gpqa", value)])
    found = [cells(one) for one in rows(read(us.get("").text), "benchmarks")]
    assert (found[0][1:], found[1][3]) == (["cannot be shown"], "0.25")
    history = read(us.get("dags/ours/benchmark", params={"name": "aime25"}).text)
    assert [cells(one)[2] for one in rows(history, "runs")] == ["cannot be shown", "0.5"]


@pytest.fixture
def checkpoints(evaluations):
    """evaluate.expand(checkpoint=…) over two of them, two nights: 0.5 and 0.75, then 0.875 and 0.25; the runs' ids."""
    nights = []
    for values in ((0.5, 0.75), (0.875, 0.25)):
        places = [f"/runs/{len(nights)}/{at}/gpqa" for at in range(2)]
        tasks = [
            evaluation("gpqa", value, task_id="evaluate", map_index=at, job_dir=places[at])
            for at, value in enumerate(values)
        ]
        words = {places[0]: "pass", places[1]: "regressed" if nights else "no_baseline"}
        gates = [
            task("gate", gym_verdict={"benchmarks": {"gpqa": {"verdict": word, "candidate": {"job_dir": place}}}})
            | {"map_index": at}
            for at, (place, word) in enumerate(words.items())
        ]
        nights.append(evaluations.run("ours", [*tasks, *gates]))
    return nights


def test_each_instance_that_evaluates_a_benchmark_is_a_row_of_its_own(us, checkpoints):
    page = read(us.get("").text)
    found = [cells(row) for row in rows(page, "benchmarks")]
    assert [(row[0], *row[3:6]) for row in found] == [
        ("gpqa ours on cluster · evaluate [0]", "0.875", "+0.375", "pass"),
        ("gpqa ours on cluster · evaluate [1]", "0.25", "−0.5", "regressed"),
    ]
    for at, (row, values) in enumerate(
        zip(rows(page, "benchmarks"), (["0.875", "0.5"], ["0.25", "0.75"]), strict=True)
    ):
        history = read(us.get(row.one("th").one("a").attributes["href"].removeprefix("./")).text)
        assert [cells(line)[2] for line in rows(history, "runs")] == values
        assert f"evaluate [{at}]" in history.one("p", **{"class": "lead"}).text
        form = [one.attributes for one in history.all("input")]
        assert {"type": "hidden", "name": "instance", "value": f"evaluate[{at}]"} in form


def test_two_instances_of_one_run_are_compared_when_they_are_named(us, checkpoints):
    def shown(**params: str) -> list[str]:
        page = read(us.get("dags/ours/compare", params={"name": "gpqa", **params}).text)
        return {cells(row)[0]: cells(row)[1:] for row in rows(page, "metrics")}["mean/reward"]

    first, second = checkpoints
    assert shown() == shown(left=first, right=second) == ["0.5", "0.875", "+0.375"]
    assert shown(instance="evaluate[1]") == ["0.75", "0.25", "−0.5"]
    assert shown(instance="evaluate[1]", left=first, right=second) == ["0.75", "0.25", "−0.5"]
    assert shown(left=f"{second} evaluate[0]", right=f"{second} evaluate[1]") == ["0.875", "0.25", "−0.625"]
    answer = us.get("dags/ours/compare", params={"name": "gpqa", "left": f"{second} evaluate[2]"})
    assert answer.status_code == 404
    page = read(us.get("dags/ours/compare", params={"name": "gpqa", "left": f"{second} evaluate[1]"}).text)
    left, right = page.all("select")
    chosen = [
        [one.attributes["value"] for one in menu.all("option") if "selected" in one.attributes]
        for menu in (left, right)
    ]
    assert chosen == [[f"{second} evaluate[1]"], [f"{second} evaluate[0]"]]
    assert len(left.all("option")) == 4


def test_a_chains_page_leads_to_the_runs_of_its_own_instance(us, checkpoints):
    place = {"run_id": checkpoints[1], "task_id": "evaluate", "map_index": "1"}
    page = read(us.get("dags/ours/chain", params=place).text)
    (link,) = [one for one in page.all("a") if "all runs of" in one.text]
    history = read(us.get(link.attributes["href"].removeprefix("../../")).text)
    assert [cells(row)[2] for row in rows(history, "runs")] == ["0.25", "0.75"]


def test_a_run_that_failed_before_it_had_a_job_is_red_in_its_benchmarks_history(us, evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.25, cluster="")])
    evaluations.run("ours", [evaluation("gpqa", 0.5)])
    evaluations.run("ours", [task("gpqa", "failed"), task("report", "failed")])
    page = read(us.get("dags/ours/benchmark", params={"name": "gpqa", "cluster": "cluster"}).text)
    assert [cells(row)[1] for row in rows(page, "runs")] == ["failed", "success", "success"]
    (row,) = rows(read(us.get("").text), "benchmarks")
    assert cells(row)[3] == "0.5"
    assert cells(row)[6] == "failed"


def test_the_history_has_every_run_with_its_change_against_the_green_one_before(us, evaluations):
    values = [(0.5, "success"), (0.4, "failed"), (0.625, "success")]
    for value, state in values:
        evaluations.run("ours", [evaluation("gpqa", value, state=state), evaluation("other")])
    page = read(us.get("dags/ours/benchmark", params={"name": "gpqa"}).text)
    found = [cells(row) for row in rows(page, "runs")]
    assert [row[1:8] for row in found] == [
        ["success", "0.625", "+0.125", "–", "20/20", "1", "1 min 00 s"],
        ["failed", "–", "–", "–", "–", "1", "–"],
        ["success", "0.5", "–", "–", "20/20", "1", "1 min 00 s"],
    ]
    points = json.loads(page.one("script", id="points").children[0])
    assert points["values"] == [0.5, None, 0.625]
    assert points["lights"] == ["green", "red", "green"]
    assert points["at"] == sorted(points["at"])


def test_another_metric_can_be_chosen_and_a_wrong_one_is_the_headline(us, evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.5)])
    for wanted, shown in (("mean/output_tokens", "812.5"), ("no/such", "0.5"), ("", "0.5")):
        page = read(us.get("dags/ours/benchmark", params={"name": "gpqa", "metric": wanted}).text)
        assert cells(rows(page, "runs")[0])[2] == shown


def test_metrics_stand_in_one_order_whatever_order_the_database_keeps():
    metrics = {"output_tokens": 9.0, "b/mean/reward": 0.5, "f1": 0.7}
    result = {"benchmark": "gpqa", "metrics": metrics}
    for order in (metrics, dict(reversed(metrics.items()))):
        row = RunRow("ours", "r", "eval", 0, "success", 1, None, None, None, None, result | {"metrics": order})
        run = read_run(row)
        assert (run.headline, list(run.metrics)) == ("b/mean/reward", ["b/mean/reward", "f1", "output_tokens"])


@pytest.mark.parametrize("verdict", ["pass", "regressed", "inconclusive"])
def test_a_gates_verdict_is_shown_with_its_reason(us, evaluations, verdict):
    said = {"benchmarks": {"gpqa": {"verdict": verdict, "reason": "mean/reward fell from 0.5 to 0.4"}}}
    evaluations.run("ours", [evaluation("gpqa"), task("gate", gym_verdict=said)])
    for address, table, at in (("", "benchmarks", 5), ("dags/ours/benchmark?name=gpqa", "runs", 4)):
        (row,) = rows(read(us.get(address).text), table)
        assert cells(row)[at] == verdict
        (mark,) = [one for one in row.all("span") if one.text == verdict]
        assert mark.attributes["title"] == "mean/reward fell from 0.5 to 0.4"


def test_two_runs_side_by_side(us, evaluations):
    first = evaluations.run("ours", [evaluation("gpqa", 0.5, task_rewards=rewards([0, 1, 1, 0]))])
    second = evaluations.run("ours", [evaluation("gpqa", 0.25, task_rewards=rewards([0, 0, 0.5, 1]))])
    for params in ({}, {"left": first, "right": second}):
        page = read(us.get("dags/ours/compare", params={"name": "gpqa", **params}).text)
        metrics = {cells(row)[0]: cells(row)[1:] for row in rows(page, "metrics")}
        assert metrics["mean/reward"] == ["0.5", "0.25", "−0.25"]
        assert page.one("p", id="pairs").text == "4 tasks in both: 1 better, 2 worse, 1 as before."
        tasks = [cells(row) for table in page.all("table")[1:] for row in table.one("tbody").all("tr")]
        assert tasks == [["1", "1", "0", "−1"], ["2", "1", "0.5", "−0.5"], ["3", "0", "1", "+1"]]
    back = read(us.get("dags/ours/compare", params={"name": "gpqa", "left": second, "right": first}).text)
    assert {cells(row)[0]: cells(row)[1:] for row in rows(back, "metrics")}["mean/reward"] == ["0.25", "0.5", "+0.25"]


def test_what_only_rounding_moved_is_as_before(us, evaluations):
    """120 different rewards are kept on a grid of each run's own range: one task moved, no other."""
    values = [at / 126 for at in range(120)]
    evaluations.run("ours", [evaluation("gpqa", task_rewards=rewards(values, 10_000))])
    evaluations.run("ours", [evaluation("gpqa", task_rewards=rewards([-1.0, *values[1:]], 10_000))])
    page = read(us.get("dags/ours/compare", params={"name": "gpqa"}).text)
    assert page.one("p", id="pairs").text == (
        "120 tasks in both: 0 better, 1 worse, 119 as before. "
        "Rewards are rounded: differences below 0.046 count as before."
    )


def test_tasks_that_are_too_many_to_be_kept_are_said_to_be_elsewhere(us, evaluations):
    for _ in range(2):
        evaluations.run("ours", [evaluation("gpqa", rollouts="/runs/x/rollouts.jsonl", task_rewards=None)])
    page = read(us.get("dags/ours/compare", params={"name": "gpqa"}).text)
    assert "/runs/x/rollouts_task_rewards.tsv" in page.one("p", id="no-pairs").text


def test_with_one_run_there_is_nothing_to_compare(us, evaluations):
    evaluations.run("ours", [evaluation("gpqa")])
    page = read(us.get("dags/ours/compare", params={"name": "gpqa"}).text)
    assert "no two green runs" in page.text


CHAIN = {
    "jobs": [
        {
            "id": "101",
            "state": "TIMEOUT",
            "submit": "2026-01-01T02:00:00",
            "start": "2026-01-01T02:00:30",
            "end": "2026-01-01T02:01:40",
            "elapsed": 70,
            "nodes": "n1",
        },
        {"id": "102", "state": "PENDING", "submit": "2026-01-01T02:02:00"},
    ],
    "used": 70,
    "max_walltime": 600,
    "walltime": 60,
    "retries": 1,
    "max_retries": 3,
    "resumable": True,
    "reason": "TIMEOUT after 0:01:10; resuming",
}


def chain_page(us, evaluations, state, **xcoms):
    run = evaluations.run("ours", [evaluation("gpqa", state=state, xcoms=xcoms)])
    return read(us.get("dags/ours/chain", params={"run_id": run, "task_id": "gpqa"}).text)


def test_a_chain_that_waits_in_the_queue(us, evaluations):
    page = chain_page(us, evaluations, "deferred", gym_chain=CHAIN)
    first, second = page.one("tbody").all("tr")
    assert cells(first) == ["101", "TIMEOUT", "30 s", "1 min 10 s", "2026-01-01 02:00:00", "n1"]
    assert cells(second)[:2] == ["102", "PENDING"]
    assert second.all("td")[1].attributes["data-since"] == "1767232920"
    assert page.one("div", id="chain").attributes["data-live"] == "5"
    assert "1 min 10 s of 10 min 00 s" in page.one("dl").text
    assert "1 of 3" in page.one("dl").text
    assert page.one("meter").attributes["value"] == "70"
    kinds = [bar.attributes["class"] for bar in page.all("rect")]
    assert kinds == ["queue", "run on", "queue"]


def test_the_triggers_word_makes_it_live(us, evaluations):
    live = {
        "job_id": "102",
        "state": "RUNNING",
        "elapsed": 20,
        "nodes": "n2",
        "at": 1767233000,
        "done": 5,
        "expected": 32,
    }
    page = chain_page(us, evaluations, "deferred", gym_chain=CHAIN, gym_live=live)
    row = page.one("tbody").all("tr")[1]
    assert cells(row)[1] == "RUNNING"
    assert cells(row)[2] == "1 min 00 s"
    assert row.all("td")[2].attributes["data-since"] == "1767232980"
    assert cells(row)[5] == "n2"
    assert "5 of 32" in page.one("dl").text
    other = chain_page(us, evaluations, "deferred", gym_chain=CHAIN, gym_live=live | {"job_id": "99"})
    assert cells(other.one("tbody").all("tr")[1])[1] == "PENDING"


def test_a_chain_that_is_over_is_not_live(us, evaluations):
    page = chain_page(us, evaluations, "success", gym_chain=CHAIN)
    assert "data-live" not in page.one("div", id="chain").attributes


def test_without_the_chains_xcom_the_jobs_are_there_without_times(us, evaluations):
    run = evaluations.run("ours", [evaluation("gpqa", jobs=("TIMEOUT", "COMPLETED"))])
    page = read(us.get("dags/ours/chain", params={"run_id": run, "task_id": "gpqa"}).text)
    assert [cells(row)[:4] for row in page.one("tbody").all("tr")] == [
        ["101", "TIMEOUT", "–", "0 s"],
        ["102", "COMPLETED", "–", "0 s"],
    ]


@pytest.fixture
def hostile(evaluations):
    said = {"benchmarks": {HOSTILE: {"verdict": "regressed", "reason": HOSTILE}}}
    chain = {"jobs": [{"id": HOSTILE, "state": HOSTILE, "nodes": HOSTILE, "reason": HOSTILE}], "reason": HOSTILE}
    results = {"metrics": {HOSTILE: 0.5}, "rollouts": HOSTILE, "job_dir": HOSTILE, "failed_steps": [HOSTILE]}
    tasks = [
        evaluation(HOSTILE, cluster=HOSTILE, task_id="t", xcoms={"gym_chain": chain}, **results),
        task("gate", gym_verdict=said),
    ]
    return [evaluations.run("ours", tasks, run_id) for run_id in (f"first{HOSTILE}", f"second{HOSTILE}")]


def test_hostile_names_stay_text_and_find_their_pages(us, hostile):
    pages = {
        "": None,
        "dags/ours/benchmark": {"name": HOSTILE, "metric": HOSTILE},
        "dags/ours/compare": {"name": HOSTILE, "cluster": HOSTILE, "left": hostile[0], "right": hostile[1]},
        "dags/ours/chain": {"run_id": hostile[0], "task_id": "t"},
        "dags/ours/report": {"run_id": hostile[0]},
    }
    for address, params in pages.items():
        answer = us.get(address, params=params)
        assert answer.status_code == 200, address
        page = read(answer.text)
        assert HOSTILE in answer.text.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace(
            "&#34;", '"'
        ).replace("&amp;", "&"), address
        assert not page.all("img"), address
        assert all("alert" not in "".join(map(str, one.children)) or one.attributes.get("type") == "application/json"
                   for one in page.all("script")), address  # fmt: skip
        assert not [name for tag in ("a", "td", "tr", "span") for one in page.all(tag) for name in one.attributes
                    if name.startswith("on")], address  # fmt: skip
        for link in page.all("a"):
            target = urljoin(str(answer.url), link.attributes["href"])
            if "/gym/dags/" in target:
                assert us.get(target).status_code == 200, target


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        "text",
        [],
        [1],
        {},
        {"benchmark": 5},
        {"jobs": {"a": 1}},
        {"jobs": [None, {"id": 5, "submit": "yesterday", "elapsed": "x", "exit_code": {}}], "used": "much", "base": -1},
        {"metrics": [1], "job_ids": "abc", "job_states": 4, "rollouts_done": 1e400, "chain_elapsed_seconds": True},
        {"metrics": {"a": "b", "c": None, "d": True}, "headline": ["x"], "job_ids": [1, None], "job_states": []},
        {"job_id": "101", "state": 5, "at": "now", "elapsed": [], "done": {}},
        {"benchmarks": [1, {"benchmark": "gpqa", "verdict": 5}], "verdict": {}},
        {"task_rewards": {"packed": "!!", "values": 3}, "benchmarks": {"gpqa": "regressed"}},
        {"metrics": {"a": 10**400, "b": 1e308, "c": -1e308}, "rollouts_done": 10**400, "used": 10**400},
        {"metrics": {"a": 17 * 10**307}, "task_rewards": {"packed": "eJwzAAAAMQAx", "values": [10**400]}},
        {"jobs": [{"id": "5", "state": "RUNNING", "submit": 10**400, "start": 1e308, "elapsed": -(10**400)}]},
        {"jobs": [{"id": "5", "state": "RUNNING", "submit": 1e14, "start": -1e14, "elapsed": 1e300}]},
        {"jobs": [{"id": "5", "state": "RUNNING", "submit": "0001-01-01T00:00:00+14:00", "end": "9999-12-31"}]},
        {"job_id": "101", "state": "RUNNING", "at": 1e14, "elapsed": -1e14, "ended": 1},
        {"benchmarks": {"gpqa": {"verdict": "pass", "metrics": {"a": {"baseline": 10**400, "verdict": "pass"}}}}},
        {"benchmark": "gpqa", "reason": "\ud800", "job_dir": "\udfff", "metrics": {"\ud800": 1}},
    ],
)
def test_what_another_release_left_breaks_no_page(us, evaluations, junk):
    keys = ("return_value", "gym_chain", "gym_live", "gym_verdict")
    runs = [evaluations.run("ours", [evaluation("gpqa", xcoms=dict.fromkeys(keys, junk))]) for _ in range(2)]
    evaluations.run("ours", [evaluation("gpqa", xcoms={"gym_job": junk})])
    place = {"name": "gpqa"}
    assert us.get("").status_code == 200
    assert us.get("dags/ours/benchmark", params=place).status_code == 200
    assert us.get("dags/ours/compare", params=place | {"left": runs[0], "right": runs[1]}).status_code == 200
    assert us.get("dags/ours/chain", params={"run_id": runs[0], "task_id": "gpqa"}).status_code == 200
    assert us.get("dags/ours/report", params={"run_id": runs[0]}).status_code == 200


def test_a_prefix_changes_no_address(sign, evaluations):
    evaluations.run("ours", [evaluation("gpqa")])
    client = sign("viewer", "us", prefix="/some/prefix")
    answer = client.get("")
    assert answer.status_code == 200
    page = read(answer.text)
    targets = [one.attributes[name] for tag, name in (("a", "href"), ("link", "href"), ("script", "src"))
               for one in page.all(tag) if name in one.attributes]  # fmt: skip
    assert len(targets) > 4
    for target in targets:
        assert not target.startswith("/")
        whole = urljoin(str(answer.url), target)
        assert urlsplit(whole).path.startswith("/some/prefix/gym/")
        assert client.get(whole).status_code == 200
    history = client.get("dags/ours/benchmark", params={"name": "gpqa"})
    (out,) = read(history.text).all("a", **{"class": "out"})
    target = urlsplit(urljoin(str(history.url), out.attributes["href"])).path
    assert unquote(target).startswith("/some/prefix/dags/ours/runs/scheduled__2026-01-02T02:00:00+00:00/tasks/gpqa")


def test_a_bad_map_index_is_no_error_of_ours(us, evaluations):
    run = evaluations.run("ours", [evaluation("gpqa")])
    for index in ("{MAP_INDEX}", "", "-1", "x", "--", "9" * 400, "²"):
        answer = us.get("dags/ours/chain", params={"run_id": run, "task_id": "gpqa", "map_index": index})
        assert answer.status_code == 200, index
    assert us.get(f"dags/ours/chain?run_id={run}&task_id=gpqa&map_index=3").status_code == 404


def test_the_change_is_against_the_gates_baseline_where_there_is_one(us, evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.5)])
    metrics = {"mean/reward": {"verdict": "pass", "sentence": "fine", "baseline": 0.75, "difference": -0.125}}
    said = {"benchmarks": {"gpqa": {"verdict": "pass", "metrics": metrics, "baseline": {"label": "the run of May"}}}}
    evaluations.run("ours", [evaluation("gpqa", 0.625), task("gate", gym_verdict=said)])
    for address, table, at in (("", "benchmarks", 4), ("dags/ours/benchmark?name=gpqa", "runs", 3)):
        assert cells(rows(read(us.get(address).text), table)[0])[at] == "−0.125"
