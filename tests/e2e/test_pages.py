"""The pages in a real browser, before the real Airflow, with what real runs on the real Slurm have left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from browsing import Window, browser, cells, token
from playwright.sync_api import Browser, expect
from stack import Run, Stack, wait_until
from test_nightly import EVAL, INDEX, ROLLOUTS, mean_reward

pytestmark = [pytest.mark.slow, pytest.mark.dag("nightly_benchmarks")]
SECONDS = 420
SHOTS = os.environ.get("GYM_E2E_SHOTS")
expect.set_options(timeout=60_000)
PAGES = (
    "benchmark?name=gpqa",
    "compare?name=gpqa",
    f"chain?run_id={{run}}&task_id={EVAL}&map_index=0",
    "report?run_id={run}",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def night(runs: dict[str, Run]) -> dict[str, dict]:
    """Benchmark to what its task returned."""
    run = runs["nightly_benchmarks"]
    found = {name: run.green(EVAL, index, seconds=SECONDS) for name, index in INDEX.items()}
    run.green("report", seconds=120)
    return found


@pytest.fixture(scope="module")
def window(chromium: Browser, stack: Stack, night: dict[str, dict]) -> Iterator[Window]:
    """Of somebody who may look and nothing else."""
    made = Window(chromium, stack, "reader", viewport={"width": 1200, "height": 700}, color_scheme="light")
    yield made
    assert made.problems == []


def chain_tab(run: Run, task_id: str, index: int = -1) -> str:
    mapped = f"/mapped/{index}" if index >= 0 else ""
    return f"dags/{run.dag_id}/runs/{quote(run.run_id)}/tasks/{task_id}{mapped}/plugin/gym-chain"


def words(seconds: int) -> str:
    """A duration below an hour, as the pages say it."""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60:02} s"


def keep(window: Window, name: str) -> None:
    """A picture for the README, when one is asked for."""
    if SHOTS:
        window.shot(Path(SHOTS) / f"{name}.png")


def test_the_way_from_the_login_to_a_benchmark(chromium: Browser, stack: Stack, night: dict[str, dict]):
    from browsing import passwords

    window = Window(chromium, stack, None, viewport={"width": 1200, "height": 700})
    window.page.goto(stack.api.url)
    window.page.locator("input[name=username]").fill("reader")
    window.page.locator("input[name=password]").fill(passwords(stack)["reader"])
    window.page.locator("button[type=submit]").click()
    window.page.get_by_role("link", name="Gym").click()
    frame = window.frame()
    frame.locator("a", has_text="aime25").first.click()
    expect(frame.locator("h1")).to_have_text("aime25")
    assert window.page.url.startswith(f"{stack.api.url}/plugin/gym/gym/dags/"), (
        "a page can be found again by its address"
    )
    window.page.reload()
    expect(window.frame().locator("h1")).to_have_text("aime25")
    assert window.problems == []


@pytest.mark.parametrize("benchmark", ROLLOUTS)
def test_the_overview_shows_what_lies_on_the_cluster(window: Window, run: Run, night: dict[str, dict], benchmark: str):
    frame = window.open("plugin/gym")
    found = cells(frame, f'tr[data-benchmark="{benchmark}"][data-dag="{run.dag_id}"]')
    assert found[0].split() == [benchmark, run.dag_id, "on", "cluster"]
    assert found[2] == "mean/reward"
    assert found[3] == f"{mean_reward(night[benchmark]['rollouts']):.4g}"
    assert found[6] == ("success resumed" if benchmark == "mmlu_pro" else "success")
    assert frame.locator(f'tr[data-benchmark="{benchmark}"] svg circle').count() >= 1
    keep(window, "overview-light")


def test_a_benchmarks_history_has_the_run_and_a_chart(window: Window, run: Run, night: dict[str, dict]):
    frame = window.open("plugin/gym")
    frame.locator(f'tr[data-benchmark="mmlu_pro"][data-dag="{run.dag_id}"] th a').click()
    expect(frame.locator("h1")).to_have_text("mmlu_pro")
    row = cells(frame, f'#runs tr[data-run="{run.run_id}"]')
    result = night["mmlu_pro"]
    assert row[1] == "success resumed"
    assert row[2] == f"{mean_reward(result['rollouts']):.4g}"
    assert row[5] == "32/32"
    assert row[6] == str(len(result["job_ids"]))
    assert row[7] == words(result["chain_elapsed_seconds"])
    assert row[8] == run.run_id
    canvas = frame.locator("#chart canvas").first
    expect(canvas).to_be_visible()
    painted = canvas.evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const want = [161, 92, 0]; let n = 0;"
        " for (let i = 0; i < d.length; i += 4) if (want.every((v, k) => d[i + k] === v) && d[i + 3] === 255) n++;"
        " return n; }"
    )
    assert painted > 20, "the resumed run is marked in its colour"


def test_the_chain_of_a_task_is_that_of_slurm(window: Window, run: Run, stack: Stack, night: dict[str, dict]):
    window.page.goto(f"{window.url}/{chain_tab(run, EVAL, INDEX['mmlu_pro']).removesuffix('/plugin/gym-chain')}")
    window.page.get_by_role("link", name="Gym chain").click()
    frame = window.frame()
    expect(frame.locator("h1")).to_contain_text("mmlu_pro")
    folder = Path(night["mmlu_pro"]["job_dir"])
    ids = [line.split()[0] for line in (folder / ".gym_job_chain").read_text().splitlines()]
    jobs = {job.job_id: job for job in stack.jobs_below(folder)}
    rows = frame.locator("table.jobs tbody tr")
    expect(rows).to_have_count(len(ids))
    for at, job_id in enumerate(ids):
        found = [" ".join(text.split()) for text in rows.nth(at).locator("th, td").all_inner_texts()]
        job = jobs[job_id]
        assert found[0] == job_id
        assert found[1] == job.state.split()[0]
        assert found[3] == words(job.elapsed)
        assert re.fullmatch(r"\d+ s|\d+ min \d\d s", found[2]), "the time in the queue is known"
    used = int((folder / ".gym_accumulated_walltime").read_text())
    assert frame.locator("meter").get_attribute("value") == str(used)
    assert frame.locator("meter").get_attribute("max") == "600"
    assert "0 of 3" in frame.locator("dl").inner_text()
    assert frame.locator("svg.bars rect.run").count() == len(ids)
    assert frame.locator("#chain").get_attribute("data-live") is None
    keep(window, "chain-light")


def test_a_link_out_of_the_frame_moves_airflow(window: Window, run: Run, night: dict[str, dict]):
    frame = window.open(f"plugin/gym/gym/dags/{run.dag_id}/benchmark?name=gpqa")
    frame.locator(f'#runs tr[data-run="{run.run_id}"] a.out').click()
    window.page.wait_for_url(f"**/dags/{run.dag_id}/runs/**/tasks/{EVAL}/mapped/{INDEX['gpqa']}**")


def test_the_report_is_a_file_beside_the_results_and_needs_nothing(
    chromium: Browser, stack: Stack, run: Run, night: dict[str, dict]
):
    path = Path(run.green("report"))
    assert path == Path(night["gpqa"]["run_dir"]) / "report.html"
    page = chromium.new_context(offline=True).new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    for benchmark, result in night.items():
        row = page.locator(f'#benchmarks tr[data-benchmark="{benchmark}"]').locator("td").all_inner_texts()
        assert row[2] == f"{mean_reward(result['rollouts']):.4g}"
        assert row[4] == f"{result['rollouts_done']}/{result['rollouts_expected']}"
    first = page.locator("table.jobs").first.locator("tbody th").inner_text()
    assert first in {job for result in night.values() for job in result["job_ids"]}
    assert asked == [path.as_uri()]
    assert not [secret for secret in stack.secrets.values() if secret in path.read_text()]


def fetch(stack: Stack, path: str, user: str | None) -> tuple[int, str]:
    headers = {"Cookie": f"_token={token(stack, user)}"} if user else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{stack.api.url}/{path}", headers=headers), timeout=60
        ) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode()


def test_airflow_says_who_may_read(stack: Stack, run: Run, runs: dict[str, Run], night: dict[str, dict]):
    other = quote(runs["e2e_pages"].run_id)
    reward = f"{mean_reward(night['gpqa']['rollouts']):.4g}"
    for page in PAGES:
        path = f"gym/dags/{run.dag_id}/{page}"
        mine, theirs = (path.format(run=quote(run_id)) for run_id in (run.run_id, runs["e2e_pages"].run_id))
        status, text = fetch(stack, mine, "reader")
        assert status == 200
        assert "gpqa" in text
        for user, code in ((None, 401), ("nobody", 403)):
            status, text = fetch(stack, mine, user)
            assert (status, reward in text, "gpqa" in text) == (code, False, False), (page, user)
        if "{run}" in page:
            assert fetch(stack, theirs, "reader")[0] == 404, "a run of another DAG"
            assert fetch(stack, theirs, "nobody")[0] == 403
    assert fetch(stack, "gym/", None)[0] == 401
    status, text = fetch(stack, "gym/", "nobody")
    assert (status, "gpqa" in text) == (200, False)
    assert fetch(stack, f"gym/dags/e2e_pages/chain?run_id={other}&task_id=small", "reader")[0] == 200
    assert fetch(stack, f"gym/dags/e2e_pages/chain?run_id={other}&task_id=small", "nobody")[0] == 403


def test_it_follows_airflows_colours(window: Window, run: Run, night: dict[str, dict]):
    window.page.emulate_media(color_scheme="dark")
    frame = window.open(chain_tab(run, EVAL, INDEX["mmlu_pro"]))
    expect(frame.locator("html")).to_have_attribute("data-mode", "dark")
    keep(window, "chain-dark")
    frame = window.open("plugin/gym")
    expect(frame.locator("html")).to_have_attribute("data-mode", "dark")
    text = "getComputedStyle(document.body).color"
    assert frame.evaluate(text) == "rgb(228, 228, 231)"
    keep(window, "overview-dark")
    # What Airflow's own switch does.
    window.page.evaluate("document.documentElement.className = 'light'")
    expect(frame.locator("html")).to_have_attribute("data-mode", "light")
    assert frame.evaluate(text) == "rgb(24, 24, 27)"
    window.page.emulate_media(color_scheme="light")


def test_it_fits_a_narrow_screen_and_needs_no_mouse(window: Window, run: Run, night: dict[str, dict]):
    wide = window.page.viewport_size
    window.page.set_viewport_size({"width": 420, "height": 800})
    for path in ("plugin/gym", f"plugin/gym/gym/dags/{run.dag_id}/benchmark?name=gpqa", chain_tab(run, EVAL, 0)):
        frame = window.open(path)
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    frame = window.open("plugin/gym")
    frame.locator("h1").evaluate("h => { h.tabIndex = -1; h.focus(); }")
    window.page.keyboard.press("Tab")
    focused = frame.evaluate("document.activeElement.textContent")
    window.page.keyboard.press("Enter")
    expect(frame.locator("h1")).to_have_text(focused)
    window.page.set_viewport_size(wide)


def test_a_task_without_jobs_says_so(window: Window, run: Run, night: dict[str, dict]):
    frame = window.open(chain_tab(run, "gym_evals.summary"))
    assert "No Slurm jobs" in frame.locator("main").inner_text()


@pytest.mark.dag("e2e_pages")
def test_two_runs_side_by_side(window: Window, stack: Stack, run: Run):
    first = run.green("small", seconds=SECONDS)
    asked = {"logical_date": None, "conf": {"limit": 4}}
    second = Run(stack, run.dag_id, stack.change("POST", f"dags/{run.dag_id}/dagRuns", asked)["dag_run_id"])
    after = second.green("small", seconds=SECONDS)
    assert (first["rollouts_done"], after["rollouts_done"]) == (3, 4)
    frame = window.open("plugin/gym")
    frame.locator(f'tr[data-benchmark="small"][data-dag="{run.dag_id}"] th a').click()
    frame.locator(f'#runs tr[data-run="{second.run_id}"] td a[href*="compare"]').click()
    old, new = (mean_reward(result["rollouts"]) for result in (first, after))
    found = cells(frame, '#metrics tr[data-metric="mean/reward"]')
    assert found[1:3] == [f"{old:.4g}", f"{new:.4g}"]
    rewards = [
        {
            row["_ng_task_index"]: row["reward"]
            for row in map(json.loads, Path(result["rollouts"]).read_text().splitlines())
        }
        for result in (first, after)
    ]
    words = frame.locator("#pairs").inner_text()
    both = rewards[0].keys() & rewards[1].keys()
    assert words.startswith(f"{len(both)} tasks in both")
    assert f"{sum(rewards[0][task] == rewards[1][task] for task in both)} as before" in words
    assert "1 not comparable" in words


@pytest.mark.dag("e2e_live")
def test_a_chain_can_be_watched_while_it_runs(chromium: Browser, window: Window, stack: Stack, run: Run):
    job = run.job("alive", seconds=SECONDS)
    frame = window.open(chain_tab(run, "alive"))
    row = frame.locator("table.jobs tbody tr")
    expect(row.locator("th")).to_have_text(job["job_id"])
    expect(row.locator("td").nth(0)).to_contain_text("RUNNING")
    expect(frame.locator("dl")).to_contain_text("1 of 3", timeout=150_000)
    before = row.locator("td").nth(2).inner_text()
    expect(row.locator("td").nth(2)).not_to_have_text(before, timeout=10_000)
    stack.open_gate("pages")
    expect(frame.locator("#chain")).to_have_attribute("data-state", "success", timeout=120_000)
    expect(row.locator("td").nth(0)).to_have_text("COMPLETED")
    assert frame.locator("#chain").get_attribute("data-live") is None
    (known,) = stack.jobs_below(job["job_dir"])
    assert row.locator("td").nth(2).inner_text() == words(known.elapsed)


def test_it_works_behind_a_prefix(chromium: Browser, stack: Stack, run: Run, night: dict[str, dict]):
    """Another API server of the same Airflow, as behind a proxy that gives it a folder of its own."""
    folder, port = stack.home, int(stack.api.url.rpartition(":")[2]) + 20
    where = f"http://127.0.0.1:{port}/some/prefix"
    environ = stack.environ() | stack._environment("airflow.sh", "airflow")
    environ |= {"AIRFLOW__API__BASE_URL": where, "AIRFLOW__API__PORT": str(port)}
    with (folder / "log" / "prefix.out").open("w") as log:
        server = subprocess.Popen(
            [Path(sys.executable).with_name("airflow"), "api-server"],
            env=environ, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"{where}/api/v2/monitor/health", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_until("the API server with a prefix", 180, answers)
        window = Window(chromium, stack, None, viewport={"width": 1200, "height": 700})
        window.url = where
        window.context.add_cookies([{"name": "_token", "value": token(stack, "reader"), "url": where}])
        frame = window.open("plugin/gym")
        frame.locator(f'tr[data-benchmark="gpqa"][data-dag="{run.dag_id}"] th a').click()
        expect(frame.locator("#chart canvas").first).to_be_visible()
        assert cells(frame, f'#runs tr[data-run="{run.run_id}"]')[1] == "success"
        frame = window.open(chain_tab(run, EVAL, INDEX["gpqa"]))
        expect(frame.locator("h1")).to_contain_text("gpqa")
        assert window.problems == []
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
