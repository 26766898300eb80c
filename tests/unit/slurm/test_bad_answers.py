"""What Slurm's commands answer, recorded and spoilt (tests/data/slurm/answers.yaml): the same result, or clear trouble.

Never an end that is none, never "it is gone" of a live job, never a second job.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_gym_provider.chain.cancel import read_cancels
from airflow_gym_provider.chain.evidence import cluster_rows, known_job
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.slurm import JobRef, JobStatus, parse_status, read_sbatch
from airflow_gym_provider.slurm.refusals import SbatchAnswer
from airflow_gym_provider.slurm.remote import Answer, Frame, Frames, RemoteScript
from airflow_gym_provider.slurm.status import answer_problem
from airflow_gym_provider.slurm.tables import SEPARATOR
from airflow_gym_provider.slurm.troubles import TROUBLE, ProblemKind

ROOT = Path(__file__).parents[3]
TABLE = yaml.safe_load((ROOT / "tests" / "data" / "slurm" / "answers.yaml").read_text(encoding="utf-8"))
REF = JobRef("12", job_dir="/w")
NAME = "gym-x-0123456789ab"
SIGNS = {"¦": SEPARATOR, "␍": "\r", "␀": "\0", "�": "\udcff"}


def text(value: str) -> str:
    """An answer of the table as its command prints it; bytes that are no UTF-8 as lone surrogates."""
    for name, row in TABLE["rows"].items():
        value = value.replace(f"{{{name}}}", row)
    for sign, meant in SIGNS.items():
        value = value.replace(sign, meant)
    return value


def seen(value: str) -> str:
    """As a transport hands it on."""
    return text(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parts(answer: Any) -> tuple[str, int, str]:
    return (answer, 0, "") if isinstance(answer, str) else tuple(answer)


def noise(tool: str) -> str:
    """What a client of 22.05 says at every call where slurm.conf still has an old name: an error that is none."""
    return f"{tool}: error: Ignoring ControlMachine since SlurmctldHost is set.\n"


def frames(squeue: tuple[str, int, str], sacct: tuple[str, int, str]) -> Frames:
    """As both our ways of asking have them."""
    found = Frames([Frame("cluster", ("0", "-"), "")], complete=True)
    for tool, (table, status, stderr) in (("squeue", squeue), ("sacct", sacct)):
        found += [Frame(tool, ("0",), table), Frame(f"{tool}.end", ("0", str(status)), stderr)]
    return found


def verdict(status: JobStatus) -> str:
    if status.ending:
        return str(status.ending)
    if status.missing:
        return "missing"
    return "alive" if status.live and status.known else "unknown"


def both_ways(answer: Frames) -> str:
    """What the watcher and the look of a chain make of it: the same."""
    found = {
        verdict(parse_status([REF], answer).jobs["12"]),
        verdict(known_job(JobRef("12", job_dir="/w"), cluster_rows(answer))),
    }
    assert len(found) == 1, found
    return found.pop()


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("case", TABLE["status"])
def test_a_spoilt_answer_gives_the_same_result_or_a_clear_trouble(case: str, noisy: bool) -> None:
    squeue, sacct, means, _ = TABLE["status"][case]
    told = {"squeue": parts(squeue), "sacct": parts(sacct)}
    answer = frames(*((seen(table), rc, noise(tool) * noisy + err) for tool, (table, rc, err) in told.items()))
    assert both_ways(answer) == {"PREEMPTED-unsure": "unknown"}.get(means, means)
    if means == "unknown" and "HIBERNATING" not in sacct:
        assert all(problem.startswith(("squeue: ", "sacct: ")) for problem in parse_status([REF], answer).problems)
        assert parse_status([REF], answer).problems


def in_bash(tmp_path: Path, tool: str, answers: dict[str, Any], noisy: bool, judge: list[str]) -> dict[str, str]:
    """What the real scripts in one real bash make of each answer of `tool`: the one frame that `judge` prints."""
    for index, (table, status, stderr) in enumerate(map(parts, answers.values())):
        (tmp_path / str(index)).write_bytes(text(table).encode("utf-8", "surrogateescape"))
        (tmp_path / f"{index}.err").write_text(noise(tool) * noisy + stderr)
        (tmp_path / f"{index}.rc").write_text(str(status))
    scripts = ROOT / "airflow_gym_provider" / "chain" / "scripts"
    lines = [
        *((scripts / name).read_text(encoding="utf-8") for name in ("common.sh", "submit.sh")),
        f"gym_separator=$'\\x1f' gym_clusters=('') gym_dir=/w gym_name={NAME} gym_plain=gym-x",
        f"gym_trouble_lines={quote(TROUBLE)}",
        f"cd {shlex.quote(str(tmp_path))}",
        'timeout() { cat "$index"; cat "$index.err" >&2; return "$(cat "$index.rc")"; }',
        f"for index in {{0..{len(answers) - 1}}}; do",
        *judge,
        "done",
    ]
    script = RemoteScript.build("\n".join(lines), needs=())
    done = subprocess.run(["bash", "-s"], input=script.text.encode(), capture_output=True, check=True)
    return dict(zip(answers, (frame.name for frame in script.frames(done.stdout.decode())), strict=True))


@pytest.mark.parametrize("noisy", [False, True])
def test_a_submission_takes_no_spoilt_answer_for_an_empty_queue(tmp_path: Path, noisy: bool) -> None:
    answers = {case: row[0] for case, row in TABLE["status"].items()}
    judge = ['  if ! gym_queue; then frame doubt; elif [ -n "$gym_live" ]; then frame live; else frame gone; fi']
    found = in_bash(tmp_path, "squeue", answers, noisy, judge)
    assert found == {case: TABLE["status"][case][3] for case in TABLE["status"]}


@pytest.mark.parametrize("noisy", [False, True])
def test_a_submission_believes_of_accounting_what_a_look_believes(tmp_path: Path, noisy: bool) -> None:
    answers = {case: row[1] for case, row in TABLE["status"].items()}
    judge = ["  gym_tell() { frame doubt; }", "  gym_write_found() { frame believed; }", "  gym_in_accounting 0"]
    found = in_bash(tmp_path, "sacct", answers, noisy, judge)
    doubted = {"capitals of another release", "fewer columns of another release"}  # scripts read their own ones alone
    for case, (table, status, stderr) in ((case, parts(answer)) for case, answer in answers.items()):
        problem = answer_problem("sacct", status, noise("sacct") * noisy + stderr, seen(table))
        if problem is not None and problem.kind is not ProblemKind.ACCOUNTING_DISABLED:
            doubted.add(case)
    assert found == {case: "doubt" if case in doubted else "believed" for case in answers}


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("case", TABLE["sbatch"])
def test_what_sbatch_says_is_a_job_or_none_or_unsure(case: str, noisy: bool) -> None:
    stdout, stderr, status, means = TABLE["sbatch"][case]
    answer = read_sbatch(Answer(status, seen(stdout), noise("sbatch") * noisy + seen(stderr)))
    found = (
        f"{answer.job_id}{';' * bool(answer.cluster)}{answer.cluster or ''}"
        if isinstance(answer, SbatchAnswer)
        else answer.kind
    )
    assert found == means


def test_a_submission_reads_of_sbatch_what_the_task_reads(tmp_path: Path) -> None:
    """gym_job_id and the judges after it, for every answer of the table: one job, a refusal, or neither."""
    answers = {case: (row[0], row[2], row[1]) for case, row in TABLE["sbatch"].items()}
    judge = [
        '  said=$(cat "$index.err") rc=$(cat "$index.rc")',
        '  gym_job_id "$(cat "$index")"',
        '  if [ "$rc" = 0 ] && [ "$gym_ids" = 1 ]; then frame "$gym_id;${gym_cluster#-}"',
        '  elif gym_refused "$rc" "$said"; then frame refused; else frame unsure; fi',
    ]
    found = in_bash(tmp_path, "sbatch", answers, False, judge)
    means = {case: row[3] for case, row in TABLE["sbatch"].items()}
    told = {"permanent": "refused", "later": "refused", "unsure": "unsure"}
    expected = {case: told.get(kind, kind if ";" in kind else f"{kind};") for case, kind in means.items()}
    # Bash passes no NUL on, to the task neither. Whoever says "invalid" has made no job, though why is left to people.
    assert found == expected | {"a NUL": "12;", "a wrapper's refusal": "refused"}


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("case", TABLE["scancel"])
def test_what_scancel_says_is_an_end_or_trouble(case: str, noisy: bool) -> None:
    said, status, means = TABLE["scancel"][case]
    script = RemoteScript.build("", needs=())
    mark = f"\n@@{script.nonce}"
    told = f"{mark} scancel 0 {status} 12\n{noise('scancel') * noisy}{seen(said)}\n{mark} end 0\n"
    report = read_cancels(script, Answer(0, told, ""), 1)[0]
    assert [bool(report.cancelled), bool(report.ended), bool(report.trouble)] == means


# -- mutations --------------------------------------------------------------------------------------------------------

QUEUE = text("{Q}\n{OTHER}\n{RUN}\n13¦PENDING¦0:00¦1:00¦N/A¦N/A¦¦None¦/w3¦x¦13\n")
RECORDS = text("{S}\n{KICK}\n{AGAIN}\n{STEP}\n")
ENDED = text("{S}\n{KICK}\n")  # accounting has not heard yet that it was requeued
LINES = (
    "squeue: warning: x\n",
    "Welcome\nto | login1\n",
    "12 COMPLETED\n",
    "@@0123 end 0\n",
    "\n",
    "\r\n",
    "\0\n",
    "12|x\n",
)


@st.composite
def spoilt(draw: st.DrawFn, answer: str, *, loses: bool) -> str:
    """Texts from elsewhere at any byte, rows in another order or twice, other ends of lines; `loses`: pieces are cut
    out, or put in from other answers.
    """
    header, *rows = answer.splitlines()
    rows = draw(st.permutations(rows + draw(st.lists(st.sampled_from(rows), max_size=2))))
    told = "".join(f"{line}\n" for line in (header, *rows))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(told)))
        kind = draw(st.sampled_from(["insert", "insert", "cut", "splice"] if loses else ["insert"]))
        if kind == "insert":
            told = told[:at] + draw(st.sampled_from(LINES)) + told[at:]
        elif kind == "cut":
            told = told[:at] + told[at + draw(st.integers(0, 200)) :]
        else:
            told = told[:at] + draw(st.sampled_from([QUEUE, RECORDS, ENDED]))[draw(st.integers(0, 200)) :]
    return told.replace("\n", "\r\n") if draw(st.booleans()) else told


@settings(max_examples=200, deadline=None)
@given(spoilt(QUEUE, loses=False), spoilt(RECORDS, loses=False) | spoilt(ENDED, loses=False))
def test_text_from_elsewhere_never_ends_a_live_job(queue: str, records: str) -> None:
    assert both_ways(frames((queue, 0, ""), (records, 0, ""))) in ("alive", "unknown")


@settings(max_examples=200, deadline=None)
@given(spoilt(QUEUE, loses=True), spoilt(RECORDS, loses=True))
@example(QUEUE.replace("12", "\n12"), RECORDS)
def test_whatever_happens_to_one_answer_the_other_keeps_a_live_job_alive(queue: str, records: str) -> None:
    assert both_ways(frames((queue, 0, ""), (RECORDS, 0, ""))) in ("alive", "unknown")
    assert both_ways(frames((QUEUE, 0, ""), (records, 0, ""))) == "alive"
