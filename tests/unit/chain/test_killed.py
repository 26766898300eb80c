"""Whatever dies, and wherever: afterwards there is one live job, recorded, and nothing was run twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes.chains import Chains
from fakes.killing import a_submission, recover, start, traced
from fakes.slurm_standin import Standin

from airflow_gym_provider.chain import Action, OutcomeKind, submit_script
from airflow_gym_provider.slurm.remote import RemoteScript


def assert_one_recorded_job(chains: Chains) -> None:
    assert len(chains.slurm.live) == 1
    assert chains.file(".gym_job_chain").split() == [str(job["id"]) for job in chains.slurm.jobs]
    chains.look()  # heals a record that was left behind
    assert chains.record()["benchmarks"][0]["job_id"] == str(chains.slurm.live[0])
    assert chains.file("job.sh").endswith("true\n")


def lines_of_a_submission(tmp_path: Path, chains: Chains) -> list[str]:
    log = tmp_path / "lines"
    start(chains, traced(a_submission(chains)), KILL_LOG=str(log)).wait(60)
    assert_one_recorded_job(chains)
    return list(dict.fromkeys(log.read_text().split()))


def kill_at_each(tmp_path: Path, lines: list[str], prefixes: list[str]) -> None:
    for number, line in enumerate(lines):
        root, prefix = tmp_path / line, prefixes[number % len(prefixes)]
        chains = Chains(root / "out", Standin(root / "slurm"), "gpqa")
        process = start(chains, traced(a_submission(chains)), KILL_AT=line, KILL_PREFIX=prefix)
        assert process.wait(60) == -signal.SIGKILL, f"line {line} was not reached"
        assert len(chains.slurm.live) <= 1
        recover(chains)
        assert_one_recorded_job(chains)


def test_a_kill_anywhere_leaves_one_job_at_most_and_none_lost(tmp_path, chains):
    lines = lines_of_a_submission(tmp_path, chains)
    assert len(lines) > 80
    # Some lines; over the real Slurm (tests/integration) every one. The shell alone, or all of its children too.
    kill_at_each(tmp_path, lines[len(lines) // 3 :: 9], ["", "-"])


def test_an_sbatch_that_outlives_its_shell_is_waited_for(chains, slurm):
    slurm.plan("sbatch", late=3)
    process = start(chains, a_submission(chains))
    intent = chains.directory() / ".gym_intent"
    while not intent.exists():
        time.sleep(0.02)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert not slurm.jobs
    chains.age_intent(600)
    look = chains.look()
    assert chains.decisions(look)["gpqa"].action is Action.WAIT
    (outcome,) = chains.submit(look).outcomes.values()
    assert outcome.kind is OutcomeKind.WAIT
    while not slurm.jobs:
        time.sleep(0.05)
    recover(chains)
    assert_one_recorded_job(chains)


def test_a_dead_lock_holder_holds_nothing(chains, slurm):
    slurm.plan("squeue", late=2)
    process = start(chains, a_submission(chains))
    while not (chains.directory() / ".gym_chain.lock").exists():
        time.sleep(0.02)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGKILL)
    slurm.plan("squeue")
    chains.timing = type(chains.timing)(lock=1, sbatch=5, query=5, quiet=30)
    (outcome,) = chains.submit().outcomes.values()
    assert outcome.kind is OutcomeKind.SUBMITTED


def test_a_lock_that_is_held_is_waited_for_and_then_said(chains):
    chains.submit()
    chains.timing = type(chains.timing)(lock=1, sbatch=5, query=5, quiet=30)
    with subprocess.Popen(
        ["flock", str(chains.directory() / ".gym_chain.lock"), "sleep", "30"], start_new_session=True
    ) as holder:
        time.sleep(0.3)
        (outcome,) = chains.submit().outcomes.values()
        os.killpg(holder.pid, signal.SIGKILL)
    assert outcome.kind is OutcomeKind.BUSY
    assert "lock" in outcome.text


@pytest.mark.parametrize("sign", [signal.SIGHUP, signal.SIGPIPE])
def test_a_cut_connection_still_records(chains, slurm, sign):
    slurm.plan("sbatch", late=1)
    process = start(chains, a_submission(chains))
    intent = chains.directory() / ".gym_intent"
    while not intent.exists():
        time.sleep(0.02)
    process.stdout.close()
    process.stderr.close()
    os.kill(process.pid, sign)
    process.wait(20)
    assert chains.file(".gym_job_chain") == "101\n"
    assert_one_recorded_job(chains)


def test_a_script_that_arrives_half_runs_nothing(chains, slurm):
    script = a_submission(chains)
    for share in (0.2, 0.5, 0.9, 0.999):
        half = RemoteScript(script.text[: int(len(script.text) * share)], script.nonce)
        assert chains.run(half).returncode != 0
    assert not Path(chains.run_dir).exists()
    assert not slurm.calls("sbatch")


def test_a_cancel_during_a_submission_ends_the_new_job(chains, slurm):
    look = chains.look()
    slurm.plan("sbatch", late=2)
    process = start(chains, submit_script(chains.files(), chains.submissions(look), timing=chains.timing))
    intent = chains.directory() / ".gym_intent"
    while not intent.exists():
        time.sleep(0.02)
    report = chains.cancel("marked failed", quick=True)["gpqa"]
    assert report.text == "no job was found to cancel"
    out = process.stdout.read()
    assert b" cancelled 101" in out
    assert not slurm.live
    (mark, own) = chains.look().chains["gpqa"].marks
    assert (mark.jobs, own.jobs, own.why) == ((), ("101",), "marked failed")
