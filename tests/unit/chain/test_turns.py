"""Tasks of a run take turns with sbatch, also while slurmctld is slow; one that hangs keeps nobody for ever."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.chains import Chains, at_once

from airflow_gym_provider.chain import OutcomeKind
from airflow_gym_provider.jobscript import quote


def test_while_slurmctld_is_slow_those_who_wait_still_go_one_after_the_other(tmp_path, slurm):
    slurm.plan("sbatch", {"delay": 2}, always=True)
    single = [Chains(tmp_path / "out", slurm, name) for name in "abc"]
    for one in single:
        one.timing = replace(one.timing, lock=3)
    at_once([one.submit for one in single])
    times = sorted(call["time"] for call in slurm.calls("sbatch"))
    assert len(times) == 3
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("lock", [0, 1])
def test_where_one_hangs_that_has_the_turn_the_others_go_all_the_same(tmp_path, slurm, lock):
    chains = Chains(tmp_path / "out", slurm, "a", "b")
    chains.timing = replace(chains.timing, lock=lock)
    (slurm.root / "bin" / "flock").write_text(
        f'#!/bin/bash\necho "$*" >>{quote(str(tmp_path / "waits"))}\nexec {shutil.which("flock")} "$@"\n'
    )
    (slurm.root / "bin" / "flock").chmod(0o755)
    Path(chains.run_dir).mkdir(parents=True, mode=0o755)
    command = ["flock", f"{chains.run_dir}/.gym_turn.lock", "sleep", "60"]
    with subprocess.Popen(command, start_new_session=True) as hanging:
        while not Path(chains.run_dir, ".gym_turn.lock").exists():
            time.sleep(0.1)
        report = chains.submit()
        alive = hanging.poll() is None
        os.killpg(hanging.pid, signal.SIGKILL)
    assert alive
    assert {outcome.kind for outcome in report.outcomes.values()} == {OutcomeKind.SUBMITTED}
    assert len(slurm.calls("sbatch")) == 2
    words = [line.split() for line in (tmp_path / "waits").read_text().splitlines()]
    first, second = (int(seconds) for *_, seconds, descriptor in words if descriptor == "6")
    assert 3 * lock <= first <= 7 * lock
    assert lock <= second <= 2 * lock, "the patience of a script is used up once"
