"""Where files cannot be written nothing half-written is used, and the text says where and why."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.chains import Chains

from airflow_gym_provider.chain import ChainError, OutcomeKind, StagedFile, read_look, read_submit, submit_script

FULL = "No space left on device"


def broken(chains: Chains, tool: str, when: str, instead: str) -> None:
    """`tool` does `instead` whenever its last argument, or where its output goes, ends in `when`."""
    real = f"/usr/bin/{tool}" if Path(f"/usr/bin/{tool}").exists() else f"/bin/{tool}"
    command = chains.slurm.root / "bin" / tool
    command.write_text(
        f'#!/bin/bash\ntarget="${{@: -1}} $(readlink /proc/$$/fd/1)"\n'
        f'case $target in *{when}*) {instead} ;; *) exec {real} "$@" ;; esac\n'
    )
    command.chmod(0o755)


def only(report):
    (outcome,) = report.outcomes.values()
    return outcome


@pytest.mark.parametrize(
    ("tool", "instead"),
    [
        ("base64", f'head -c 9; echo "base64: write error: {FULL}" >&2; exit 1'),
        ("base64", "head -c 9; exit 0"),
        ("base64", f'echo "{FULL}" >&2; exit 1'),
        ("mv", f'echo "mv: {FULL}" >&2; exit 1'),
    ],
)
def test_a_job_script_that_is_not_whole_is_never_submitted(chains, slurm, tool, instead):
    broken(chains, tool, "job.sh", instead)
    outcome = only(chains.submit())
    assert outcome.kind is OutcomeKind.FAILED
    assert FULL in outcome.text or "not what was sent" in outcome.text
    assert not slurm.calls("sbatch")
    assert not list(chains.directory().glob("*job.sh*"))
    (slurm.root / "bin" / tool).unlink()
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED


def test_a_write_that_really_fails_half_way_leaves_nothing(chains, slurm):
    files = (StagedFile("job.sh", "#!/bin/bash\n" + "#" * 400_000, 0o600),)
    given = chains.submissions(files=files)
    script = submit_script(chains.files(), given, timing=chains.timing)
    limited = replace(script, text=f"ulimit -f 64\n{script.text}")
    outcome = only(read_submit(script, chains.run(limited), given))
    assert outcome.kind is OutcomeKind.FAILED
    assert not slurm.calls("sbatch")
    assert not list(chains.directory().glob("*job.sh*"))


def test_an_intent_that_cannot_be_written_stops_before_sbatch(chains, slurm):
    broken(chains, "mv", ".gym_intent", f'echo "{FULL}" >&2; exit 1')
    outcome = only(chains.submit())
    assert (outcome.kind, FULL in outcome.text) == (OutcomeKind.FAILED, True)
    assert not slurm.calls("sbatch")


@pytest.mark.parametrize("name", [".gym_job_chain", ".gym_jobs", ".gym_record.json", ".gym_infra_retries"])
def test_a_job_that_could_not_be_recorded_is_told_and_found_again(chains, slurm, name):
    broken(chains, "mv", name, f'echo "{FULL}" >&2; exit 1')
    outcome = only(chains.submit())
    assert (outcome.kind, outcome.job_id) == (OutcomeKind.SUBMITTED, "101")
    assert "could not be recorded" in outcome.text
    assert FULL in outcome.text
    look = chains.look()
    assert look.chains["gpqa"].found == ("101",)
    held = only(chains.submit(look))
    assert (held.kind, held.job_id) == (OutcomeKind.ADOPTED, "101"), "a live job is held, recorded or not"
    assert FULL in held.text
    (slurm.root / "bin" / "mv").unlink()
    assert only(chains.submit(look)).kind is OutcomeKind.ADOPTED
    assert chains.file(".gym_job_chain") == "101\n"
    assert len(slurm.jobs) == 1


def test_a_record_that_could_not_be_written_is_a_note_not_a_failure(chains, slurm):
    broken(chains, "mv", "gym-job.json", f'echo "{FULL}" >&2; exit 1')
    report = chains.submit()
    assert only(report).kind is OutcomeKind.SUBMITTED
    assert FULL in report.notes[0]
    (slurm.root / "bin" / "mv").unlink()
    chains.look()
    assert chains.record()["benchmarks"][0]["job_id"] == "101"


@pytest.mark.parametrize("name", ["resolved-config.yaml", ".gym_record_template", ".gym_owner"])
def test_a_run_directory_that_cannot_be_written_is_an_error(chains, slurm, name):
    broken(chains, "mv", name, f'echo "{FULL}" >&2; exit 1')
    with pytest.raises(ChainError, match=FULL):
        chains.submit()
    assert not slurm.calls("sbatch")


def test_a_path_through_a_file_is_an_error(tmp_path, slurm):
    (tmp_path / "out").write_text("a file")
    chains = Chains(tmp_path / "out", slurm, "gpqa")
    with pytest.raises(ChainError, match=r"out.*(Not a directory|File exists)"):
        chains.submit()
    assert not chains.look().exists


def test_one_benchmarks_bad_directory_keeps_no_other_from_its_turn(tmp_path, slurm):
    chains = Chains(tmp_path / "out", slurm, "a", "b")
    chains.submit()
    for number in (101, 102):
        slurm.set(number, state="TIMEOUT")
    look = chains.look()
    (chains.directory("a") / ".gym_chain.lock").unlink()
    (chains.directory("a") / ".gym_chain.lock").mkdir()
    outcomes = chains.submit(look).outcomes
    assert outcomes["a"].kind is OutcomeKind.FAILED
    assert ".gym_chain.lock" in outcomes["a"].text
    assert outcomes["b"].job_id == "103"


def test_leftovers_of_a_killed_try_are_swept(chains):
    chains.submit()
    for folder in (chains.directory(), chains.directory().parent):
        (folder / ".gym_tmp.dead.job.sh").write_text("half")
    chains.submit(chains.look())
    assert not list(Path(chains.run_dir).rglob(".gym_tmp.*"))


def test_where_flock_does_not_work_a_lock_of_the_machine_does(chains, slurm):
    flock = chains.slurm.root / "bin" / "flock"
    flock.write_text(
        '#!/bin/bash\nfor fd; do :; done\ncase $(readlink "/proc/$$/fd/$fd") in\n'
        '/tmp/.gym-lock-*) exec /usr/bin/flock "$@" ;;\n*) echo "Function not implemented" >&2; exit 71 ;;\nesac\n'
    )
    flock.chmod(0o755)
    assert only(chains.submit(chains.look())).kind is OutcomeKind.SUBMITTED
    flock.write_text("#!/bin/sh\nexit 71\n")
    outcome = only_failed(chains)
    assert "flock" in outcome


def only_failed(chains: Chains) -> str:
    try:
        outcome = only(chains.submit(chains.look()))
    except ChainError as error:
        return str(error)
    assert outcome.kind is OutcomeKind.FAILED
    return outcome.text


def test_an_squeue_that_says_nothing_has_not_said_that_there_is_no_job(chains, slurm):
    (slurm.root / "bin" / "squeue").write_text("#!/bin/sh\nexit 0\n")
    outcome = only(chains.submit())
    assert outcome.kind is OutcomeKind.UNKNOWN
    assert "header" in outcome.text
    assert not slurm.calls("sbatch")
    assert not chains.look().squeue_ok


def test_an_sacct_that_says_nothing_has_not_said_that_there_was_no_job(chains, slurm):
    slurm.plan("sbatch", {"rc": 1, "stderr": "Socket timed out on send/recv operation"})
    assert only(chains.submit()).kind is OutcomeKind.WAIT
    chains.age_intent(60)
    look = chains.look()
    (slurm.root / "bin" / "sacct").write_text("#!/bin/sh\nexit 0\n")
    assert only(chains.submit(look)).kind is OutcomeKind.WAIT
    assert len(slurm.calls("sbatch")) == 1


def test_what_a_killed_submission_left_is_cleared_by_a_look(chains, slurm):
    chains.submit()
    record = chains.record()
    for name in (".gym_tmp.aa.job.sh", ".gym_intent"):
        (chains.directory() / name).write_text("1 0 aa\n")
    Path(chains.run_dir, ".gym_tmp.aa.gym-job.json").write_text("{")
    chains.look()
    assert not list(Path(chains.run_dir).rglob(".gym_tmp.*"))
    assert not (chains.directory() / ".gym_intent").exists()
    assert chains.record() == record


def test_what_a_submission_at_work_needs_is_left_to_it(chains, slurm):
    chains.submit()
    left = [chains.directory() / ".gym_tmp.aa.job.sh", chains.directory() / ".gym_intent"]
    for path in left:
        path.write_text("1 0 aa\n")
    command = ["flock", str(chains.directory() / ".gym_chain.lock"), "sleep", "30"]
    with subprocess.Popen(command, start_new_session=True) as holder:
        time.sleep(0.3)
        chains.look()
        os.killpg(holder.pid, signal.SIGKILL)
    assert all(path.exists() for path in left)


@pytest.mark.parametrize(
    ("folder", "name"), [("run", ".gym_turn.lock"), ("job", ".gym_sbatch.lock"), ("job", ".gym_sbatch.err")]
)
def test_what_sbatch_would_need_and_cannot_have_stops_before_the_intent(chains, slurm, folder, name):
    chains.submit()
    slurm.set(101, state="TIMEOUT")
    path = (Path(chains.run_dir) if folder == "run" else chains.directory()) / name
    path.unlink(missing_ok=True)
    path.mkdir()
    look = chains.look()
    outcome = only(chains.submit(look))
    assert (outcome.kind, name in outcome.text) == (OutcomeKind.FAILED, True)
    assert "Something there is no folder" in outcome.text
    assert len(slurm.calls("sbatch")) == 1
    assert not (chains.directory() / ".gym_intent").exists(), "the next try need not wait for a job"
    path.rmdir()
    assert only(chains.submit(look)).kind is OutcomeKind.SUBMITTED


@pytest.mark.parametrize("length", [10, 400_000])
def test_a_quota_that_is_used_up_is_told_with_its_cure(chains, slurm, length):
    """Also when the pipe that is left unread would be told last, as it is of a long file."""
    broken(chains, "base64", "job.sh", 'echo "base64: write error: Disk quota exceeded" >&2; exit 1')
    outcome = only(chains.submit(changes={"files": (StagedFile("job.sh", "#!/bin/bash\n" + "#" * length, 0o600),)}))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.text.startswith(f"{chains.directory()}/job.sh cannot be written: Disk quota exceeded. The account's")


def test_a_look_says_when_nothing_can_be_written_any_more(chains):
    chains.submit()
    assert chains.look(writing=True).chains["gpqa"].unwritable == ""
    assert not list(chains.directory().glob(".gym_tmp*"))
    script = chains.look_script(writing=True)
    limited = replace(script, text=f"trap '' XFSZ; ulimit -f 0\n{script.text}")
    look = read_look(script, chains.run(limited), chains.places, chains.timing)
    assert look.chains["gpqa"].unwritable.startswith(f"{chains.directory()} cannot be written: File too large")
    assert chains.look().chains["gpqa"].unwritable == "", "who did not ask is told nothing"
