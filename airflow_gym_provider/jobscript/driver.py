"""The driver step: install Gym if asked to, prepare, run; its exit status is the job's."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.config.errors import gathering
from airflow_gym_provider.jobscript.environment import export_lines
from airflow_gym_provider.jobscript.overrides import override_tokens
from airflow_gym_provider.jobscript.policy import policy_exports
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.run import benchmark_config, effective_run
from airflow_gym_provider.jobscript.steps import Step, mounts_option
from airflow_gym_provider.jobscript.templating import render_template


def driver_step(
    config: SubmitConfig, benchmark: str, job_dir: str, *, node: int | None, defaults: Mapping[str, str]
) -> Step:
    """The step that runs `benchmark` on allocation node `node` (None: the job's only one).

    `defaults` are bash statements by variable name that apply unless ``driver.env`` sets the variable. Raises
    SubmitConfigError for values of `prepare`, `run`, `env` and `mounts` that no program could be given, all at once.
    """
    section, driver = benchmark_config(config, benchmark), config.driver
    place = f"driver.benchmarks.{benchmark}"
    exports = [line for name, line in defaults.items() if name not in driver.env]
    mounts = [f"{job_dir}:{job_dir}", *driver.mounts]
    run = section.run
    with gathering() as part:
        with part():
            exports += export_lines(driver.env, "driver.env")
        with part():
            mounts_option(mounts, "driver")
        with part():
            prepare = override_tokens(section.prepare, f"{place}.prepare")
        with part():
            run = effective_run(config, benchmark, job_dir)
        with part():
            tokens = override_tokens(run, f"{place}.run")
    body = render_template(
        "driver_body.sh.j2",
        exports=exports,
        install=driver.gym_install,
        telemetry=config.otel.enabled and config.otel.gym_telemetry,
        prepare=prepare,
        command=None if section.command is None else section.command.rstrip("\n"),
        run=_run_words(config, tokens),
        policy=policy_exports(config),
        job_dir=job_dir,
        trimmed=_files_to_trim(run),
    )
    return Step(
        title=f"The driver: {benchmark}.",
        name="driver",
        stem="driver",
        container=driver.container,
        mounts=mounts,
        workdir=job_dir,
        nodes=None if node is None else [node],
        body=body,
    )


def _run_words(config: SubmitConfig, tokens: Sequence[str]) -> list[str]:
    """The arguments of ``gym eval run`` as bash words: where results go, then the model type, then the rest."""
    first, *rest = map(quote, tokens)
    model_type = config.driver.policy_model_type
    if config.policy_wiring is None or not model_type:
        return [first, *rest]
    return [first, f"--model-type {quote(model_type)}", *rest]


def _files_to_trim(run: Mapping[str, object]) -> list[str]:
    if run.get("resume_from_cache") is not True:
        return []
    rollouts = str(run["output_jsonl_fpath"])
    stem, _ = posixpath.splitext(rollouts)
    return [rollouts, f"{stem}_failures.jsonl"]
