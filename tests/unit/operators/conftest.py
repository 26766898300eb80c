"""A task instance, a config, and clusters to run it on."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.chain_task import cluster, task
from fakes.filled_in import load
from fakes.slurm_standin import Standin
from fakes.task_context import context, submit_config

__all__ = ["cluster", "context", "load", "slurm", "submit_config", "task"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """A stand-in Slurm on this machine, whose programs come first on PATH."""
    made = Standin(tmp_path / "slurm")
    for name in ("PATH", "STANDIN"):
        monkeypatch.setenv(name, made.environ[name])
    return made
