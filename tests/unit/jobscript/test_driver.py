from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import ResultsSpec, effective_run, results_spec

from .stage import Job, config_of, play

POLICY = {"type": "vllm", "container": "c", "model": "org/model", "port": 8123}
DIR = "/lustre/evals/run/bench"


def _tree(benchmark: dict[str, Any] | None = None, **driver: Any) -> dict[str, Any]:
    return {
        "services": {"policy": POLICY},
        "driver": {"policy_model": "policy", "benchmarks": {"bench": benchmark or {}}, **driver},
    }


def test_gym_is_installed_from_a_checkout_before_it_runs(tmp_path: Path) -> None:
    tree = _tree({"prepare": {"split": "x"}}, gym_install={"ref": "v0.7.0"})
    played = play(Job(config_of(tree), expect={"vllm": 1}), tmp_path)
    assert played.status == 0
    steps = [(call.program, *call.argv[:2]) for call in played.calls if call.program in ("git", "uv", "gym")]
    assert steps == [
        ("git", "clone", "https://github.com/NVIDIA-NeMo/gym"),
        ("git", "checkout", "v0.7.0"),
        ("uv", "venv", ".venv"),
        ("uv", "pip", "install"),
        ("gym", "eval", "prepare"),
        ("gym", "eval", "run"),
    ]
    assert played.of("uv")[1].argv == ["pip", "install", "-e", "."]
    checkout = played.of("git")[1].env["PWD"]
    for gym in played.of("gym"):
        assert gym.env["PWD"] == checkout != str(played.folder)
        assert gym.env["PATH"].startswith(f"{checkout}/.venv/bin:")
        assert gym.env["VIRTUAL_ENV"] == f"{checkout}/.venv"
    assert not Path(checkout).exists()


@pytest.mark.parametrize(("program", "left"), [("git", "uv"), ("uv", "gym")])
def test_a_failing_install_ends_the_job(program: str, left: str, tmp_path: Path) -> None:
    job = Job(config_of(_tree(gym_install={"ref": "main"})), expect={"vllm": 1})
    env = {"BASH_ENV": str(tmp_path / "broken")}
    (tmp_path / "broken").write_text(f"[[ ${{0##*/}} != {program} ]] || exit 9\n")
    played = play(Job(job.config, environ=env), tmp_path)
    assert played.status == 9
    assert not played.of(left)


def test_a_failing_prepare_keeps_the_benchmark_from_running(tmp_path: Path) -> None:
    played = play(Job(config_of(_tree({"prepare": {"split": "x"}})), statuses={"gym.prepare": 4}), tmp_path)
    assert played.status == 4
    assert [call.argv[:2] for call in played.of("gym")] == [["eval", "prepare"]]
    assert played.of("gym")[0].argv[2:] == ["+split=x"]


@pytest.mark.parametrize("status", [0, 1, 5, 75, 137])
def test_the_jobs_exit_status_is_the_drivers(status: int, tmp_path: Path) -> None:
    assert play(Job(config_of(_tree()), statuses={"gym.run": status}), tmp_path).status == status


def test_a_command_runs_instead_under_strict_rules_and_knows_the_policy(tmp_path: Path) -> None:
    command = (
        'echo "$NEMO_GYM_BENCH_DIR" >seen\npwd >>seen\nenv | grep ^NEMO_GYM >>seen\nfalse | true\necho unreached >>seen'
    )
    played = play(Job(config_of(_tree({"command": command, "prepare": {"a": 1}}))), tmp_path)
    assert played.status == 1
    seen = (played.folder / "seen").read_text().splitlines()
    assert seen[:2] == [str(played.folder)] * 2
    assert set(seen[2:]) == {
        f"NEMO_GYM_BENCH_DIR={played.folder}",
        "NEMO_GYM_POLICY_BASE_URL=http://localhost:8123/v1",
        "NEMO_GYM_POLICY_MODEL_NAME=org/model",
        "NEMO_GYM_POLICY_API_KEY=dummy",
    }
    assert [call.argv[:2] for call in played.of("gym")] == [["eval", "prepare"]]


def test_a_commands_text_is_its_own(tmp_path: Path) -> None:
    command = "cat <<'END_DRIVER' >seen\n$HOME \"'\\\nEND_DRIVER\necho ${NEMO_GYM_BENCH_DIR:+set} >>seen # }\nexit 7"
    tree = _tree({"command": command.replace("${", "\\${")})
    played = play(Job(config_of(tree)), tmp_path)
    assert played.status == 7
    assert (played.folder / "seen").read_text() == "$HOME \"'\\\nset\n"


def test_a_command_may_end_with_a_backslash(tmp_path: Path) -> None:
    assert play(Job(config_of({"driver": {"benchmarks": {"bench": {"command": "true \\"}}}})), tmp_path).status == 0


def test_a_command_without_a_policy_gets_no_address(tmp_path: Path) -> None:
    tree = {"driver": {"benchmarks": {"bench": {"command": "env >seen"}}}}
    played = play(Job(config_of(tree)), tmp_path)
    assert "NEMO_GYM_POLICY" not in (played.folder / "seen").read_text()


def test_a_deferred_policy_host_is_hydras_in_a_run_and_the_shells_in_a_command(tmp_path: Path) -> None:
    host = "${oc.env:HEAD_NODE_IP}"
    played = play(Job(config_of(_tree(policy_host=host))), tmp_path)
    (gym,) = played.of("gym")
    assert '+policy_base_url="http://${oc.env:HEAD_NODE_IP}:8123/v1"' in gym.argv
    assert gym.env["HEAD_NODE_IP"] == "10.0.0.1"
    tree = _tree({"command": 'echo "$NEMO_GYM_POLICY_BASE_URL" >seen'}, policy_host=host)
    played = play(Job(config_of(tree)), tmp_path)
    assert (played.folder / "seen").read_text() == "http://10.0.0.1:8123/v1\n"


