"""`airflow gym submit`, `status` and `cancel`, on a stand-in for Slurm on this machine."""

import json
import re
import shutil
import time
from types import SimpleNamespace

import pytest

from airflow_gym_provider._cli import status, watch

REFUSAL = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"


@pytest.fixture
def queued(gym, config, out, slurm):
    """A run of both benchmarks, queued as jobs 101 and 102."""
    done = gym("submit", config, "--name", "tonight", "--json")
    assert done.status == 0, done.err
    return out / "tonight"


def rollouts(folder, done, expected):
    """What gym would have left so far."""
    artifacts = folder / "gpqa" / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    (artifacts / "rollouts_materialized_inputs.jsonl").write_text("{}\n" * expected)
    (artifacts / "rollouts.jsonl").write_text("{}\n" * done)


def state(done, benchmark="gpqa"):
    return next(row for row in done.json["benchmarks"] if row["benchmark"] == benchmark)


def test_everything_is_queued_and_the_record_shown(gym, config, out, slurm):
    done = gym("submit", config, "--name", "tonight", "--json")
    assert done.status == 0
    assert done.json["run_dir"] == f"{out}/tonight"
    assert [entry["job_id"] for entry in done.json["benchmarks"]] == ["101", "102"]
    assert done.json["executor_metadata"] == {"submitter": "airflow gym submit"}
    assert json.loads((out / "tonight" / "gym-job.json").read_text())["gym_job_id"] == "tonight"
    assert "export HF_TOKEN=swordfish" in (out / "tonight" / "gpqa" / "job.sh").read_text()
    assert "swordfish" not in done.out + done.err


def test_the_same_name_is_queued_once(gym, config, slurm, queued):
    done = gym("submit", config, "--name", "tonight")
    assert done.status == 0
    assert "gpqa: is queued already, job 101" in done.err
    assert f"gpqa: job 101 in {queued}/gpqa" in done.out
    assert len(slurm.jobs) == 2


def test_without_a_name_each_is_a_new_run(gym, config, out, slurm):
    first, second = (gym("submit", config, "-b", "own", "--json").json["run_dir"] for _ in range(2))
    assert first != second
    assert re.fullmatch(rf"{re.escape(str(out))}/gym-job-\d{{8}}T\d{{6}}Z-[0-9a-f]{{6}}", first)


def test_what_sbatch_refuses(gym, config, slurm):
    text = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    slurm.plan("sbatch", {"rc": 1, "stderr": text}, always=True)
    done = gym("submit", config, "--name", "tonight", "--json")
    assert done.status == 1
    assert "compute.eos.account is 'acct'" in done.json["errors"]["gpqa"]
    assert set(done.json["errors"]) == {"gpqa", "own"}


def test_a_submission_that_was_killed_before_it_recorded_its_job_is_not_repeated_when_that_has_ended(
    gym, config, slurm, out
):
    words = ("submit", config, "-b", "gpqa", "--name", "tonight", "--json")
    assert gym(*words).status == 0
    folder = out / "tonight" / "gpqa"
    for name in (".gym_job_chain", ".gym_jobs", ".gym_record.json"):
        (folder / name).unlink()
    (folder / ".gym_intent").write_text(f"{int(time.time())} 0 x\n")
    slurm.set(101, state="COMPLETED")
    done = gym(*words)
    assert (done.status, [entry["job_id"] for entry in done.json["benchmarks"]]) == (0, ["101"])
    assert len(slurm.jobs) == 1


