"""Where the secrets of the stack are to be found, in whatever shape: all that Airflow and the cluster keep and show."""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stack import Run, Stack

from airflow_gym_provider.config.hiding import shapes

_CORE = re.compile("canary-[0-9a-f]{24}")
_FRAME = re.compile("^-----(BEGIN|END) .*-----$")


def needles(stack: Stack) -> re.Pattern[bytes]:
    """Finds every shape of every secret, lines of those with several among them."""
    found = [text for text in shapes(stack.secrets.values()) if not _FRAME.match(text)]
    # However the rest of it may be written.
    found += [word for text in stack.secrets.values() for word in _CORE.findall(text)]
    return re.compile(b"|".join(re.escape(text.encode()) for text in found))


def holders(stack: Stack, run_dirs: Iterable[str | Path]) -> set[Path]:
    """The files that hold a secret: of all of Airflow's, of these runs, of the cluster's, and what `ps` has shown."""
    wanted = needles(stack)
    return {path for path in _files(stack, run_dirs) if wanted.search(path.read_bytes())}


def _files(stack: Stack, run_dirs: Iterable[str | Path]) -> Iterator[Path]:
    # Slurm itself keeps script and environment of its jobs, in folders of its own.
    private = [stack.folder / "cluster" / part for part in ("state", "spool")]
    roots = [stack.home, stack.folder / "cluster", stack.dags, *map(Path, run_dirs)]
    found = [path for root in roots for path in root.rglob("*") if path.is_file()]
    yield from (path for path in found if not any(path.is_relative_to(folder) for folder in private))
    # Where a run has looked at processes; tests that need it ask for what stands in it.
    if (seen := stack.folder / "ps.txt").exists():
        yield seen


def in_database(stack: Stack) -> dict[str, str]:
    """What holds a secret in Airflow's database, by table and column. As rows, for SQLite spreads them over pages."""
    wanted, found = needles(stack), {}
    with sqlite3.connect(f"file:{stack.home}/home/airflow.db?mode=ro", uri=True, timeout=60) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert {"dag_run", "xcom", "serialized_dag", "rendered_task_instance_fields", "trigger", "log"} <= set(tables)
        for table in tables:
            rows = database.execute(f'SELECT * FROM "{table}"')
            columns = [name for name, *_ in rows.description]
            for row in rows:
                for column, value in zip(columns, row, strict=True):
                    text = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
                    if wanted.search(text):
                        found[f"{table}.{column}"] = repr(value)[:300]
    return found


def shown(run: Run) -> dict[str, str]:
    """All that Airflow's API and our pages say of a run, by address."""
    api, said = run.api, dict[str, Any]()

    def ask(path: str) -> Any:
        said[path] = api.call("GET", path)
        return said[path]

    for path in ("importErrors", f"eventLogs?dag_id={run.dag_id}&limit=100", f"dags/{run.dag_id}/details", run.path):
        ask(path)
    ask(f"dagSources/{run.dag_id}")
    for task in ask(f"{run.path}/taskInstances?limit=100")["task_instances"]:
        one = f"{run.path}/taskInstances/{task['task_id']}"
        index = f"map_index={task['map_index']}"
        ask(f"{one}/links?{index}")
        for kind in ("tries", "dependencies"):
            ask(f"{one}/{kind}" if task["map_index"] < 0 else f"{one}/{task['map_index']}/{kind}")
        for entry in ask(f"{one}/xcomEntries?{index}&limit=100")["xcom_entries"]:
            ask(f"{one}/xcomEntries/{entry['key']}?{index}")
        for number in range(1, task["try_number"] + 1):
            with suppress(urllib.error.HTTPError):  # of a try that died Airflow may know nothing
                said[f"{one}/logs/{number}"] = api.log(task, number)
        pages = ["benchmark?name=" + task["task_id"], f"chain?run_id={run.run_id}&task_id={task['task_id']}"]
        said |= {f"gym/{page}": _page(run, f"dags/{run.dag_id}/{page}") for page in pages}
    said["gym"] = _page(run, "")
    return {path: json.dumps(answer, ensure_ascii=False) for path, answer in said.items()}


def in_answers(stack: Stack, run: Run) -> list[str]:
    """The addresses whose answers hold a secret."""
    wanted = needles(stack)
    return [path for path, text in shown(run).items() if wanted.search(text.encode()) or _undone(text, wanted)]


def _undone(text: str, wanted: re.Pattern[bytes]) -> bool:
    """Texts within texts: JSON in JSON."""
    return bool(wanted.search(text.replace("\\\\", "\\").replace('\\"', '"').encode()))


def _page(run: Run, path: str) -> str:
    """The text of one of our pages, or the words of its refusal."""
    asked = urllib.request.Request(
        f"{run.api.url}/gym/{path.replace('+', '%2B')}", headers={"Authorization": f"Bearer {run.api.token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        assert refusal.code == 404, f"{path}: {refusal.code}"
        return str(refusal.read().decode())
