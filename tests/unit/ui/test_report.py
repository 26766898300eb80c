"""The report file: all of a run in one page that loads nothing, escaped."""

from __future__ import annotations

import re

from fakes.evaluations import evaluation, task

from airflow_gym_provider.ui.report import render_report
from tests.unit.ui.html import read
from tests.unit.ui.test_pages import CHAIN, HOSTILE, cells, rows


def results(*tasks):
    return [one["xcoms"].get("return_value", one["xcoms"]["gym_job"]) for one in tasks]


def test_it_has_every_benchmark_with_its_numbers():
    found = results(evaluation("gpqa", 0.25, jobs=("TIMEOUT", "COMPLETED")), evaluation("aime25", state="failed"))
    verdict = {"benchmarks": {"gpqa": {"verdict": "regressed", "sentence": "it fell"}}}
    text = render_report(found, title="Tonight", states=["success", "failed"], verdict=verdict)
    page = read(text)
    assert [cells(row) for row in rows(page, "benchmarks")] == [
        ["gpqa", "success resumed", "mean/reward", "0.25", "regressed", "20/20", "2", "2 min 00 s"],
        ["aime25", "failed", "–", "–", "–", "–", "1", "0 s"],
    ]
    assert page.one("section", id="b1").one("h2").text == "gpqa success resumed"
    assert "it fell" in page.one("section", id="b1").text
    assert "Tonight" in page.one("title").text


def test_it_has_the_chain_drawn_when_that_is_given():
    text = render_report(results(evaluation("gpqa")), chains=[{"gym_chain": CHAIN}])
    page = read(text)
    assert [bar.attributes["class"] for bar in page.all("rect")] == ["queue", "run on", "queue"]
    assert "1 min 10 s of 10 min 00 s" in page.one("dl").text


def test_it_loads_and_runs_nothing():
    page = read(text := render_report(results(evaluation("gpqa"))))
    assert not [one for tag in ("script", "link", "img", "iframe") for one in page.all(tag)]
    assert not re.search(r"https?://|@import|url\(", text)
    assert page.all("meta")[2].attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_what_is_hostile_stays_text():
    found = results(evaluation(HOSTILE, metrics={HOSTILE: 1}, job_dir=HOSTILE))
    chain = {"jobs": [{"id": HOSTILE, "state": HOSTILE, "nodes": HOSTILE}], "reason": HOSTILE}
    verdict = {"benchmarks": {HOSTILE: {"verdict": "pass", "sentence": HOSTILE}}}
    text = render_report(found, title=HOSTILE, chains=[{"gym_chain": chain}], verdict=verdict)
    page = read(text)
    assert not page.all("img")
    assert not page.all("script")
    assert page.one("h1").text == HOSTILE
    assert rows(page, "benchmarks")[0].one("a").text == HOSTILE


def test_what_is_no_result_is_left_out():
    page = read(render_report([None, 5, "text", {}, *results(evaluation("gpqa"))]))
    assert len(rows(page, "benchmarks")) == 1


def test_what_failed_before_it_had_a_job_has_a_row_and_says_why():
    page = read(
        render_report(
            [*results(evaluation("gpqa")), None, None],
            chains=[{}, {"gym_failure": {"reason": "the config is wrong"}}, {}],
            states=["success", "failed", "upstream_failed"],
            places=["eval [0]", "eval [1]", "eval [2]"],
        )
    )
    assert [cells(row)[:2] for row in rows(page, "benchmarks")] == [
        ["gpqa", "success"],
        ["eval [1]", "failed, no job"],
        ["eval [2]", "upstream_failed, no job"],
    ]
    assert "the config is wrong" in page.one("section", id="b2").text
    assert page.one("section", id="b2").all("table") == []


def test_two_evaluations_of_one_benchmark_are_two_rows_each_with_its_own_verdict():
    found = [evaluation("gpqa", 0.9, job_dir="/runs/7/gpqa"), evaluation("gpqa", 0.3, job_dir="/runs/8/gpqa")]
    said = [
        {"benchmarks": {"gpqa": {"verdict": word, "candidate": {"job_dir": place}}}}
        for word, place in (("regressed", "/runs/8/gpqa/"), ("pass", "/runs/7/gpqa"))
    ]
    page = read(render_report(results(*found), places=["eval [0]", "eval [1]"], verdict=said))
    assert [cells(row)[:5] for row in rows(page, "benchmarks")] == [
        ["gpqa eval [0]", "success", "mean/reward", "0.9", "pass"],
        ["gpqa eval [1]", "success", "mean/reward", "0.3", "regressed"],
    ]


def test_a_users_report_has_what_failed_before_it_had_a_job(us, evaluations):
    rejected = task("aime25", "failed", gym_failure={"reason": "the config is wrong"})
    evaluations.run("ours", [evaluation("gpqa"), evaluation("aime25")])
    run = evaluations.run("ours", [evaluation("gpqa"), rejected, task("other", "failed")])
    page = read(us.get("dags/ours/report", params={"run_id": run}).text)
    assert [cells(row)[:2] for row in rows(page, "benchmarks")] == [
        ["aime25", "failed, no job"],
        ["gpqa", "success"],
    ]
    assert "the config is wrong" in page.text


def test_a_user_can_take_it_along(us, evaluations):
    said = {"benchmarks": {"gpqa": {"verdict": "pass"}}}
    tasks = [evaluation("gpqa", 0.5, xcoms={"gym_chain": CHAIN}), evaluation("aime25", state="failed")]
    run = evaluations.run("ours", [*tasks, task("gate", gym_verdict=said)])
    evaluations.run("ours", [evaluation("later")])
    answer = us.get("dags/ours/report", params={"run_id": run})
    assert answer.headers["content-disposition"] == 'attachment; filename="report.html"'
    page = read(answer.text)
    assert [cells(row)[:2] for row in rows(page, "benchmarks")] == [["aime25", "failed"], ["gpqa", "success"]]
    assert rows(page, "benchmarks")[1].one("span", **{"class": "light green", "title": ""}).text == "pass"
    assert us.get("dags/ours/report", params={"run_id": "none"}).status_code == 404
