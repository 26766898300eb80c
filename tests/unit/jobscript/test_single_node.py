from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import settings

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import quote, render_job_script

from .stage import Job, config, config_of, literal, play
from .texts import NASTY

settings.load_profile("jobscript")

POLICY = {"type": "vllm", "container": "vllm/image:1", "model": "org/model"}


def _tree(service: dict[str, Any] | None = None, driver: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "services": {"policy": {**POLICY, **(service or {})}},
        "driver": {"policy_model": "policy", **(driver or {})},
    }


def test_a_service_gets_its_flags_and_the_driver_its_own_image(tmp_path: Path) -> None:
    tree = _tree(
        {
            "model": "/models/it's here",
            "port": 8123,
            "served_model_name": 'a"b',
            "tensor_parallel_size": 2,
            "pipeline_parallel_size": 3,
            "number_of_instances": 4,
            "trust_remote_code": True,
            "extra_args": """--max-model-len 8192 --hf-overrides '{"a": ["b c"]}'""",
            "mounts": ["/data", "/data:/data", "/x:/y:ro"],
        },
        {"mounts": ["/cache:/opt/cache"]},
    )
    played = play(Job(config_of(tree), expect={"vllm": 1}), tmp_path)
    assert played.status == 0
    (vllm,) = played.of("vllm")
    assert vllm.argv == [
        "serve", "/models/it's here", "--port", "8123", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "3",
        "--served-model-name", 'a"b', "--trust-remote-code", "--data-parallel-size", "4",
        "--max-model-len", "8192", "--hf-overrides", '{"a": ["b c"]}',
    ]  # fmt: skip
    service, driver = played.of("srun")
    assert service.flag("--container-image") == "vllm/image:1"
    assert service.flag("--container-mounts") == "/data:/data,/x:/y:ro"
    folder = str(played.folder)
    assert driver.flag("--container-image") == "gym:latest"
    assert driver.flag("--container-mounts") == f"{folder}:{folder},/cache:/opt/cache"
    assert driver.flag("--container-workdir") == folder
    assert all({"--overlap", "--no-container-mount-home", "--ntasks=1"} <= set(step.argv) for step in (service, driver))


def test_flags_that_are_not_set_are_not_passed(tmp_path: Path) -> None:
    (vllm,) = play(Job(config_of(_tree()), expect={"vllm": 1}), tmp_path).of("vllm")
    assert vllm.argv == ["serve", "org/model", "--port", "8000", "--tensor-parallel-size", "1"]


def _hydra(argv: list[str]) -> dict[str, Any]:
    parser = OverridesParser.create()
    parsed = [parser.parse_override(word) for word in argv if word.startswith("+")]
    return {override.key_or_group: override.value() for override in parsed}


def test_a_hundred_kilobytes_arrive_and_a_megabyte_is_refused(tmp_path: Path) -> None:
    large = "é'" * 33_000
    tree = _tree({"env": {"LARGE": f"lit:{large}"}}, {"benchmarks": {"bench": {"run": {"prompt": large}}}})
    played = play(Job(config_of(tree), expect={"vllm": 1}), tmp_path)
    assert played.of("vllm")[0].env["LARGE"] == large
    assert _hydra(played.of("gym")[0].argv)["prompt"] == large
    tree = _tree(
        {"env": {"LARGE": "lit:" + "x" * 1_000_000}}, {"benchmarks": {"bench": {"run": {"prompt": "x" * 1_000_000}}}}
    )
    with pytest.raises(SubmitConfigError, match=r"services\.policy\.env\.LARGE: Linux passes at most 131071 bytes"):
        render_job_script(config_of(tree), "bench", "/lustre/x")


def test_a_secret_is_in_the_environment_of_its_step_and_in_no_argument(tmp_path: Path) -> None:
    tree = _tree({"env": {"HF_TOKEN": "host:HF_TOKEN"}})
    played = play(Job(config_of(tree, {"HF_TOKEN": "canary-7f3a"}), expect={"vllm": 1}), tmp_path)
    assert played.of("vllm")[0].env["HF_TOKEN"] == "canary-7f3a"
    assert not any("canary" in word for call in played.calls for word in call.argv)
    assert not any("HF_TOKEN" in call.env for call in played.calls if call.program != "vllm")
    assert "canary" not in played.output + played.log("policy") + played.log("driver")


def test_a_runtime_value_that_the_job_lacks_stays_unset(tmp_path: Path) -> None:
    env = {
        "CUDA_VISIBLE_DEVICES": "runtime:CUDA_VISIBLE_DEVICES",
        "EMPTY": "runtime:EMPTY",
        "GLOB": "runtime:SITE_OPTS",
    }
    job = Job(config_of(_tree({"env": env})), environ={"EMPTY": "", "SITE_OPTS": "a  b * 'c'"}, expect={"vllm": 1})
    (vllm,) = play(job, tmp_path).of("vllm")
    assert "CUDA_VISIBLE_DEVICES" not in vllm.env
    assert (vllm.env["EMPTY"], vllm.env["GLOB"]) == ("", "a  b * 'c'")