SECRET = 'canary-1f2e\nit\'s "canary-3d4c"\n'
SHOWN = {
    "validate": (0, ["validate"]),
    "validate, wrong": (1, ["validate", "compute.eos.walltime=${oc.env:CLI_TOKEN}"]),
    "validate, wrong in a line": (1, ["validate", "driver.container='a\\n${oc.env:CLI_TOKEN}'"]),
    "validate, without its prefix": (1, ["validate", "services.policy.env.HF_TOKEN='${oc.env:CLI_TOKEN}'"]),
    "validate, in an argument": (0, ["validate", "+driver.benchmarks.gpqa.run.key='${oc.env:CLI_TOKEN}'"]),
    "render": (0, ["render"]),
    "submit": (0, ["submit", "-b", "own"]),
    "submit, refused": (1, ["submit", "+compute.eos.forward_env=[CLI_TOKEN]", "-b", "gpqa"]),
}


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("what", SHOWN)
def test_no_command_shows_a_secret_whatever_becomes_of_it(gym, config, slurm, out, monkeypatch, what, form):
    monkeypatch.setenv("CLI_TOKEN", SECRET)
    status, (command, *words) = SHOWN[what]
    if status:
        text = f"sbatch: error: Batch job submission failed: Invalid account {SECRET!r} canary-1f2e"
        slurm.plan("sbatch", {"rc": 1, "stderr": text}, always=True)
    done = gym(command, config, *words, *(["--name", "tonight"] if command == "submit" else []), *form)
    assert done.status == status, done.err
    told = done.out + done.err
    if command == "submit":
        told += gym("status", out / "tonight", *form).out
    assert "canary" not in told


def test_somebody_elses_directory(gym, config, out, slurm):
    (out / "tonight").mkdir(parents=True)
    (out / "tonight" / "thesis.tex").touch()
    done = gym("submit", config, "--name", "tonight")
    assert done.status == 1
    assert "tonight" in done.err
    assert not slurm.jobs


def test_a_config_that_is_wrong_touches_nothing(gym, config, out, slurm):
    assert gym("submit", config, "compute.eos.walltime=soon").status == 1
    assert not out.exists()


def test_a_cluster_that_cannot_be_reached(gym, config, monkeypatch):
    extra = {"conn_timeout": 5}
    monkeypatch.setenv("AIRFLOW_CONN_EOS", json.dumps({"conn_type": "slurm", "host": "", "extra": extra}))
    done = gym("status", "/scratch/run", "--conn-id", "eos")
    assert done.status == 2
    assert "Connection 'eos' has no host" in done.err


def test_a_run_that_goes_on(gym, slurm, queued):
    slurm.set(101, state="RUNNING", elapsed=42)
    rollouts(queued, 12, 20)
    done = gym("status", queued, "--json")
    assert done.status == 0
    assert done.json["owner"] == "airflow gym submit"
    found = state(done)
    assert (found["state"], found["rollouts_done"], found["rollouts_expected"]) == ("running", 12, 20)
    assert (found["walltime_used"], found["max_walltime"]) == (42, 12 * 3600)
    assert [job["job_id"] for job in found["jobs"]] == ["101"]
    assert state(done, "own")["state"] == "queued"


def test_a_line_for_each_benchmark_in_a_pipe(gym, slurm, queued):
    slurm.set(101, state="RUNNING", elapsed=42)
    rollouts(queued, 12, 20)
    first, second = gym("status", queued).out.splitlines()
    head = "gpqa  running  job 101 RUNNING  rollouts 12 of 20  walltime 00:00:42 of 12:00:00  "
    assert first.startswith(head)
    assert second.startswith("own  queued  job 102 PENDING  rollouts none yet  ")


def test_a_bar_on_a_terminal(gym, slurm, queued):
    from rich.console import Console

    from airflow_gym_provider._cli.table import table

    slurm.set(101, state="RUNNING", elapsed=42)
    rollouts(queued, 10, 20)
    console = Console(width=100, force_terminal=True, record=True)
    console.print(table(gym("status", queued, "--json").json["benchmarks"]))
    text = console.export_text()
    assert re.search(r"gpqa +running +101 RUNNING +00:00:42 of 12:00:00 +10 of 20 +━{8}", text)
    assert "gpqa: job 101 is RUNNING" in text


