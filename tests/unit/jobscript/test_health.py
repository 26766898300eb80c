from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .stage import Job, config_of, play


def _job(statuses: dict[str, int], expect: dict[str, int] | None = None, **check: Any) -> Job:
    service = {"type": "vllm", "container": "c", "model": "m", "health_check": check}
    judge = {"type": "vllm", "container": "c", "model": "j", "port": 8100}
    tree = {"services": {"policy": service, "judge": judge}, "driver": {"policy_model": "policy"}}
    return Job(config_of(tree), statuses=statuses, expect=expect or {})


def test_a_service_that_never_answers_ends_the_job_with_its_name_and_log(tmp_path: Path) -> None:
    played = play(_job({"curl": 7}, {"vllm": 2}, timeout_seconds=23), tmp_path)
    assert played.status == 1
    assert len(played.of("curl")) == 4
    assert "policy did not answer at http://localhost:8000/health in 4 attempts" in played.output
    assert "logs/policy-4242.log" in played.output
    assert not played.of("gym")


@pytest.mark.parametrize("seconds", [1, 4, 5, 9])
def test_there_is_at_least_one_attempt(seconds: int, tmp_path: Path) -> None:
    assert len(play(_job({"curl": 7}, timeout_seconds=seconds), tmp_path).of("curl")) == 1


@pytest.mark.parametrize("status", [0, 1, 137])
def test_a_service_that_has_ended_is_noticed_long_before_its_timeout(status: int, tmp_path: Path) -> None:
    played = play(_job({"curl": 7, "vllm": status}, timeout_seconds=6000), tmp_path)
    assert played.status == 1
    assert "has ended by itself, so no benchmark runs" in played.output
    assert len(played.of("curl")) < 100 and not played.of("gym")


def test_a_healthy_answer_from_somebody_else_does_not_hide_a_dead_service(tmp_path: Path) -> None:
    service = {"type": "vllm", "container": "c", "model": "m", "pre_command": "exit 3"}
    job = Job(config_of({"services": {"policy": service}}), statuses={"curl.slow": 0})
    played = play(job, tmp_path)
    assert "policy is healthy" in played.output
    assert played.status == 1 and not played.of("gym")


def test_the_end_of_the_log_is_shown(tmp_path: Path) -> None:
    service = {"type": "vllm", "container": "c", "model": "m", "pre_command": "echo no space left; exit 3"}
    tree = {"services": {"policy": service}, "driver": {"policy_model": "policy"}}
    played = play(Job(config_of(tree), statuses={"curl": 7}), tmp_path)
    assert played.status == 1
    assert "no space left" in played.output


def test_every_service_is_probed_at_its_own_address_before_the_driver(tmp_path: Path) -> None:
    played = play(_job({}, {"vllm": 2}, port=9999, path="/ready?x=1&y=$HOME"), tmp_path)
    programs = [call.program for call in played.calls]
    assert [call.argv[-1] for call in played.of("curl")] == [
        "http://localhost:9999/ready?x=1&y=$HOME",
        "http://localhost:8100/health",
    ]
    assert programs.index("gym") > len(programs) - 1 - programs[::-1].index("curl")


def test_a_job_without_services_goes_straight_to_the_driver(tmp_path: Path) -> None:
    played = play(Job(config_of({})), tmp_path)
    assert played.status == 0
    assert [call.program for call in played.calls] == ["srun", "gym"]
