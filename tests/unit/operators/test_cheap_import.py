"""A DAG file that uses our operators stays cheap to parse: a share of what it pays for Airflow, in the same process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[3] / "dags"
_PROGRAM = """
import json, sys, time
begin = time.process_time()
# Names of airflow.sdk are lazy: these are what DAG files pay for without us.
from airflow.sdk import DAG, Asset, BaseOperator, BaseSensorOperator, Param, TaskGroup, task
from airflow.sdk.bases.decorator import DecoratedOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
before, between = set(sys.modules), time.process_time()
{statement}
share = (time.process_time() - between) / (between - begin)
print(json.dumps([share, sorted(set(sys.modules) - before)]))
"""
_PARSE = """
for path in {paths}:
    exec(compile(open(path).read(), path, "exec"), {{"__name__": "dag", "__file__": path}})
"""
HEAVY = (
    "paramiko",
    "asyncssh",
    "hydra",
    "omegaconf",
    "yaml",
    "jinja2",
    "numpy",
    "scipy",
    "airflow_gym_provider.config",
    "airflow_gym_provider.jobscript",
    "airflow_gym_provider.hooks",
)


def done(statement):
    """(CPU time in that of importing Airflow, new modules) of it in a fresh process."""
    program = _PROGRAM.format(statement=statement)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def test_operators_import_next_to_nothing():
    runs = [done("import airflow_gym_provider.operators.gym") for _ in range(3)]
    names = runs[0][1]
    assert [name for name in names if name.startswith(HEAVY)] == []
    assert sum(name.startswith("airflow_gym_provider") for name in names) < 16
    assert min(share for share, _ in runs) < 0.04


def test_the_other_rooms_for_dag_files_as_well():
    modules = ("operators.gate", "sensors.slurm", "task_groups", "decorators.gym", "params", "assets")
    names = done("\n".join(f"import airflow_gym_provider.{module}" for module in modules))[1]
    assert {f"airflow_gym_provider.{module}" for module in modules} <= set(names)
    assert [name for name in names if name.startswith(HEAVY)] == []


def test_parsing_all_dags_that_are_shipped_costs_less_than_a_fifth_of_importing_airflow():
    paths = sorted(map(str, DAGS.glob("*.py")))
    assert len(paths) >= 3
    runs = [done(_PARSE.format(paths=paths)) for _ in range(3)]
    assert [name for name in runs[0][1] if name.startswith(HEAVY)] == []
    assert min(share for share, _ in runs) < 0.2


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_a_dag_that_is_shipped_is_short_enough_to_be_read(path):
    assert len(path.read_text().splitlines()) < 60