def test_a_benchmarks_directory_names_that_benchmark(gym, slurm, queued):
    done = gym("status", queued / "own", "--json")
    assert [row["benchmark"] for row in done.json["benchmarks"]] == ["own"]
    assert gym("status", queued, "-b", "none").status == 1


def test_a_chain_that_nobody_resumes_is_a_problem(gym, slurm, queued):
    slurm.set(101, state="TIMEOUT", exit="0:15", elapsed=14400)
    done = gym("status", queued, "--json")
    assert done.status == 1
    assert state(done)["state"] == "ended"
    assert "TIMEOUT" in state(done)["reason"]


def test_a_failure_is_a_problem(gym, slurm, queued):
    slurm.set(102, state="FAILED", exit="1:0", elapsed=3)
    done = gym("status", queued, "-b", "own", "--json")
    assert (done.status, state(done, "own")["state"]) == (1, "stopped")


def test_what_is_complete_is_no_problem(gym, slurm, queued):
    slurm.set(102, state="COMPLETED", elapsed=3)
    done = gym("status", queued, "-b", "own", "--json")
    assert (done.status, state(done, "own")["state"]) == (0, "complete")


def finished(folder, lines, expected=100):
    """Results of gpqa that are complete by their lines."""
    rollouts(folder, 0, expected)
    (folder / "gpqa" / "artifacts" / "rollouts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    metrics = [{"agent_ref": {"name": "a"}, "key_metrics": {"mean/reward": 1.0}}]
    (folder / "gpqa" / "artifacts" / "rollouts_aggregate_metrics.json").write_text(json.dumps(metrics))


def rollout(task):
    return json.dumps({"_ng_task_index": task, "_ng_rollout_index": 0, "reward": 1.0, "agent_ref": {"name": "a"}})


HALF = [*(rollout(at % 50) for at in range(99)), "not json"]


def test_lines_that_are_no_rollouts_complete_nothing(gym, slurm, queued):
    slurm.set(101, state="COMPLETED", elapsed=60)
    finished(queued, HALF)
    done = gym("status", queued, "-b", "gpqa", "--json")
    assert (done.status, done.json["ok"]) == (1, False)
    found = state(done)
    assert (found["state"], found["rollouts_done"], found["rollouts_expected"]) == ("stopped", 50, 100)
    assert found["reason"].endswith("rollouts.jsonl: 49 lines are there twice, 1 lines are no JSON; chain stopped")
    finished(queued, map(rollout, range(100)))
    done = gym("status", queued, "-b", "gpqa", "--json")
    assert (done.status, state(done)["state"], state(done)["rollouts_done"]) == (0, "complete", 100)


def test_a_partial_result_is_complete_with_as_many_rollouts_as_there_are(gym, config, slurm, out):
    partial = "+driver.benchmarks.gpqa.run.require_complete=false"
    assert gym("submit", config, partial, "-b", "gpqa", "--name", "tonight").status == 0
    slurm.set(101, state="COMPLETED", elapsed=60)
    finished(out / "tonight", HALF)
    done = gym("status", out / "tonight", "--json")
    assert (done.status, state(done)["state"], state(done)["rollouts_done"]) == (0, "complete", 50)
    assert "50 of 100 rollouts" in state(done)["reason"] and "a partial result" in state(done)["reason"]


def test_rollouts_of_a_command_of_ones_own_are_counted_too(gym, slurm, queued):
    slurm.set(102, state="COMPLETED", elapsed=60)
    finished(queued, HALF)
    (queued / "own").mkdir(exist_ok=True)
    (queued / "gpqa" / "artifacts").rename(queued / "own" / "artifacts")
    done = gym("status", queued, "-b", "own", "--json")
    assert (done.status, state(done, "own")["state"], state(done, "own")["rollouts_done"]) == (0, "complete", 50)


def test_rollouts_that_cannot_be_read_say_nothing_about_them(gym, slurm, queued):
    slurm.set(101, state="COMPLETED", elapsed=60)
    finished(queued, map(rollout, range(100)))
    (slurm.root / "bin" / "sort").write_text("#!/bin/sh\nexit 2\n")
    (slurm.root / "bin" / "sort").chmod(0o755)
    done = gym("status", queued, "-b", "gpqa", "--json")
    assert (done.status, state(done)["state"]) == (0, "unknown")
    assert "the rollouts could not be read" in state(done)["reason"]


def test_a_benchmark_that_was_refused_is_a_problem_of_a_shells_run(gym, config, slurm, out):
    slurm.plan("sbatch", {"rc": 1, "stderr": REFUSAL})
    assert gym("submit", config, "--name", "tonight").status == 1
    done = gym("status", out / "tonight", "--json")
    assert (done.status, done.json["ok"]) == (1, False)
    assert sorted(row["state"] for row in done.json["benchmarks"]) == ["new", "queued"]


@pytest.fixture
def night(monkeypatch):
    """A clock that only `--watch` moves, and what happens at each of its pauses, in turn; at the last one for ever."""
    made = SimpleNamespace(now=1000.0, pauses=0, happens=[])

    def sleep(seconds):
        made.now += seconds
        made.pauses += 1
        assert made.pauses < 30, "it waits for ever"
        if made.happens:
            made.happens.pop(0)()

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: made.now)
    monkeypatch.setattr(status, "time", clock)
    monkeypatch.setattr(watch, "time", clock)
    return made


