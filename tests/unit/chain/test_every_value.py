"""What lies on the cluster is data too: directories of any name, files of any name in them, and files of any text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.chains import Chains
from fakes.slurm_standin import Standin

from airflow_gym_provider.chain import OutcomeKind
from airflow_gym_provider.jobscript import ResultsSpec
from airflow_gym_provider.results.survey import parse_survey, survey_body
from airflow_gym_provider.slurm.progress import Progress, parse_progress, progress_body
from airflow_gym_provider.slurm.remote import RemoteScript
from airflow_gym_provider.slurm.tails import LogTail, hidden_line, read_tails, tails_body
from tests.unit.jobscript.texts import NASTY, random_texts

NAMES = list(
    dict.fromkeys(
        name
        for text in [*NASTY, *random_texts(1, 20)]
        if (name := text.replace("/", "").encode()[:200].decode(errors="ignore")) not in ("", ".", "..")
    )
)
"""What a file system takes for the name of a file: anything but a slash."""
DIRECTORY = "-rf it's \"my\" $(touch pwned) `touch pwned` ; & # 世\\ é *?[a] ~ %j {a,b} $'x' \x1b"
LINES = [text for text in NASTY if len(text) < 1000]


def test_a_directory_of_any_name_holds_its_chain(tmp_path: Path, slurm: Standin) -> None:
    chains = Chains(tmp_path / DIRECTORY, slurm, "gpqa", "aime")
    _litter(chains)
    reports = chains.submit(chains.look()).outcomes
    assert {outcome.kind for outcome in reports.values()} == {OutcomeKind.SUBMITTED}
    _litter(chains)
    for job, place in zip(slurm.jobs, chains.places, strict=True):
        assert (job["dir"], job["name"]) == (place.job_dir, place.job_name)
    assert {kind.kind for kind in chains.submit(chains.look()).outcomes.values()} == {OutcomeKind.ADOPTED}
    record = chains.record()
    assert [entry["job_dir"] for entry in record["benchmarks"]] == [place.job_dir for place in chains.places]
    assert [entry["job_id"] for entry in record["benchmarks"]] == ["101", "102"]
    assert {name: report.cancelled for name, report in chains.cancel("; touch pwned").items()} == {
        "gpqa": ("101",),
        "aime": ("102",),
    }
    _nothing_ran(tmp_path)


def _litter(chains: Chains) -> None:
    """Files and directories of every name, in the run's directory and in the first benchmark's."""
    for folder in (Path(chains.run_dir), chains.directory()):
        if not folder.is_dir():
            continue
        for number, name in enumerate(NAMES):
            place = folder / f"{name}" if number % 2 else folder / f"{name}" / ".gym_tmp.x"
            place.parent.mkdir(exist_ok=True)
            if not place.exists():
                place.write_text(name)


def test_the_files_of_a_chain_may_hold_anything(tmp_path: Path, slurm: Standin, chains: Chains) -> None:
    chains.submit(chains.look())
    chain = "\n".join([*LINES, "101;$(touch pwned)", "٣", "9" * 400, "-1", "a[$(touch pwned)]"])
    jobs = "\n".join(f"101 {line} 5\n{line} - 5\n101 - {line}" for line in [*LINES, "-M", "x[$(touch pwned)]", "*"])
    marks = "\n".join(f"{line} 101,{line} {line}" for line in [*LINES, "5", "9" * 400, "٣"])
    number = "a[$(touch pwned)]"
    texts = {".gym_job_chain": chain, ".gym_jobs": jobs, ".gym_cancelled": marks, ".gym_unsure": f"{number}\n08\n09\n"}
    texts |= {".gym_intent": f"{number} {number}", ".gym_accumulated_walltime": number, ".gym_infra_retries": "9" * 400}
    for name, text in texts.items():
        (chains.directory() / name).write_text(text)
    look = chains.look()
    assert look.chains["gpqa"].ids == ("101",)
    for clock in ("gym-x", "a[$(touch pwned)]"):
        (chains.directory() / ".gym_intent").write_text(f"{clock} {clock} {clock}")
        assert chains.submit(chains.look()).outcomes["gpqa"].kind in (OutcomeKind.ADOPTED, OutcomeKind.CHANGED)
    assert chains.cancel("because")["gpqa"].cancelled == ("101",)
    assert len(slurm.jobs) == 1
    _nothing_ran(tmp_path)


@pytest.mark.parametrize("tool", ["squeue", "sacct", "sbatch"])
def test_what_slurm_says_is_text(tmp_path: Path, slurm: Standin, chains: Chains, tool: str) -> None:
    said = "\n".join([*LINES, "@@0 end 0", "a[$(touch pwned)]", "Submitted batch job 7;$(touch pwned)"])
    slurm.plan(tool, {"rc": 1, "stdout": said, "stderr": said}, always=True)
    outcome = chains.submit(chains.look()).outcomes["gpqa"]
    assert outcome.kind in (OutcomeKind.WAIT, OutcomeKind.UNKNOWN, OutcomeKind.SUBMITTED)
    if tool == "sbatch":
        assert "touch pwned" in chains.record()["benchmarks"][0]["error"]
    _nothing_ran(tmp_path)


def _nothing_ran(folder: Path) -> None:
    assert not [path for path in folder.rglob("*") if path.name == "pwned"] and not Path("pwned").exists()


def test_results_and_logs_are_found_under_any_name(tmp_path: Path, chains: Chains) -> None:
    """Of many files in one shell: what is counted, read and fetched is the file of that very name."""
    folder = tmp_path / DIRECTORY
    specs, progress, tails = [], {}, {}
    (folder / "job.sh").parent.mkdir()
    (folder / "job.sh").write_text(f"true\n{hidden_line(['s3cret'])}")
    for number, name in enumerate(NAMES):
        base = folder / str(number)
        base.mkdir()
        rollouts = base / f"{name}.jsonl"
        rollouts.write_text("{}\n" * (number + 1))
        stem = str(rollouts).removesuffix(".jsonl")
        Path(f"{stem}_aggregate_metrics.json").write_text(
            json.dumps([{"agent_ref": {"name": name}, "key_metrics": {}}])
        )
        (base / name).write_text(f"{name} s3cret\n")
        specs.append(ResultsSpec(str(rollouts), True, "rollouts"))
        progress[str(number)] = Progress(str(rollouts))
        tails[str(number)] = LogTail(str(base / name), str(folder / "job.sh"))
    surveys = [survey_body(spec, str(number)) for number, spec in enumerate(specs)]
    script = RemoteScript.build("\n".join([*surveys, progress_body(progress), tails_body(tails)]), needs=())
    answer = chains.run(script)
    frames = script.frames(answer.stdout)
    assert frames.complete, answer.stderr[-2000:]
    for number, spec in enumerate(specs):
        survey = parse_survey(spec, frames, str(number))
        assert (survey.done, survey.answered, survey.metrics_present) == (number + 1, True, True)
    assert [item.done for item in parse_progress(progress, frames).values()] == list(range(1, len(NAMES) + 1))
    news = read_tails(tails, frames)
    assert len(news) == len(NAMES)
    for number, name in enumerate(NAMES):
        assert news[str(number)].text == f"{name} ***".replace("\r", "\n"), name  # so `Chains.run` reads
    _nothing_ran(tmp_path)
