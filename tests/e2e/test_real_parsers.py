"""What job scripts start, held against the parsers of the real vLLM, Ray and vllm-router. Nothing is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_parts import DAGS, home, install
from stack import REPO

sys.path.insert(0, str(REPO / "tests" / "unit"))

from jobscript.golden import ENVIRON, FOLDER, names
from jobscript.stage import Job, play

from airflow_gym_provider.config import load_submit_config

# That the examples leave GPUs idle is not what this is about.
pytestmark = [
    pytest.mark.real_stack,
    pytest.mark.filterwarnings("ignore:services:airflow_gym_provider.config.SubmitConfigWarning"),
]


@pytest.fixture(scope="session")
def pythons() -> dict[str, Path]:
    """Program to the Python of the environment that it is installed in."""
    install("real_stack")
    install("real_router_ray")
    stack, both = (home() / name / "venv" / "bin" / "python" for name in ("real-stack", "real-router-ray"))
    return {"vllm": stack, "vllm-router": both, "ray": both}


def refusals(python: Path, lines: list[list[str]]) -> dict[str, str]:
    """The command lines that the real parser refuses, and why."""
    program = [python, DAGS / "accepts.py"]
    given = json.dumps(lines)
    done = subprocess.run(program, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    reasons = json.loads(done.stdout.splitlines()[-1])
    return {" ".join(line): reason for line, reason in zip(lines, reasons, strict=True) if reason}


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """Program to every command line of it in the job scripts of all golden configs, with a new Ray and an old one."""
    found: dict[str, list[list[str]]] = {"vllm": [], "vllm-router": [], "ray": []}
    for name in names():
        config = load_submit_config(FOLDER / f"{name}.yaml", environ=ENVIRON)
        (benchmark,) = config.driver.benchmarks
        for symmetric in (True, False):
            job = Job(config, benchmark, environ={"OTEL_TOKEN": "t"}, symmetric=symmetric)
            for call in play(job, tmp_path_factory.mktemp("played")).calls:
                if call.program in found:
                    found[call.program].append([call.program, *call.argv])
    return found


@pytest.mark.parametrize(("program", "at_least"), [("vllm", 10), ("ray", 6), ("vllm-router", 2)])
def test_the_real_program_accepts_what_job_scripts_start(pythons, started, program: str, at_least: int):
    assert len(started[program]) >= at_least
    assert refusals(pythons[program], started[program]) == {}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("vllm", "serve org/model --tensor-paralel-width 2"),
        ("vllm", "serve org/model --data-parallel-size two"),
        ("ray", "start --head --portt=1"),
        ("ray", "symmetric-run --address a:1 --port 3 -- true"),
        ("vllm-router", "--prefil http://a:1"),
    ],
)
def test_the_real_program_refuses_mistakes(pythons, program: str, words: str):
    assert refusals(pythons[program], [[program, *words.split()]])