def of_a_dag(folder):
    owner = json.loads((folder / ".gym_owner").read_text()) | {"dag_id": "nightly"}
    (folder / ".gym_owner").write_text(json.dumps(owner, sort_keys=True) + "\n")


def test_a_watch_is_well_when_every_benchmark_is_complete(gym, slurm, queued, night, monkeypatch):
    """And reads rollouts once, however long the others take."""
    read, summary_body = [], watch.summary_body
    monkeypatch.setattr(watch, "summary_body", lambda *args: read.append(args) or summary_body(*args))
    slurm.set(101, state="COMPLETED", elapsed=60)
    finished(queued, map(rollout, range(100)))
    night.happens = [lambda: None, lambda: slurm.set(102, state="COMPLETED", elapsed=3)]
    done = gym("status", queued, "--watch", "--json")
    assert (done.status, done.json["ok"], night.pauses) == (0, True, 2)
    assert len(read) == 1


def test_a_watch_of_which_one_benchmark_is_not_complete_is_not_well(gym, config, slurm, out, night):
    slurm.plan("sbatch", {"rc": 1, "stderr": REFUSAL})
    assert gym("submit", config, "--name", "tonight").status == 1
    night.happens = [lambda: slurm.set(101, state="COMPLETED", elapsed=60)]
    done = gym("status", out / "tonight", "--watch", "--json")
    assert (done.status, done.json["ok"]) == (1, False)
    assert "new" in [row["state"] for row in done.json["benchmarks"]]


def test_a_watch_of_what_was_refused_altogether_ends_at_once(gym, config, slurm, out, night):
    slurm.plan("sbatch", {"rc": 1, "stderr": REFUSAL}, always=True)
    assert gym("submit", config, "--name", "tonight").status == 1
    done = gym("status", out / "tonight", "--watch")
    assert (done.status, night.pauses) == (1, 0)


def test_a_watch_waits_between_two_jobs_of_a_dags_chain(gym, slurm, queued, night):
    of_a_dag(queued)
    slurm.set(101, state="TIMEOUT", exit="0:15", elapsed=14400)
    slurm.set(102, state="COMPLETED", elapsed=60)
    assert gym("status", queued).status == 0

    def goes_on():
        job_id = slurm.add(dir=str(queued / "gpqa"), state="COMPLETED", elapsed=60)
        with (queued / "gpqa" / ".gym_job_chain").open("a") as chain:
            chain.write(f"{job_id}\n")
        finished(queued, map(rollout, range(100)))

    night.happens = [lambda: None, goes_on]
    done = gym("status", queued, "--watch", "--json")
    assert (done.status, night.pauses, state(done)["state"]) == (0, 2, "complete")


