"""Every value is data, on the real Slurm: hundreds of texts in two jobs, each compared with what its process was given.

`tests.unit.jobscript.texts` has the texts; those drawn at random come with a seed that a failure shows.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import STANDINS, Cluster
from deploying import BENCHMARK, Deployer, Job, a_config, benchmark, make_image, vllm
from fakes.chains import Chains

from airflow_gym_provider.chain import ChainKey, OutcomeKind, StagedFile
from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.jobscript import quote, render_job_script
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from tests.unit.jobscript.texts import LINES, NASTY, random_lines, random_texts

RECORD = """#!/bin/bash
out=$RECORDS/{name}
{{ printf '%s\\0' "$#" "$@"; env -0; }} >"$out.part" && mv "$out.part" "$out"
"""
IMAGE = '-rf it\'s "my" $(touch pwned) `id` ; é世 image'
DIRECTORY = "-rf it's \"my\" $(touch pwned) `touch pwned` ; & # 世\\ é *?[a] ~ {a} $'x'"
LARGE = "é'\n" * 25_000


@dataclass(frozen=True)
class Given:
    """What a process on the node was given."""

    argv: list[str]
    env: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Given:
        count, *rest = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")
        return cls(rest[: int(count)], dict(entry.split("=", 1) for entry in rest[int(count) : -1]))


@dataclass
class RealSlurm:
    """No stand-in: scripts go over ssh."""

    environ: dict[str, str]


@pytest.fixture
def deployer(cluster: Cluster, tmp_path: Path):
    made = Deployer(cluster, tmp_path / DIRECTORY)
    yield made
    made.end()


def test_hundreds_of_values_arrive_byte_for_byte_on_the_node_and_execute_nothing(
    cluster: Cluster, deployer: Deployer, tmp_path: Path, unused_tcp_port: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    hundreds_of_values(cluster, deployer, tmp_path, unused_tcp_port, seed)
    _own_command(deployer, tmp_path)
    _what_sbatch_says_of_a_value(cluster, deployer)
    _nothing_ran(tmp_path, cluster)


def test_a_chain_whose_directory_has_any_name_is_looked_at_queued_and_cancelled_over_ssh(
    cluster: Cluster, ssh_hook: SlurmHook, tmp_path: Path
) -> None:
    class OverSsh(Chains):
        def run(self, script: RemoteScript, environ: dict[str, str] | None = None) -> Answer:
            return ssh_hook.run(script)

    key = ChainKey("-rf $(touch pwned)", f"'; touch pwned #{os.getpid()} {time.time()}", "<b>é\n`id`")
    chains = OverSsh(tmp_path / DIRECTORY, RealSlurm({}), "gpqa", key=key)
    chains.timing = replace(chains.timing, sbatch=30, query=30)
    script = f"#!/bin/bash\n#SBATCH --account={cluster.account}\n#SBATCH --time=5\nsleep 300\n"
    changes = {"files": (StagedFile("job.sh", script, 0o600),)}
    values = {"TOKEN": "\n".join(NASTY), "gym_name": "x --wrap=y", "timeout": "$(touch pwned)"}
    try:
        first = chains.submit(chains.look(), changes=changes, environ=values).outcomes["gpqa"]
        again = chains.submit(chains.look(), changes=changes).outcomes["gpqa"]
        assert (first.kind, again.kind, again.job_id) == (OutcomeKind.SUBMITTED, OutcomeKind.ADOPTED, first.job_id)
        (job,) = chains.look().chains["gpqa"].jobs
        assert job.known and job.live
        assert chains.record()["benchmarks"][0]["job_dir"] == str(chains.directory())
    finally:
        report = chains.cancel("'; touch pwned; #\n$(id)")["gpqa"]
    assert report.cancelled == (first.job_id,)
    ssh_hook.close()
    _nothing_ran(tmp_path, cluster)


@pytest.mark.soak
def test_thousands_of_values_arrive_byte_for_byte(
    cluster: Cluster, deployer: Deployer, tmp_path: Path, unused_tcp_port: int
) -> None:
    end = time.monotonic() + 60 * float(os.environ.get("GYM_SOAK_MINUTES", "20")) / 4
    while time.monotonic() < end:
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        hundreds_of_values(cluster, deployer, tmp_path, unused_tcp_port, seed)
    _nothing_ran(tmp_path, cluster)


def hundreds_of_values(cluster: Cluster, deployer: Deployer, tmp_path: Path, port: int, seed: int) -> None:
    """One job that carries them in every place there is."""
    texts = [text for text in NASTY if len(text) < 1000] + random_texts(seed, 200) + [LARGE]
    lines = [line for line in LINES if len(line) < 1000] + random_lines(seed, 60)
    records = tmp_path / f"records-{seed}"
    records.mkdir()
    _image(cluster, port)
    env = {f"X{number}": text for number, text in enumerate(texts)}
    run = {f"r{number}": text for number, text in enumerate(texts)} | {"all": texts[:100]}
    mounts = _mounts(tmp_path, lines)
    model, name, kind = (line.lstrip("-") or "m" for line in lines[-3:])
    words = " ".join(map(quote, lines))
    server = {"env": _lit(env), "mounts": _plain(mounts), "model": _plain(model), "served_model_name": _plain(name)}
    services = {"policy": vllm(**server, container=IMAGE, extra_args=_plain(words), port=port)}
    driver = {"container": IMAGE, "mounts": _plain(mounts), "policy_model_type": _plain(kind)}
    driver |= {"env": _lit(env) | {"HOSTED": "host:SECRET", "LATER": "runtime:JOB_VALUE"}}
    config = a_config(services, driver={**driver, **benchmark(run=_plain(run), prepare=_plain(run))})
    comment = " ".join(line.strip() for line in lines)[:250].strip()
    # % and \\ would be Slurm's own there
    output = f'{tmp_path}/-o "it\'s" $(touch pwned) #1 é; {len(deployer.jobs)}.txt'
    config["compute"]["cluster"]["extra_args"] = {"comment": _plain(comment), "output": _plain(output)}
    job = deployer(config, {"SECRET": texts[3]}, JOB_VALUE=texts[4], RECORDS=str(records))
    job.wait()
    shown = cluster.run(f"scontrol show job {job.id}")  # at once: the controller soon forgets it
    assert job.exit_status == 0, "\n".join(path.read_text(errors="replace") for path in (job.folder / "logs").iterdir())
    served, prepared, ran = (Given.read(records / name) for name in ("vllm", "gym-prepare", "gym-run"))
    for given in (served, prepared, ran):
        assert {key: given.env[key] for key in env} == env
    assert (ran.env["HOSTED"], ran.env["LATER"]) == (texts[3], texts[4])
    assert served.argv[1] == model and served.argv[-len(lines) :] == lines
    assert _after(served.argv, "--served-model-name") == name
    assert _after(ran.argv, "--model-type") == kind
    for given in (prepared, ran):
        read = _hydra(given.argv)
        assert {key: read[key] for key in run} == run
    assert served.env["PYXIS_STANDIN_MOUNTS"] == ",".join(mounts)
    assert ran.env["PYXIS_STANDIN_MOUNTS"] == ",".join([f"{job.folder}:{job.folder}", *mounts])
    assert ran.env["PYXIS_STANDIN_WORKDIR"] == ran.env["PWD"] == str(job.folder)
    facts = {"Comment": comment, "WorkDir": str(job.folder), "StdOut": output, "JobName": f"gym-{BENCHMARK}"}
    for key, value in facts.items():
        assert re.search(rf"(?m)^.*\b{key}={re.escape(value)} *$", shown), (key, value, shown)
    assert Path(output).exists()


def _image(cluster: Cluster, port: int) -> None:
    """Programs that write down what they were given; the server then answers on its port, as the stand-in does."""
    server = f"exec env -i PATH=/usr/local/bin:/usr/bin:/bin:{shlex.quote(str(Path(sys.executable).parent))} "
    server += f"{shlex.quote(str(STANDINS / 'vllm'))} serve m --port {port}\n"
    make_image(
        cluster,
        re.sub("[/:#]", "_", IMAGE),
        {"vllm": RECORD.format(name="vllm") + server, "gym": RECORD.format(name="gym-$2")},
    )


def _mounts(tmp_path: Path, lines: list[str]) -> list[str]:
    """Mounts of directories that are there, under every name that a mount can have."""
    mounts = []
    for number, line in enumerate(lines[:40]):
        name = re.sub("[/:,]", "", line).encode()[:100].decode(errors="ignore").strip(".") or "x"
        source = tmp_path / "mounts" / str(number) / name
        source.mkdir(parents=True, exist_ok=True)
        mounts.append(f"{source}:/{name}:ro")
    return mounts


def _plain(value: Any) -> Any:
    """`value` as a config says it without meaning an interpolation."""
    if isinstance(value, str):
        return value.replace("\\${", "\\\\${").replace("${", "\\${")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


def _lit(env: dict[str, str]) -> dict[str, str]:
    return {key: f"lit:{_plain(value)}" for key, value in env.items()}


def _after(argv: list[str], flag: str) -> str:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == flag or word.startswith(f"{flag}="):
            return following if word == flag else word.partition("=")[2]
    return ""


def _hydra(argv: list[str]) -> dict[str, Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = [OverridesParser.create().parse_override(word) for word in argv if word.startswith("+")]
    return {override.key_or_group: override.value() for override in parsed}


def _own_command(deployer: Deployer, tmp_path: Path) -> None:
    """A benchmark's own command is shell text of its author's: what is quoted in it stays what it is."""
    command = f'printf \'%s\\0\' {" ".join(map(quote, NASTY))} >"$RECORDS/own"\nprintf %s "$PWD" >"$RECORDS/pwd"\n'
    config = a_config({}, driver={"benchmarks": {BENCHMARK: {"command": _plain(command), "run": None}}})
    config["driver"]["benchmarks"][BENCHMARK].pop("run")
    job: Job = deployer(config, RECORDS=str(tmp_path)).succeeded()
    assert (tmp_path / "own").read_bytes().decode().split("\0")[:-1] == NASTY
    assert (tmp_path / "pwd").read_text() == str(job.folder)


def _what_sbatch_says_of_a_value(cluster: Cluster, deployer: Deployer) -> None:
    """Names that are none are refused by Slurm under the very text that they are, and make no job."""
    script = deployer.jobs[-1].folder / "job.sh"
    text = script.read_text()
    value = "no\\\"such'$(touch pwned) `id` ;#& é"
    for option in ("partition", "account", "qos", "reservation"):
        config = a_config({}, driver=benchmark(command="true"))
        config["driver"]["benchmarks"][BENCHMARK].pop("run")
        found = config["compute"]["cluster"]
        if option == "partition":
            found["node_pools"]["main"]["partition"] = value
        elif option == "account":
            found["account"] = value
        else:
            found["extra_args"] = {option: value}
        script.write_text(render_job_script(load_submit_config(config, environ={}), BENCHMARK, str(script.parent)))
        said = cluster.run(f"sbatch --parsable {shlex.quote(str(script))} 2>&1 || :")
        assert "submission failed: Invalid" in said or "reservation is invalid" in said, said
        assert option != "partition" or value in said
    script.write_text(text)


def _nothing_ran(tmp_path: Path, cluster: Cluster) -> None:
    made = [path for folder in (tmp_path, cluster.folder) for path in folder.rglob("pwned")]
    assert not made and not Path("pwned").exists()
