"""How an Airflow of several machines bears its load: sampled from outside every few seconds, told as a table."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import psycopg2
from spread import Spread
from stack import process_stat

EVERY = 5.0
_HEARTBEATS = """
    SELECT hostname, min(extract(epoch FROM now() - latest_heartbeat)) FROM job WHERE state = 'running' GROUP BY 1"""
_SIMPLE = "SELECT state, count(*) FROM task_instance GROUP BY state"
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'airflow'"


class Samples:
    """Name of a measure to its values so far, as (seconds since the begin, value)."""

    def __init__(self, spread: Spread) -> None:
        self.spread = spread
        self.begin = time.monotonic()
        self.found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.problems: list[str] = []
        self.database = psycopg2.connect(_address(spread))
        self.database.autocommit = True

    def add(self, name: str, value: float) -> None:
        self.found[name].append((time.monotonic() - self.begin, value))

    def take(self) -> None:
        """One look at everything."""
        self.timed("API health, s", self._health)
        self.timed("simple SQL query, s", lambda: self._rows(_SIMPLE))
        self.add("connections to PostgreSQL", self._rows(_CONNECTIONS)[0][0])
        ages = dict(self._rows(_HEARTBEATS))
        for part in ("scheduler", *self.spread.triggerers):
            if self.spread.processes(part):
                if part in ages:
                    self.add(f"heartbeat of {part} ago, s", float(ages[part]))
                self._weigh(part, self.spread.processes(part))
        for part in self.spread.workers:
            # without the tasks, which come and go
            leader, pids = self.spread.leader(part), self.spread.processes(part)
            self._weigh(part, [pid for pid in pids if pid == leader or process_stat(pid)[1] == leader])

    def timed(self, name: str, ask: Callable[[], object]) -> None:
        begin = time.monotonic()
        ask()
        self.add(name, time.monotonic() - begin)

    def _health(self) -> object:
        with urllib.request.urlopen(f"{self.spread.api.url}/api/v2/monitor/health", timeout=60) as answer:
            return json.load(answer)

    def _rows(self, query: str) -> list[tuple]:
        with self.database.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    def _weigh(self, part: str, pids: list[int]) -> None:
        """All together, with shared pages counted once; and the largest, which forks do not make smaller."""
        found = [(values["Pss"], values["Rss"]) for pid in pids if (values := _memory_of(pid))]
        if found:
            self.add(f"memory of {part}, MB", sum(shared for shared, _ in found) / 1024)
            self.add(f"largest process of {part}, MB", max(whole for _, whole in found) / 1024)

    def values(self, name: str, after: float = 0.0, before: float = float("inf")) -> numpy.ndarray:
        return numpy.array([value for at, value in self.found[name] if after <= at < before])

    def stalls(self) -> int:
        """How often Airflow says that something has blocked a triggerer's loop."""
        logs = [(self.spread.home / "log" / f"{part}.out").read_text() for part in self.spread.triggerers]
        return sum(log.count("async thread was blocked") for log in logs)

    def table(self) -> str:
        """Median, 95th percentile and largest of each measure."""
        lines = ["| | median | 95 % below | most |", "| --- | --- | --- | --- |"]
        for name in sorted(self.found):
            found = self.values(name)
            numbers = (numpy.median(found), numpy.percentile(found, 95), found.max())
            lines.append(f"| {name} | {' | '.join(f'{number:.3g}' for number in numbers)} |")
        return "\n".join([*lines, f"| warnings of a triggerer that its loop was blocked | | | {self.stalls()} |"])


@contextmanager
def sampling(spread: Spread) -> Iterator[Samples]:
    """Looks every few seconds until the end of the block."""
    samples, done = Samples(spread), threading.Event()

    def go_on() -> None:
        while not done.wait(EVERY):
            try:
                samples.take()
            except Exception as problem:
                samples.problems.append(repr(problem))

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join(60)
        samples.database.close()


def _address(spread: Spread) -> str:
    lines = (line.split("=", 1) for line in (spread.home / "settings").read_text().splitlines())
    address = dict(lines)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    return address.replace("postgresql+psycopg2", "postgresql")


def _memory_of(pid: int) -> dict[str, int]:
    """Kind of memory to KB; empty for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