def test_a_watch_does_not_wait_for_ever_for_a_dag_that_does_not_go_on(gym, slurm, queued, night):
    of_a_dag(queued)
    slurm.set(101, state="TIMEOUT", exit="0:15", elapsed=14400)
    slurm.set(102, state="COMPLETED", elapsed=60)
    night.now, night.happens = 0.0, [lambda: setattr(night, "now", 3590.0)]
    done = gym("status", queued, "--watch", "--json")
    assert (done.status, night.pauses, state(done)["state"]) == (1, 3, "resumable")
    assert "no task in Airflow has gone on for 60 minutes: look there" in done.err


def test_a_watch_does_not_wait_for_ever_for_a_job_that_nobody_knows(gym, slurm, queued, night):
    slurm.set(101, squeue=False, sacct=False)
    slurm.set(102, state="COMPLETED", elapsed=60)
    done = gym("status", queued, "--watch", "--json")
    assert (done.status, state(done)["state"]) == (1, "ended")
    assert 60 / 5 <= night.pauses <= 60 / 5 + 1
    assert state(gym("status", queued, "--json"))["state"] == "unknown", "one look knows nothing of the time before"


@pytest.mark.parametrize("target", ["/no/such/run", "/tmp"])
def test_no_run_of_ours(gym, slurm, target):
    done = gym("status", target)
    assert done.status == 1
    assert f"{target} on this machine is not there, or no run directory of ours" in done.err


def test_neither_an_id_nor_a_path(gym, slurm):
    assert gym("status", "gpqa").status == 2


TARGETS = [
    "12; touch pwned",
    "12;-M",
    "12;$(touch pwned)",
    "1,2",
    "1_[0-3]",
    "9" * 30,
    "٣",
    "7\n",
    "`touch pwned`",
    "../x",
]
TARGETS += ["/x\ny", "/a'$(touch pwned)\"", "/\udce9", "/" + "x" * 5000, "/@@0 end", "//", "/\x1b[31m"]


@pytest.mark.parametrize("command", ["status", "cancel"])
def test_whatever_is_given_for_a_run_is_looked_for_and_no_more(gym, slurm, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    for target in TARGETS:
        done = gym(command, target)
        assert done.status in (1, 2) and "Traceback" not in done.err, target
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.out + done.err)
        assert done.err.strip()
    assert {path.name for path in tmp_path.iterdir()} == before
    assert not slurm.calls("scancel") and not slurm.calls("sbatch")


def test_a_run_may_have_any_name_that_a_directory_can(gym, config, out, slurm):
    name = '-rf it\'s "my" $(touch pwned) `id` ; # é世 *? \\ %j ~'
    done = gym("submit", config, "-b", "own", f"--name={name}", "--json")
    assert (done.status, done.json["run_dir"]) == (0, f"{out}/{name}")
    assert [path.name for path in out.iterdir()] == [name]
    assert gym("status", f"{out}/{name}", "--json").json["benchmarks"][0]["job_dir"] == f"{out}/{name}/own"
    assert gym("cancel", f"{out}/{name}", "--json").json["benchmarks"][0]["cancelled"] == ["101"]
    assert not list(out.rglob("pwned"))


@pytest.mark.parametrize(("name", "told"), [("a\nb", "line break"), ("a:b", "colon"), ("${x", "interpolation")])
def test_a_run_whose_directory_could_not_be_used_is_refused(gym, config, out, slurm, name, told):
    done = gym("submit", config, f"--name={name}")
    assert done.status in (1, 2) and told in done.err
    assert not out.exists() and not slurm.calls("sbatch")


