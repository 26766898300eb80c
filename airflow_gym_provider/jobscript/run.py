"""What a benchmark's driver is asked to do: `run` with its defaults, and how to judge its results."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any, Literal

from airflow_gym_provider.config import BenchmarkRunConfig, Problem, SubmitConfig, SubmitConfigError
from airflow_gym_provider.config.show import escape
from airflow_gym_provider.jobscript.policy import policy_run_keys


@dataclass(frozen=True)
class ResultsSpec:
    """Where a benchmark's results are and what makes them good.

    `rollouts_path` is absolute on the cluster, with the other result files beside it. `judged_by` is ``exit_status``
    for a benchmark with its own `command`, which writes what it likes; `require_complete` is meaningless then.
    """

    rollouts_path: str
    require_complete: bool
    judged_by: Literal["rollouts", "exit_status"]


def benchmark_config(config: SubmitConfig, benchmark: str) -> BenchmarkRunConfig:
    """The benchmark's own section. Raises SubmitConfigError, with the names there are, when it has none."""
    try:
        return config.driver.benchmarks[benchmark]
    except KeyError:
        known = ", ".join(config.driver.benchmarks)
        problem = Problem(f"driver.benchmarks.{benchmark}", f"there is no such benchmark; the config declares {known}")
        raise SubmitConfigError([problem]) from None


def effective_run(config: SubmitConfig, benchmark: str, job_dir: str) -> dict[str, Any]:
    """The benchmark's `run` as ``gym eval run`` gets it: defaults, then the policy's keys, then the user's values.

    The user's value wins for every default. A relative ``output_jsonl_fpath`` is taken from the benchmark's directory,
    since the driver may work in a checkout that is thrown away; where it does, with ``driver.gym_install``, so is a
    relative ``model_call_capture_dir``. Raises SubmitConfigError when that path is no text or
    is left to the driver to resolve: then nobody else could find the results.
    """
    section = benchmark_config(config, benchmark)
    run: dict[str, Any] = {"output_jsonl_fpath": f"{job_dir}/artifacts/rollouts.jsonl"}
    # A model's name is text to gym's Hydra as well; the address may be left to it, see `policy_host`.
    policy = policy_run_keys(config)
    run |= {key: value if key == "policy_base_url" else escape(value) for key, value in policy.items()}
    run |= {"require_complete": True, "observability_enabled": True}
    if section.run.get("observability_enabled", True):
        run["model_call_capture_dir"] = f"{job_dir}/model-calls"
    if section.resume_config is not None:
        run["resume_from_cache"] = True
    run |= section.run
    run["output_jsonl_fpath"] = _absolute(run["output_jsonl_fpath"], job_dir, benchmark)
    captured = run.get("model_call_capture_dir")
    if config.driver.gym_install and isinstance(captured, str) and captured and "${" not in captured:
        run["model_call_capture_dir"] = posixpath.normpath(posixpath.join(job_dir, captured))
    return run


def results_spec(config: SubmitConfig, benchmark: str, job_dir: str) -> ResultsSpec:
    """How the results of this benchmark are found and judged. Raises SubmitConfigError as `effective_run` does."""
    with config.hiding():
        run = effective_run(config, benchmark, job_dir)
    return ResultsSpec(
        rollouts_path=run["output_jsonl_fpath"],
        require_complete=run["require_complete"] is not False,
        judged_by="rollouts" if benchmark_config(config, benchmark).command is None else "exit_status",
    )


def _absolute(path: object, job_dir: str, benchmark: str) -> str:
    place = f"driver.benchmarks.{benchmark}.run.output_jsonl_fpath"
    if not isinstance(path, str) or not path:
        raise SubmitConfigError([Problem(place, f"{path!r} is not a path; write one, or leave it out")])
    if "${" in path:
        told = f"{path!r} is resolved on the cluster only, so the results could not be found; write the path itself"
        raise SubmitConfigError([Problem(place, told)])
    return posixpath.normpath(posixpath.join(job_dir, path))
