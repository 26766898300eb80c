"""The command line in this process: Airflow's own parser, our commands, a stand-in for Slurm on PATH."""

import io
import json
import logging
import sys
from types import SimpleNamespace

import pytest
import structlog
from airflow.cli import cli_parser

from tests.fakes.slurm_standin import Standin

CONFIG = """\
services:
  policy: {{type: vllm, container: v/llm:1, model: org/model, env: {{HF_TOKEN: "host:CLI_TOKEN"}}}}
compute:
  eos:
    type: slurm
    account: acct
    walltime: "4:00:00"
    node_pools: {{gpu: {{partition: batch, nodes: 1, gpus_per_node: 1}}}}
driver:
  container: g/ym:1
  policy_model: policy
  benchmarks:
    gpqa: {{resumable: {{max_retries: 2, max_walltime: "12:00:00"}}, run: {{config_paths: [a.yaml]}}}}
    own: {{command: "true"}}
job: {{output_path: "{out}"}}
otel: {{enabled: false}}
"""


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def config(tmp_path, out, monkeypatch):
    """A config of two benchmarks that asks for one variable, which is set."""
    monkeypatch.setenv("CLI_TOKEN", "swordfish")
    path = tmp_path / "submit.yaml"
    path.write_text(CONFIG.format(out=out))
    return str(path)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    standin = Standin(tmp_path / "slurm")
    for name in ("PATH", "STANDIN"):
        monkeypatch.setenv(name, standin.environ[name])
    return standin


@pytest.fixture
def logging_of_its_own():
    """A command turns all logging towards its standard error, and its process ends with it. This one goes on."""
    ours, before = logging.getLogger("airflow_gym_provider"), structlog.get_config()
    handlers, level, propagate = ours.handlers, ours.level, ours.propagate
    streams = [(handler, handler.stream) for handler in logging.root.handlers if hasattr(handler, "stream")]
    for handler, stream in streams:
        if not isinstance(stream, io.StringIO):  # where pytest keeps what is logged
            handler.stream = sys.stdout  # as in a process of its own, not where an earlier test had it
    yield
    for handler, stream in streams:
        handler.stream = stream
    structlog.configure(**before)
    ours.handlers, ours.level, ours.propagate = handlers, level, propagate


@pytest.fixture
def gym(capfd, logging_of_its_own):
    """Run `airflow gym …`: its exit status, standard output and error, and the JSON when it was asked for."""
    parser = cli_parser.get_parser()

    def run(*words):
        capfd.readouterr()
        with pytest.raises(SystemExit) as caught:
            args = parser.parse_args(["gym", *map(str, words)])
            args.func(args)
        printed = capfd.readouterr()
        found = json.loads(printed.out) if "--json" in words and printed.out else None
        return SimpleNamespace(status=caught.value.code, out=printed.out, err=printed.err, json=found)

    return run
