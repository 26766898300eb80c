"""How long the pages take to answer: 500 nights of 20 benchmarks in one DAG, in a SQLite file, with Airflow's login.

    python tests/bench/bench_pages.py [--nights 500] [--benchmarks 20] [--requests 15]

Prints, for each page, the median and the slowest answer in milliseconds, how large it is, and how many times as long it
takes as with a tenth of the nights: what depends on how much there is, and what does not.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PAGES = {
    "overview": "/gym/",
    "history": "/gym/dags/nightly/benchmark?name=bench07",
    "compare": "/gym/dags/nightly/compare?name=bench07",
    "chain": "/gym/dags/nightly/chain?run_id={run}&task_id=bench07",
}


def measure(folder: Path, nights: int, benchmarks: int, requests: int) -> dict[str, tuple[float, float, int]]:
    """Page to median and slowest milliseconds, and bytes."""
    from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fakes.evaluations import FIRST_NIGHT, Evaluations, database
    from fastapi import FastAPI
    from starlette.testclient import TestClient

    from airflow_gym_provider.ui.plugin import LazyApp

    with database(folder / f"{nights}.db"):
        made = Evaluations()
        made.dag("nightly")
        made.nights("nightly", [f"bench{number:02}" for number in range(benchmarks)], nights)
        purge_cached_app()
        manager = init_auth_manager()
        app = FastAPI()
        app.mount("/gym", LazyApp())
        client = TestClient(app)
        user = SimpleAuthManagerUser(username="somebody", role="viewer")
        client.headers["Authorization"] = f"Bearer {manager.generate_jwt(user)}"
        run = f"scheduled__{FIRST_NIGHT.replace(day=2).isoformat()}".replace("+", "%2B")
        return {page: time_page(client, path.format(run=run), requests) for page, path in PAGES.items()}


def time_page(client: Any, path: str, requests: int) -> tuple[float, float, int]:
    """The first request, which also makes the application, does not count."""
    taken, size = [], 0
    for _ in range(requests + 1):
        began = time.perf_counter()
        answer = client.get(path)
        taken.append(1000 * (time.perf_counter() - began))
        assert answer.status_code == 200, (path, answer.status_code)
        size = len(answer.content)
    return statistics.median(taken[1:]), max(taken[1:]), size


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=500)
    parser.add_argument("--benchmarks", type=int, default=20)
    parser.add_argument("--requests", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIRFLOW_HOME"] = folder
        os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = "x" * 64
        os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"] = f"{folder}/passwords.json"
        logging.disable(logging.WARNING)
        few = measure(Path(folder), max(2, options.nights // 10), options.benchmarks, options.requests)
        many = measure(Path(folder), options.nights, options.benchmarks, options.requests)
    print(f"{options.nights} nights of {options.benchmarks} benchmarks, {options.requests} requests for each page")
    for page, (median, slowest, size) in many.items():
        ratio = median / few[page][0]
        print(f"  {page:>8}: {median:7.1f} ms, slowest {slowest:7.1f} ms, {size / 1024:6.0f} KB, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
