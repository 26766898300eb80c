"""The golden scripts: rendered from ``tests/data/jobscript/*.yaml``. Run this file to write them anew."""

from __future__ import annotations

from pathlib import Path

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.jobscript import render_job_script

FOLDER = Path(__file__).parents[2] / "data" / "jobscript"
ENVIRON = {"HF_TOKEN": "hf_it's a secret", "OTEL_TOKEN": "never-in-a-script"}


def names() -> list[str]:
    """The configs there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def render(name: str) -> str:
    """The script of the only benchmark of a config."""
    config = load_submit_config(FOLDER / f"{name}.yaml", environ=ENVIRON)
    (benchmark,) = config.driver.benchmarks
    return render_job_script(config, benchmark, f"{config.job.output_path}/gym-job-20260101T000000Z-abcdef/{benchmark}")


if __name__ == "__main__":
    for each in names():
        (FOLDER / f"{each}.sh").write_text(render(each), encoding="utf-8")
