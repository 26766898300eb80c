"""Jobs that were alive: what is asked by a real bash, and what the answer means. squeue and sacct are stand-ins."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm.accounting import SACCT_FIELDS
from airflow_gym_provider.slurm.alive import LiveRows, Told, alive_script, read_alive
from airflow_gym_provider.slurm.jobs import JobRef, JobStatus
from airflow_gym_provider.slurm.remote import Frame, Frames, RemoteScript
from airflow_gym_provider.slurm.states import Ending
from airflow_gym_provider.slurm.status import StatusReport
from airflow_gym_provider.slurm.tables import SEPARATOR

COLUMNS = ["JOBID", "STATE", "TIME_LIMIT", "START_TIME", "SUBMIT_TIME", "NODELIST", "REASON", "WORK_DIR"]
HEADER = SEPARATOR.join([*COLUMNS, "NAME", "JOBID"])
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
STRANGER = "squeue: error: Invalid user: 4711"
NO_DATABASE = "sacct: error: Problem talking to the database: Connection refused"
# Each argument is one line of `calls`; each call's longest line of arguments is remembered as well.
TOOL = """#!/bin/bash
echo "{tool} $TZ $*" >>"{folder}/calls"
case "$*" in
  *--jobs=*) name={tool}.ids ;;
  *) name={tool}.user ;;
