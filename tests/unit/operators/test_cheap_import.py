"""A DAG file that uses our operators stays cheap to parse."""

import json
import subprocess
import sys

_PROGRAM = """
import json, sys, time
import airflow.sdk
from airflow.sdk import BaseOperator, BaseSensorOperator
before = set(sys.modules)
begin = time.perf_counter()
import {module}
spent = time.perf_counter() - begin
print(json.dumps([spent, sorted(set(sys.modules) - before)]))
"""
HEAVY = ("paramiko", "asyncssh", "hydra", "omegaconf", "yaml", "jinja2", "airflow_gym_provider.config.submit")


def imported(module):
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(module=module)], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout.splitlines()[-1])


def test_operators_import_next_to_nothing():
    runs = [imported("airflow_gym_provider.operators.gym") for _ in range(3)]
    names = runs[0][1]
    assert [name for name in names if name.startswith(HEAVY)] == []
    assert sum(name.startswith("airflow_gym_provider") for name in names) < 16
    assert min(seconds for seconds, _ in runs) < 0.05


def test_the_sensor_as_well():
    assert [name for name in imported("airflow_gym_provider.sensors.slurm")[1] if name.startswith(HEAVY)] == []