@pytest.mark.parametrize("kind", ["", "vllm_model"])
def test_the_model_type_is_passed_only_when_there_is_one(kind: str, tmp_path: Path) -> None:
    (gym,) = play(Job(config_of(_tree(policy_model_type=kind))), tmp_path).of("gym")
    assert gym.flag("--model-type") == (kind or None)
    assert play(Job(config_of({})), tmp_path).of("gym")[0].flag("--model-type") is None


RUN = {"driver": {"benchmarks": {"bench": {"resumable": True}}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}\n{"b": 2}\n{"c": ', '{"a": 1}\n{"b": 2}\n'),
        ('{"a": 1}\n{"b": 2}\n', '{"a": 1}\n{"b": 2}\n'),
        ('{"never ended', ""),
        ("", ""),
        ('{"é": "世"}\n{"é": "世', '{"é": "世"}\n'),
    ],
)
def test_a_resumed_run_does_not_meet_half_a_line(before: str, after: str, tmp_path: Path) -> None:
    names = ("artifacts/rollouts.jsonl", "artifacts/rollouts_failures.jsonl")
    played = play(Job(config_of(RUN), files=dict.fromkeys(names, before)), tmp_path)
    assert played.status == 0
    assert [(played.folder / name).read_text() for name in names] == [after, after]


def test_without_resuming_nothing_is_trimmed(tmp_path: Path) -> None:
    job = Job(config_of({}), files={"artifacts/rollouts.jsonl": '{"half'})
    assert (play(job, tmp_path).folder / "artifacts/rollouts.jsonl").read_text() == '{"half'


def test_the_defaults_of_a_run_and_what_replaces_them() -> None:
    assert effective_run(config_of({}), "bench", DIR) == {
        "output_jsonl_fpath": f"{DIR}/artifacts/rollouts.jsonl",
        "require_complete": True,
        "observability_enabled": True,
        "model_call_capture_dir": f"{DIR}/model-calls",
    }
    own = {"require_complete": False, "observability_enabled": False, "resume_from_cache": False, "split": "x"}
    tree = {"driver": {"benchmarks": {"bench": {"run": own, "resumable": True}}}}
    assert effective_run(config_of(tree), "bench", DIR) == {
        "output_jsonl_fpath": f"{DIR}/artifacts/rollouts.jsonl",
        **own,
    }
    assert effective_run(config_of(RUN), "bench", DIR)["resume_from_cache"] is True


def test_the_policy_is_wired_and_json_shows_it() -> None:
    run = effective_run(config_of(_tree()), "bench", DIR)
    assert json.loads(json.dumps(run))["policy_base_url"] == "http://localhost:8123/v1"
    assert (run["policy_model_name"], run["policy_api_key"]) == ("org/model", "dummy")


@pytest.mark.parametrize(
    ("path", "found"),
    [("/mine/out.jsonl", "/mine/out.jsonl"), ("out/../x.jsonl", f"{DIR}/x.jsonl"), ("x.jsonl", f"{DIR}/x.jsonl")],
)
def test_the_users_own_output_path_is_the_only_one_and_absolute(path: str, found: str) -> None:
    tree = {"driver": {"benchmarks": {"bench": {"run": {"output_jsonl_fpath": path}}}}}
    assert effective_run(config_of(tree), "bench", DIR)["output_jsonl_fpath"] == found
    assert results_spec(config_of(tree), "bench", DIR) == ResultsSpec(found, True, "rollouts")


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("calls", f"{DIR}/calls"),
        ("../calls/x", f"{DIR.rpartition('/')[0]}/calls/x"),
        ("/mine", "/mine"),
        ("\\${oc.env:X}/calls", "${oc.env:X}/calls"),
        (None, None),
    ],
)
def test_captures_do_not_go_with_the_checkout(folder: str | None, found: str | None) -> None:
    driver: dict[str, Any] = {"benchmarks": {"bench": {"run": {"model_call_capture_dir": folder}}}}
    resolved = folder.replace("\\$", "$") if folder else folder
    assert effective_run(config_of({"driver": driver}), "bench", DIR)["model_call_capture_dir"] == resolved
    driver["gym_install"] = {"ref": "main"}
    assert effective_run(config_of({"driver": driver}), "bench", DIR)["model_call_capture_dir"] == found


@pytest.mark.parametrize("path", ["\\${oc.env:X}/x.jsonl", "", 5])
def test_an_output_path_that_nobody_else_could_find_is_refused(path: object) -> None:
    tree = {"driver": {"benchmarks": {"bench": {"run": {"output_jsonl_fpath": path}}}}}
    with pytest.raises(SubmitConfigError, match=r"bench\.run\.output_jsonl_fpath"):
        results_spec(config_of(tree), "bench", DIR)


def test_results_are_judged_by_what_the_benchmark_is() -> None:
    tree = {"driver": {"benchmarks": {"bench": {"command": "true"}}}}
    assert results_spec(config_of(tree), "bench", DIR).judged_by == "exit_status"
    tree = {"driver": {"benchmarks": {"bench": {"run": {"require_complete": False}}}}}
    assert results_spec(config_of(tree), "bench", DIR).require_complete is False


def test_accounting_knows_the_drivers_step_from_a_service_of_that_name(tmp_path: Path) -> None:
    tree = _tree()
    tree["services"]["driver"] = {**POLICY, "port": 8200}
    steps = play(Job(config_of(tree), expect={"vllm": 2}), tmp_path).of("srun")
    # Services start side by side.
    assert sorted(str(step.flag("--job-name")) for step in steps) == ["driver", "driver-b4def8", "policy"]
