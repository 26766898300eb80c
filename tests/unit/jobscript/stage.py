"""Plays a job script on this machine: programs that record what reached them stand in for Slurm, vLLM, Gym and Ray."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from airflow_gym_provider.config import SubmitConfig, SubmitConfigWarning, load_submit_config
from airflow_gym_provider.jobscript import render_job_script

RUN = "gym-job-20260101T000000Z-abcdef"

# Every program records its arguments and environment byte for byte: count, arguments, then the environment, each
# ended by NUL. The file appears whole, or not at all.
_RECORD = r"""#!/bin/bash
out=$STAGE/calls/$EPOCHREALTIME-$$-${0##*/}
{ printf '%s\0' "$#" "$@"; env -0; } >"$out.part"
mv "$out.part" "$out"
status=$STAGE/status/${0##*/}
"""
_SERVER = _RECORD + '[[ -e $status ]] && exit "$(<"$status")"\nexec /bin/sleep 30\n'
_PROGRAMS = {
    "vllm": _SERVER,
    "vllm-router": _SERVER,
    "otelcol-contrib": _SERVER,
    "gym": _RECORD + '[[ -e $status.$2 ]] && exit "$(<"$status.$2")"\nexit 0\n',
    "git": _RECORD,
    "uv": _RECORD,
    "pkill": _RECORD,
    "sbatch": _RECORD,
    "scancel": _RECORD,
    "sleep": '#!/bin/bash\necho "$1" >>"$STAGE/pauses"\nexec /bin/sleep 0.02\n',
    "curl": _RECORD + '[[ -e $status ]] && exit "$(<"$status")"\n[[ ! -e $status.slow ]] || /bin/sleep 0.3\n',
    "scontrol": "#!/bin/bash\ntr , '\\n' <<<\"${!#}\"\n",
    "getent": '#!/bin/bash\necho "10.0.0.$((${2#n} + 1)) STREAM $2"\n',
    "hostname": '#!/bin/bash\necho "${SLURMD_NODENAME:-n0}"\n',
    "srun": _RECORD
    + r"""export SLURMD_NODENAME=n0
while [[ $1 == -* ]]; do
  [[ $1 != --nodelist=* ]] || SLURMD_NODENAME=${1#*=}
  shift
done
exec "$@"
""",
    "ray": r"""#!/bin/bash
[[ $1 != status ]] || exit 0
if [[ "$1 $2" == 'symmetric-run --help' ]]; then
  [[ -e $STAGE/status/symmetric ]]
  exit
fi
"""
    + _RECORD.removeprefix("#!/bin/bash\n")
    + r"""
if [[ $1 == symmetric-run ]]; then
  while [[ $1 != -- ]]; do shift; done
  shift
  exec "$@"
fi
[[ " $* " != *' --block '* ]] || exec /bin/sleep 30
""",
}


@dataclass(frozen=True)
class Call:
    """One start of a program: its arguments and its environment, as bytes decoded without loss."""

    program: str
    argv: list[str]
    env: dict[str, str]

    @property
    def node(self) -> str:
        return self.env["SLURMD_NODENAME"]

    def flag(self, name: str) -> str | None:
        """The value of ``--flag value`` or ``--flag=value``."""
        for position, word in enumerate(self.argv):
            if word == name:
                return self.argv[position + 1]
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
        return None


@dataclass(frozen=True)
class Played:
    """What a job did: exit status, what the batch script printed, and every program's start in order."""

    status: int
    output: str
    calls: list[Call]
    folder: Path
    pauses: list[int]
    """Seconds of each sleep, which lasts an instant here."""

    def of(self, program: str) -> list[Call]:
        return [call for call in self.calls if call.program == program]

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}-4242.log").read_text()


@dataclass
class Job:
    """A job to play. `expect` counts the starts to wait for, since services start in the background."""

    config: SubmitConfig
    benchmark: str = "bench"
    environ: Mapping[str, str] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)
    expect: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    symmetric: bool = False


def play(job: Job, base: Path) -> Played:
    """Render and run `job` below `base`; background steps are ended with it."""
    folder = base / RUN / job.benchmark
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in job.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with tempfile.TemporaryDirectory(prefix="stage-") as stage:
        return _run(job, folder, _build(Path(stage), job))


def _build(stage: Path, job: Job) -> Path:
    for part in ("bin", "calls", "status"):
        (stage / part).mkdir()
    for name, text in _PROGRAMS.items():
        (stage / "bin" / name).write_text(text)
        (stage / "bin" / name).chmod(0o755)
    for name, status in job.statuses.items():
        (stage / "status" / name).write_text(str(status))
    if job.symmetric:
        (stage / "status" / "symmetric").touch()
    return stage


def _run(job: Job, folder: Path, stage: Path) -> Played:
    nodes = job.config.placement.total_nodes
    environ = {
        "PATH": f"{stage}/bin:/usr/bin:/bin",
        "HOME": str(stage),
        "USER": "someone",
        "STAGE": str(stage),
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NODELIST": ",".join(f"n{number}" for number in range(nodes)),
        **job.environ,
    }
    (folder / "job.sh").write_text(render_job_script(job.config, job.benchmark, str(folder)), encoding="utf-8")
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            ["/bin/bash", "job.sh"], cwd=folder, env=environ, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout=60)
            calls = _settle(stage / "calls", job.expect)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    slept = (stage / "pauses").read_text().split() if (stage / "pauses").exists() else []
    return Played(status, (folder / "output").read_text(errors="surrogateescape"), calls, folder, [*map(int, slept)])


def _settle(folder: Path, expect: Mapping[str, int]) -> list[Call]:
    deadline = time.monotonic() + 10
    while True:
        calls = [_read(path) for path in sorted(folder.iterdir()) if path.suffix != ".part"]
        seen = Counter(call.program for call in calls)
        if all(seen[name] >= count for name, count in expect.items()) or time.monotonic() > deadline:
            return calls
        time.sleep(0.02)


def _read(path: Path) -> Call:
    count, *rest = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")
    argv, env = rest[: int(count)], rest[int(count) : -1]
    return Call(path.name.split("-", 2)[2], argv, dict(entry.split("=", 1) for entry in env))


def config(text: str, environ: Mapping[str, str] | None = None, overrides: tuple[str, ...] = ()) -> SubmitConfig:
    """The config in a YAML text; what it leaves out of compute, job and otel is filled in."""
    tree = yaml.safe_load(text) if text.strip() else {}
    return config_of(tree, environ, overrides)


def config_of(tree: dict, environ: Mapping[str, str] | None = None, overrides: tuple[str, ...] = ()) -> SubmitConfig:
    """The config in a mapping, with the same defaults."""
    base = {
        "services": {},
        "compute": {"cluster": {"type": "slurm", "account": "acct", "node_pools": {"main": {"partition": "batch"}}}},
        "job": {"output_path": "/lustre/evals"},
        "otel": {"enabled": False},
    }
    merged = {**base, **tree}
    merged["driver"] = {"container": "gym:latest", "benchmarks": {"bench": {}}, **tree.get("driver", {})}
    with warnings.catch_warnings():
        # Pools without a service are what some of these tests are about.
        warnings.simplefilter("ignore", SubmitConfigWarning)
        return load_submit_config(merged, overrides=overrides, environ=dict(environ or {}))


def literal(text: str) -> str:
    """`text` as a config writes it so that it is not taken for an interpolation."""
    return text.replace("\\${", "\\\\${").replace("${", "\\${")
