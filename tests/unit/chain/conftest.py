"""A chain on a stand-in cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.chains import Chains
from fakes.slurm_standin import Standin


@pytest.fixture
def slurm(tmp_path: Path) -> Standin:
    return Standin(tmp_path / "slurm")


@pytest.fixture
def chains(tmp_path: Path, slurm: Standin) -> Chains:
    return Chains(tmp_path / "out", slurm, "gpqa")