def test_cancel_ends_what_lives_and_says_what_had_ended(gym, slurm, queued):
    slurm.set(102, state="COMPLETED", elapsed=3)
    done = gym("cancel", queued)
    assert done.status == 0
    assert done.out == "gpqa: cancelled job 101\nown: job 102 had already ended\n"
    assert not slurm.live
    assert "by hand: airflow gym cancel by " in (queued / "gpqa" / ".gym_cancelled").read_text()
    assert not (queued / "own" / ".gym_cancelled").exists()
    found = gym("status", queued, "--json")
    assert state(found)["state"] == "stopped"
    assert "by hand" in state(found)["reason"]


def test_a_job_that_only_lies_in_our_directory_is_not_ours_to_cancel(gym, slurm, queued):
    """Somebody who tries something by hand in a benchmark's directory has asked for that job, not for ours."""
    stranger = slurm.add(name="interactive", dir=str(queued / "gpqa"), state="RUNNING", user="me")
    done = gym("cancel", stranger, "--json")
    assert (done.status, done.json["error"]) == (
        1,
        f"job {stranger} is in a run's directory, but none of ours: end it with scancel",
    )
    assert sorted(slurm.live) == [101, 102, stranger]
    assert gym("cancel", 101).status == 0
    assert sorted(slurm.live) == [102, stranger]
    assert [call["argv"] for call in slurm.calls("squeue") if "--all" not in call["argv"]] == []


def test_a_directory_that_names_our_job_cannot_cancel_it(gym, slurm, queued, tmp_path):
    """Made by somebody else, with an owner and a chain as ours have them: the job's own directory decides."""
    theirs = tmp_path / "theirs"
    shutil.copytree(queued, theirs)
    owner = json.loads((queued / ".gym_owner").read_text()) | {"run_id": str(theirs)}
    (theirs / ".gym_owner").write_text(json.dumps(owner, sort_keys=True) + "\n")
    done = gym("cancel", theirs, "--json")
    assert (state(done)["cancelled"], state(done, "own")["cancelled"]) == ([], [])
    assert sorted(slurm.live) == [101, 102]


@pytest.mark.parametrize("command", ["status", "cancel"])
@pytest.mark.parametrize("owner", ["[1]", "nonsense", "", '{"dag_id": "x"}', "5", "null"])
def test_an_owner_that_is_none_is_a_problem(gym, slurm, tmp_path, command, owner):
    (tmp_path / ".gym_owner").write_text(owner)
    done = gym(command, tmp_path, "--json")
    assert (done.status, done.json["ok"]) == (1, False)
    assert "cannot be read" in done.json["error"]


@pytest.mark.parametrize("name", ["../gpqa", "a b", "", "/etc"])
def test_a_record_with_names_that_are_none_is_a_problem(gym, slurm, queued, name):
    record = json.loads((queued / "gym-job.json").read_text())
    record["benchmarks"][0]["benchmark"] = name
    (queued / "gym-job.json").write_text(json.dumps(record))
    for command in ("status", "cancel"):
        done = gym(command, queued, "--json")
        assert (done.status, done.json["ok"]) == (1, False)
    assert sorted(slurm.live) == [101, 102]


def test_cancel_of_one(gym, slurm, queued):
    done = gym("cancel", queued / "own", "--json")
    assert done.status == 0
    assert state(done, "own")["cancelled"] == ["102"]
    assert slurm.live == [101]


def test_cancel_between_two_jobs_of_a_dags_chain_says_who_goes_on(gym, slurm, queued):
    owner = json.loads((queued / ".gym_owner").read_text()) | {"dag_id": "nightly"}
    (queued / ".gym_owner").write_text(json.dumps(owner, sort_keys=True) + "\n")
    slurm.set(101, state="TIMEOUT", exit="0:15", elapsed=14400)
    done = gym("cancel", queued, "-b", "gpqa")
    told = "its task in Airflow goes on with another, if it has not been marked: mark that"
    assert done.out == f"gpqa: job 101 had already ended; {told}\n"
    [row] = gym("status", queued, "-b", "gpqa", "--json").json["benchmarks"]
    assert row["state"] == "resumable"
    assert row["reason"].endswith("; its task in Airflow goes on, if it has not been marked")