esac
cat "{folder}/$name.err" >&2 2>/dev/null
cat "{folder}/$name" 2>/dev/null
exit "$(cat "{folder}/$name.rc" 2>/dev/null || echo 0)"
"""


def queued(job_id: str, state: str = "RUNNING", start: str = "N/A", folder: str = "/w", name: str = "x") -> str:
    return SEPARATOR.join([job_id, state, "1:00", start, "N/A", "n1", "None", folder, name, job_id])


def recorded(job_id: str, state: str) -> str:
    cells = {"JobID": job_id, "State": state, "ElapsedRaw": "7", "ExitCode": "0:0", "WorkDir": "/w"}
    return SEPARATOR.join(cells.get(name, "") for name in SACCT_FIELDS)


class LoginNode:
    """A folder whose squeue and sacct print what the test says, for `--user` and for `--jobs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tool in ("squeue", "sacct"):
            (folder / tool).write_text(TOOL.format(tool=tool, folder=folder))
            (folder / tool).chmod(0o755)

    def says(self, name: str, *rows: str, rc: int = 0, err: str = "") -> None:
        header = SEPARATOR.join(SACCT_FIELDS) if name.startswith("sacct") else HEADER
        (self.folder / name).write_text("".join(f"{row}\n" for row in (header, *rows)) if not rc else "")
        (self.folder / f"{name}.rc").write_text(str(rc))
        (self.folder / f"{name}.err").write_text(err)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def answer(self, refs: list[JobRef]) -> tuple[RemoteScript, str]:
        script = RemoteScript.build(alive_script(refs, Told()), slurm_bin=str(self.folder), needs=("squeue",))
        done = subprocess.run(["bash", "-s"], input=script.text, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return script, done.stdout

    def look(self, refs: list[JobRef], live: LiveRows, clock: float | None = None) -> StatusReport:
        """In a shell of its own, which knows nothing of earlier looks."""
        script, told = self.answer(refs)
        return read_alive(refs, script.frames(told), live, Told(), clock)


class Shell:
    """A real bash that stays."""

    def __init__(self, login: LoginNode) -> None:
        self.login = login
        self.live, self.told = LiveRows(), Told()
        self.sizes: list[int] = []
        self._bash = subprocess.Popen(
            ["bash", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def pid(self) -> int:
        return self._bash.pid

    def look(self, refs: list[JobRef]) -> tuple[StatusReport, Frames]:
        body = alive_script(refs, self.told)
        if self.sizes:
            script = RemoteScript.following(body)
        else:
            script = RemoteScript.build(body, slurm_bin=str(self.login.folder), needs=("squeue",), stays=True)
        self.sizes.append(len(script.text))
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(script.text)
        self._bash.stdin.flush()
        said = ""
        while f"@@{script.nonce} end" not in said:
            line = self._bash.stdout.readline()
            assert line, said
            said += line
        frames = script.frames(said)
        return read_alive(refs, frames, self.live, self.told), frames

    def end(self) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        assert self._bash.wait(10) == 0
        assert self._bash.stdout is not None
        self._bash.stdout.close()


@pytest.fixture
def login(tmp_path: Path) -> LoginNode:
    return LoginNode(tmp_path)


@pytest.fixture
def shell(login: LoginNode) -> Iterator[Shell]:
    made = Shell(login)
    yield made
    made.end()


REFS = [JobRef("7", job_dir="/w"), JobRef("8", job_dir="/w")]


def test_what_is_alive_costs_one_squeue_of_the_user_and_no_accounting(login: LoginNode) -> None:
    login.says("squeue.user", queued("7"), queued("8", "PENDING"), queued("9"))
    report = login.look(REFS, LiveRows())
    assert {key: (job.state, job.live, job.known) for key, job in report.jobs.items()} == {
        "7": ("RUNNING", True, True),
        "8": ("PENDING", True, True),
    }
    assert (report.squeue_ok, report.sacct_ok, report.problems) == (True, True, ())
    assert len(login.calls) == 1
    assert f"--user={os.geteuid()}" in login.calls[0]
    assert login.calls[0].startswith("squeue UTC0 ")
    assert "--jobs" not in login.calls[0]


def test_a_row_that_stays_is_not_read_again_but_its_job_grows_older(login: LoginNode) -> None:
    live = LiveRows()
    start = "1970-01-01T00:16:40"
    login.says("squeue.user", queued("7", start=start), queued("8", start=start), queued("9", "PENDING", start=start))
    refs = [*REFS, JobRef("9")]
    assert {key: job.elapsed for key, job in login.look(refs, live, 1005.0).jobs.items()} == {"7": 5, "8": 5, "9": 0}
    login.says("squeue.user", queued("7", start=start), queued("8", "COMPLETING", start=start), queued("9"))
    report = login.look(refs, live, 1060.0)
    assert {key: (job.state, job.elapsed) for key, job in report.jobs.items()} == {
        "8": ("COMPLETING", 60),
        "9": ("RUNNING", 0),
    }
    assert [live.now(key, 1070.0).elapsed for key in ("7", "8", "9")] == [70, 70, 0]
    assert live.now("7", 10.0).elapsed == 0  # a login node whose clock is behind


def test_a_shell_that_stays_says_that_all_is_the_same(login: LoginNode, shell: Shell) -> None:
    login.says("squeue.user", queued("7"), queued("8"), queued("9"))
    report, frames = shell.look(REFS)
    assert (set(report.jobs), [frame.name for frame in frames]) == ({"7", "8"}, ["queue", "queue.end"])
    for _ in range(3):
        report, frames = shell.look(REFS)
        assert (report.jobs, report.squeue_ok, [(frame.name, frame.args) for frame in frames]) == (
            {},
            True,
            [("same", ("0",))],
        )
    assert max(shell.sizes[1:]) < 200
    login.says("squeue.user", queued("7", "COMPLETING"), queued("8"), queued("9"))
    assert set(shell.look(REFS)[0].jobs) == {"7"}
    assert shell.look(REFS)[0].jobs == {}
    assert len(login.calls) == 6


def test_a_shell_that_stays_is_told_who_comes_and_goes(login: LoginNode, shell: Shell) -> None:
    login.says("squeue.user", queued("7"), queued("8"), queued("9"))
    login.says("squeue.ids")
    login.says("sacct.ids", recorded("8", "COMPLETED"))
    shell.look(REFS)
    report, frames = shell.look([REFS[0], JobRef("9")])
    assert set(report.jobs) == {"9"}
    assert "8" + SEPARATOR not in "".join(frame.text for frame in frames)
    login.says("squeue.user", queued("7"), queued("9"))
    assert shell.look([*REFS, JobRef("9")])[0].jobs["8"].ending is Ending.COMPLETED
    assert shell.look([REFS[0], JobRef("9")])[0].jobs == {}
    assert max(shell.sizes[1:]) < 300


@pytest.mark.parametrize("err", [DOWN, STRANGER])
def test_a_shell_that_stays_never_takes_trouble_for_the_same(login: LoginNode, shell: Shell, err: str) -> None:
    login.says("squeue.user", queued("7"), queued("8"))
    login.says("squeue.ids", queued("7"))
    login.says("sacct.ids", recorded("8", "RUNNING"))
    shell.look(REFS)
    login.says("squeue.user", rc=1, err=err)
    for _ in range(2):
        report, frames = shell.look(REFS)
        assert not frames.named("same")
        assert report.squeue_ok == (err == STRANGER)
        assert not any(job.ending for job in report.jobs.values())


def test_a_shell_that_stays_reads_thousands_of_rows_in_no_time(login: LoginNode, shell: Shell) -> None:
    """Patterns of bash that are tried at every character would take it a minute."""
    refs = [JobRef(str(number)) for number in range(1_000_000, 1_003_000)]
    login.says("squeue.user", *(queued(ref.job_id, folder="/a/long/way/to/some/folder") for ref in refs))
    assert len(shell.look(refs)[0].jobs) == 3000
    assert [frame.name for frame in shell.look(refs)[1]] == ["same"]
    login.says("squeue.user", *(queued(ref.job_id, folder="/a/long/way/to/some/folder") for ref in refs[1:]))
    login.says("squeue.ids")
    login.says("sacct.ids")
    assert set(shell.look(refs)[0].jobs) == {"1000000"}
    times = psutil.Process(shell.pid).cpu_times()
    assert times.user + times.system < 3


def test_a_job_that_stays_away_is_asked_for_each_time(login: LoginNode, shell: Shell) -> None:
    login.says("squeue.user", queued("7"))
    login.says("squeue.ids")
    login.says("sacct.ids")
    for _ in range(3):
        report, frames = shell.look(REFS)
        assert report.jobs["8"].missing
        assert [frame.text.strip() for frame in frames.named("asked")] == ["8"]


def test_what_is_gone_is_asked_for_by_its_id_in_the_same_round_trip(login: LoginNode) -> None:
    live = LiveRows()
    login.says("squeue.user", queued("7"), queued("8"))
    login.look(REFS, live)
    login.says("squeue.user", queued("7"))
    login.says("squeue.ids")
    login.says("sacct.ids", recorded("8", "COMPLETED"))
    report = login.look(REFS, live)
    assert {key: job.ending for key, job in report.jobs.items()} == {"8": Ending.COMPLETED}
    assert [call.split()[0] for call in login.calls] == ["squeue", "squeue", "squeue", "sacct"]
    assert all("--jobs=8 " in f"{call} " for call in login.calls[2:])
    assert "8" not in live.statuses


@pytest.mark.parametrize(("record", "ending"), [("COMPLETED", Ending.COMPLETED), ("PREEMPTED", None)])
def test_without_slurmctld_only_the_end_that_nothing_changes_is_believed(
    login: LoginNode, record: str, ending: Ending | None
) -> None:
    login.says("squeue.user", rc=1, err=DOWN)
    login.says("sacct.ids", recorded("7", record), recorded("8", "RUNNING"))
    report = login.look(REFS, LiveRows())
    assert (report.jobs["7"].ending, report.jobs["8"].ending) == (ending, None)
    assert report.jobs["8"].live
    assert not report.squeue_ok
    assert "Unable to contact" in report.problems[0]
    assert [call.split()[0] for call in login.calls] == ["squeue", "sacct"]  # slurmctld is not made to time out twice


def test_an_account_without_a_name_is_asked_for_by_ids(login: LoginNode) -> None:
    login.says("squeue.user", rc=1, err=STRANGER)
    login.says("squeue.ids", queued("7"), queued("8", "PENDING"))
    login.says("sacct.ids")
    report = login.look(REFS, LiveRows())
    assert {key: job.state for key, job in report.jobs.items()} == {"7": "RUNNING", "8": "PENDING"}
    assert (report.problems, report.squeue_ok) == ((), True)


def test_slurmdbd_away_matters_only_to_what_has_ended(login: LoginNode) -> None:
    login.says("squeue.user", queued("7"))
    login.says("squeue.ids")
    login.says("sacct.ids", rc=1, err=NO_DATABASE)
    report = login.look(REFS, LiveRows())
    assert (report.jobs["7"].known, report.jobs["8"].known) == (True, False)
    assert (report.jobs["8"].live, report.jobs["8"].missing) == (True, False)
    assert (report.squeue_ok, report.sacct_ok) == (True, False)


def test_neither_has_heard_of_it(login: LoginNode) -> None:
    login.says("squeue.user")
    login.says("squeue.ids")
    login.says("sacct.ids")
    assert all(job.missing for job in login.look(REFS, LiveRows()).jobs.values())


def test_another_ones_job_under_the_same_number_is_not_ours(login: LoginNode) -> None:
    live = LiveRows()
    login.says("squeue.user", queued("7", folder="/elsewhere"), queued("8"))
    report = login.look(REFS, live)
    assert (report.jobs["7"].known, report.jobs["7"].ending) == (False, None)
    assert set(live.statuses) == {"8"}


def test_names_with_line_breaks_and_rows_of_others_do_not_confuse(login: LoginNode) -> None:
    login.says(
        "squeue.user", queued("6", name=f"a\n8{SEPARATOR}FAILED"), queued("7", name="b\nc"), queued("8"), queued("70")
    )
    report = login.look(REFS, LiveRows())
    assert {key: job.state for key, job in report.jobs.items()} == {"7": "RUNNING", "8": "RUNNING"}
    assert len(login.calls) == 1


def test_all_parts_of_a_heterogeneous_job_count(login: LoginNode) -> None:
    login.says("squeue.user", queued("7+0", "COMPLETING"), queued("7+1"), queued("8"))
    live = LiveRows()
    assert login.look(REFS, live).jobs["7"].live
    assert login.look(REFS, live).jobs["7"].live
    assert len(login.calls) == 2


def test_no_command_is_longer_than_8_kb_however_many_jobs(login: LoginNode) -> None:
    refs = [JobRef(str(number)) for number in range(1_000_000_000, 1_000_003_000)]
    login.says("squeue.user")
    login.says("squeue.ids")
    login.says("sacct.ids")
    report = login.look(refs, LiveRows())
    assert sum(job.missing for job in report.jobs.values()) == 3000
    assert max(map(len, login.calls)) < 8192
    assert len(login.calls) == 1 + 2 * 6


def test_each_cluster_is_asked_by_itself(login: LoginNode) -> None:
    login.says("squeue.user", queued("7"))
    report = login.look([JobRef("7"), JobRef("7", "c2")], LiveRows())
    assert set(report.jobs) == {"7", "7;c2"}
    assert ["--clusters=c2" in call for call in login.calls] == [False, True]


def test_of_two_clusters_one_may_stay_the_same() -> None:
    refs = [JobRef("7"), JobRef("7", "c2")]
    told = Told()
    alive_script(refs, told)
    answer = [
        Frame("same", ("0",), ""),
        Frame("asked", ("0.0",), "7"),
        Frame("queue", ("1",), HEADER),
        Frame("queue.end", ("1", "0"), ""),
        Frame("squeue", ("1.0",), HEADER),
        Frame("squeue.end", ("1.0", "0"), ""),
        Frame("asked", ("1.0",), "7"),
        Frame("sacct", ("1.0",), f"{SEPARATOR.join(SACCT_FIELDS)}\n{recorded('7', 'TIMEOUT')}"),
        Frame("sacct.end", ("1.0", "0"), ""),
    ]
    report = read_alive(refs, Frames(answer), LiveRows(), told)
    assert {key: job.ending for key, job in report.jobs.items()} == {"7;c2": Ending.TIMEOUT}


def test_another_list_of_the_same_jobs_tells_a_shell_nothing_new() -> None:
    told = Told()
    assert "_gym_ids_0+=([7]=)" in alive_script([JobRef("7")], told)
    assert alive_script([JobRef("7")], told) == "_gym_look_0"


def test_what_was_asked_by_id_counts_more_than_the_users_queue_before_it() -> None:
    answer = [
        Frame("queue", ("0",), f"{HEADER}\n{queued('7')}\n{queued('9')}"),
        Frame("queue.end", ("0", "0"), ""),
        Frame("squeue", ("0.0",), HEADER),
        Frame("squeue.end", ("0.0", "0"), ""),
        Frame("asked", ("0.0",), "7"),
        Frame("sacct", ("0.0",), f"{SEPARATOR.join(SACCT_FIELDS)}\n{recorded('7', 'COMPLETED')}"),
        Frame("sacct.end", ("0.0", "0"), ""),
    ]
    report = read_alive([JobRef("7")], Frames(answer), LiveRows(), Told())
    assert {key: job.ending for key, job in report.jobs.items()} == {"7": Ending.COMPLETED}


@given(st.data())
def test_an_answer_cut_anywhere_ends_nothing(data: st.DataObject) -> None:
    script = RemoteScript.build(alive_script(REFS, Told()))
    mark = f"\n@@{script.nonce} "
    told = (
        f"{mark}queue 0\n{HEADER}\n{queued('7')}\n{mark}queue.end 0 0\n\n{mark}squeue 0.0\n{HEADER}\n{queued('8')}\n"
        f"{mark}squeue.end 0.0 0\n\n{mark}asked 0.0\n8\n{mark}sacct 0.0\n{SEPARATOR.join(SACCT_FIELDS)}\n"
        f"{recorded('8', 'PREEMPTED')}\n{recorded('8', 'RUNNING')}\n{mark}sacct.end 0.0 0\n\n{mark}end 0\n"
    )
    end = data.draw(st.integers(0, len(told)))
    jobs = read_alive(REFS, script.frames(told[:end]), LiveRows(), Told()).jobs
    assert set(jobs) == {"7", "8"}
    assert all(job.live and job.ending is None for job in jobs.values())


@given(
    st.lists(
        st.tuples(st.sampled_from(["queue", "asked", "squeue", "sacct", "queue.end", "sacct.end", "same"]), st.text())
    )
)
def test_any_frames_can_be_read(pieces: list[tuple[str, str]]) -> None:
    frames = Frames([Frame(name, ("0" if name.startswith("queue") else "0.0", "0"), text) for name, text in pieces])
    jobs = read_alive(REFS, frames, LiveRows(), Told()).jobs
    assert all(isinstance(job, JobStatus) and job.ending is None for job in jobs.values())


def test_ids_are_checked_before_they_reach_a_shell() -> None:
    with pytest.raises(ValueError, match="not a number"):
        alive_script([JobRef("1; rm -rf /")], Told())
    assert alive_script([], Told()) == ""