def test_runtime_values_are_the_jobs_not_those_of_other_entries(tmp_path: Path) -> None:
    env = {"B": "runtime:A", "A": "lit:own", "D": "runtime:C", "C": "runtime:B0"}
    job = Job(config_of(_tree({"env": env})), environ={"A": "job A", "C": "job C", "B0": "job B0"}, expect={"vllm": 1})
    (vllm,) = play(job, tmp_path).of("vllm")
    assert [vllm.env[name] for name in "ABCD"] == ["own", "job A", "job B0", "job C"]


def test_values_that_look_like_references_are_text(tmp_path: Path) -> None:
    env = {"A": "lit:runtime:EVIL", "B": "lit:host:EVIL", "C": "host:DATA"}
    job = Job(config_of(_tree({"env": env}), {"DATA": "runtime:EVIL"}), environ={"EVIL": "evil"}, expect={"vllm": 1})
    (vllm,) = play(job, tmp_path).of("vllm")
    assert [vllm.env[name] for name in "ABC"] == ["runtime:EVIL", "host:EVIL", "runtime:EVIL"]


def test_a_variable_that_bash_keeps_for_itself_is_refused() -> None:
    with pytest.raises(SubmitConfigError, match=r"driver\.env\.UID: bash keeps"):
        render_job_script(config_of(_tree(driver={"env": {"UID": "lit:0"}})), "bench", "/lustre/x")


def test_pre_command_runs_in_the_same_shell_before_the_server(tmp_path: Path) -> None:
    text = 'export IP=$(hostname) NOTE="$A # no comment"\nunset GONE\ncat <<EOF >here\nEND_POLICY\nEOF\n'
    tree = _tree({"pre_command": text, "env": {"A": "lit:one\n}", "GONE": "lit:x"}})
    played = play(Job(config_of(tree), expect={"vllm": 1}), tmp_path)
    (vllm,) = played.of("vllm")
    assert (vllm.env["IP"], vllm.env["NOTE"]) == ("n0", "one\n} # no comment")
    assert "GONE" not in vllm.env
    assert (played.folder / "here").read_text() == "END_POLICY\n"


@pytest.mark.parametrize("name", ["my policy", "qwen2.5-7b", "collector", "naïve", "a'b$(x)", "x" * 120])
def test_any_service_name_has_a_log_of_its_own(name: str, tmp_path: Path) -> None:
    tree = {"services": {name: POLICY}, "driver": {"policy_model": name}}
    played = play(Job(config_of(tree), expect={"vllm": 1}), tmp_path)
    assert played.status == 0
    logs = sorted(path.name for path in (played.folder / "logs").iterdir())
    assert len(logs) == 2 and "driver-4242.log" in logs
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+-4242\.log", log) and log != "collector-4242.log" for log in logs)


def test_logs_of_an_earlier_start_are_kept(tmp_path: Path) -> None:
    job = Job(config_of(_tree()), files={"logs/policy-4242.log": "before a requeue\n"}, expect={"vllm": 1})
    assert play(job, tmp_path).log("policy").startswith("before a requeue\n")


def test_steps_see_the_job_even_when_it_was_submitted_without_an_environment(tmp_path: Path) -> None:
    played = play(Job(config_of(_tree()), environ={"SLURM_EXPORT_ENV": "NONE"}), tmp_path)
    assert all(step.env["SLURM_EXPORT_ENV"] == "ALL" for step in played.of("srun"))


def test_the_job_submits_no_other(tmp_path: Path) -> None:
    text = "driver: {benchmarks: {bench: {resumable: {max_retries: 5, max_walltime: '10:00:00'}}}}"
    job = Job(config(text))
    assert "afternotok" not in render_job_script(job.config, "bench", "/lustre/x")
    assert not play(job, tmp_path).of("sbatch")


def test_a_directory_with_every_character_but_a_mounts_own(tmp_path: Path) -> None:
    played = play(Job(config_of(_tree()), expect={"vllm": 1}), tmp_path / 'it\'s my $HOME "dir" #1 ü')
    assert played.status == 0
    assert played.of("srun")[1].flag("--container-workdir") == str(played.folder)
    assert _hydra(played.of("gym")[0].argv)["output_jsonl_fpath"] == f"{played.folder}/artifacts/rollouts.jsonl"


@pytest.mark.parametrize("folder", ["relative/x", "/has:colon", "/has,comma", "/has\nbreak"])
def test_a_directory_that_cannot_be_mounted_is_refused(folder: str) -> None:
    with pytest.raises(SubmitConfigError, match=r"job\.output_path"):
        render_job_script(config_of(_tree()), "bench", folder)


def test_an_unknown_benchmark_is_refused_with_those_there_are() -> None:
    with pytest.raises(SubmitConfigError, match=r"driver\.benchmarks\.other: .*bench"):
        render_job_script(config_of(_tree()), "other", "/lustre/x")


def test_the_same_config_gives_the_same_script_whatever_it_holds() -> None:
    for text in NASTY:
        tree = _tree({"env": {"X": f"lit:{literal(text)}"}})
        first, second = (render_job_script(config_of(tree), "bench", "/lustre/x") for _ in range(2))
        assert first == second
        assert f"export X={quote(text)}\n" in first
