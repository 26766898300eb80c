"""What a DAG file pays for importing our operators, on top of `import airflow.sdk`, which it pays anyway.

    python tests/bench/bench_import.py [--runs 15] [--module airflow_gym_provider.operators.gym] [--dags dags/]

With --dags: what all DAG files of a folder pay together for being parsed, imports included. Each run is a fresh
interpreter that imports one after the other, so a busy machine is busy for both. Prints medians in milliseconds of wall
time and of CPU time, their ratio, and which modules are new.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

PROGRAM = """
import json, pathlib, sys, time

def cost(statement):
    wall, cpu = time.perf_counter(), time.process_time()
    exec(statement, {{"pathlib": pathlib}})
    return [1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)]

# Names of airflow.sdk are lazy: these are what any DAG file with any operator or sensor needs.
base = cost(
    "from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator, BaseSensorOperator, Param, TaskGroup, task\\n"
    "from airflow.sdk.bases.decorator import DecoratedOperator\\n"
    "from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator"
)
before = set(sys.modules)
ours = cost({statement!r})
print(json.dumps([base, ours, sorted(set(sys.modules) - before)]))
"""


PARSE = """
for path in sorted(pathlib.Path({folder!r}).glob("*.py")):
    exec(compile(path.read_text(), str(path), "exec"), {{"__name__": path.stem, "__file__": str(path)}})
"""


def one_run(statement: str) -> tuple[list[float], list[float], list[str]]:
    """(wall, CPU) of airflow.sdk, then of the statement, and what modules it brought in."""
    program = PROGRAM.format(statement=statement)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    base, ours, new = json.loads(ran.stdout.splitlines()[-1])
    return base, ours, new


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--module", default="airflow_gym_provider.operators.gym")
    parser.add_argument("--dags")
    options = parser.parse_args()
    statement = PARSE.format(folder=options.dags) if options.dags else f"import {options.module}"
    one_run(statement)  # fills the caches of files and of compiled code
    runs = [one_run(statement) for _ in range(options.runs)]
    print(f"{options.dags or options.module}, medians of {options.runs} fresh processes")
    for index, kind in enumerate(("wall", "CPU")):
        base = statistics.median(run[0][index] for run in runs)
        ours = statistics.median(run[1][index] for run in runs)
        print(f"  {kind:>4}: airflow.sdk {base:7.1f} ms, ours {ours:6.1f} ms more, ratio {(base + ours) / base:.3f}")
    print("  new modules: " + ", ".join(runs[0][2]))


if __name__ == "__main__":
    main()
