"""Every value of a config is data: it arrives byte for byte where it was meant for, and nothing else is executed.

Many values share a job that is played, since a bash is dear and a value is cheap. The texts of `texts.NASTY` are always
among them; Hypothesis prints how to repeat what it found, and what was found belongs into that list.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import quote, render_job_script
from airflow_gym_provider.jobscript.environment import export_lines

from .stage import Call, Job, Played, config_of, literal, play
from .texts import LINES, NASTY, random_lines, random_texts

settings.load_profile("jobscript")

PLAYS = int(os.environ.get("GYM_TESTS_EXAMPLES", "100")) // 20
POLICY = {"type": "vllm", "container": "c", "model": "m"}
KEPT = [text for text in NASTY if len(text) < 1000]
KEPT_LINES = [text for text in LINES if len(text) < 1000]
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a seed has no smaller one
NO_PATH = ":,"
"""What neither a directory of ours nor a mount can hold, by Pyxis' grammar."""


def _paths(lines: Sequence[str]) -> list[str]:
    return ["/" + re.sub(f"[{NO_PATH}]", "", line) for line in lines]


def _dashless(lines: Sequence[str]) -> list[str]:
    return [line.lstrip("-") or "x" for line in lines]


@settings(max_examples=PLAYS, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32))
def test_every_value_of_a_config_arrives_byte_for_byte_and_executes_nothing(tmp_path: Path, seed: int) -> None:
    texts = KEPT + random_texts(seed, 200)
    lines = random_lines(seed, 40) + KEPT_LINES
    env = {f"X{number}": text for number, text in enumerate(texts)}
    run = {f"r{number}": text for number, text in enumerate(texts)} | {"all": texts, "deep": {"er": [{"a": texts[0]}]}}
    mounts = [f"{path}:{path}:ro" for path in _paths(lines)]
    (model, name, image, driver_image, kind), rest = lines[:5], lines[5:]
    own = {
        "env": _lit(env),
        "mounts": _escaped(mounts),
        "model": literal(_dashless([model])[0]),
        "container": literal(image),
    }
    own |= {"served_model_name": literal(name), "extra_args": literal(" ".join(map(quote, lines)))}
    driver = {
        "env": _lit(env) | {"HOSTED": "host:SECRET", "LATER": "runtime:JOB_VALUE"},
        "mounts": _escaped(mounts),
        "container": literal(driver_image),
        "policy_model": "policy",
        "policy_model_type": literal(kind),
        "benchmarks": {"bench": {"run": _escaped(run), "prepare": _escaped(run)}},
    }
    tree = {"services": {"policy": {**POLICY, **own}}, "driver": driver}
    folder = tmp_path / re.sub(r"/|\.\.|\$\{", "", _paths(rest)[0]) / "x"
    environ = {"JOB_VALUE": texts[1], "SECRET": texts[2]}
    job = Job(config_of(tree, environ), environ={"JOB_VALUE": texts[1]}, expect={"vllm": 1, "gym": 2})
    played = play(job, folder)
    assert played.status == 0, played.output
    (vllm,), (prepare, gym), (server, client) = played.of("vllm"), played.of("gym"), played.of("srun")
    for call in (vllm, prepare, gym):
        assert {key: call.env[key] for key in env} == env
    assert (gym.env["HOSTED"], gym.env["LATER"]) == (texts[2], texts[1])
    for call in (prepare, gym):
        read = _hydra(call)
        assert {key: read[key] for key in run if key != "deep"} | {"deep": {"er": read["deep.er"]}} == run
    assert vllm.argv[1] == _dashless([model])[0] and vllm.flag("--served-model-name") == name
    assert vllm.argv[-len(lines) :] == lines
    assert gym.flag("--model-type") == kind
    assert server.flag("--container-image") == image and client.flag("--container-image") == driver_image
    assert server.flag("--container-mounts") == ",".join(dict.fromkeys(mounts))
    assert client.flag("--container-mounts") == ",".join(dict.fromkeys([f"{played.folder}:{played.folder}", *mounts]))
    assert client.flag("--container-workdir") == str(played.folder)
    _nothing_else_ran(played)


def _lit(env: dict[str, str]) -> dict[str, str]:
    return {key: f"lit:{literal(value)}" for key, value in env.items()}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value]


def _hydra(call: Call) -> dict[str, Any]:
    parser = OverridesParser.create()
    parsed = [parser.parse_override(word) for word in call.argv if word.startswith("+")]
    return {override.key_or_group: override.value() for override in parsed}


def _nothing_else_ran(played: Played) -> None:
    assert {call.program for call in played.calls} <= {"srun", "vllm", "gym", "curl", "sleep"}
    assert {path.name for path in played.folder.iterdir()} == {"job.sh", "output", "logs", "artifacts"}
    assert "pwned" not in {path.name for path in (*played.folder.rglob("*"), *played.folder.parents)}


def _tree(
    service: dict[str, Any] | None = None, driver: dict[str, Any] | None = None, **cluster: Any
) -> dict[str, Any]:
    compute = {"type": "slurm", "account": "a", "node_pools": {"main": {"partition": "p"}}, **cluster}
    return {
        "services": {"policy": {**POLICY, **(service or {})}},
        "driver": {"policy_model": "policy", **(driver or {})},
        "compute": {"cluster": compute},
    }


BIG = "x" * 200_000
DOS = "echo a\r\necho b"


@pytest.mark.parametrize(
    ("tree", "place", "told"),
    [
        (_tree({"model": BIG}), "services.policy.model", "200000 bytes"),
        (_tree({"model": "-rf"}), "services.policy.model", "read as an option"),
        (_tree({"container": BIG}), "services.policy.container", "200000 bytes"),
        (_tree({"mounts": [f"/{n}{'y' * 1000}" for n in range(99)]}), "the mounts of policy", "argument of 198"),
        (_tree({"mounts": ["/a,b"]}), "services.policy.mounts.0", "comma"),
        (_tree({"mounts": ["/a\nb"]}), "services.policy.mounts.0", "line break"),
        (_tree({"extra_args": f"--x '{BIG}'"}), "services.policy.extra_args", "one word has 200000 bytes"),
        (_tree({"extra_args": "--x 'a\r\nb'"}), "services.policy.extra_args", "DOS line break"),
        (_tree({"extra_args": "--x \0"}), "services.policy.extra_args", "NUL"),
        (_tree({"pre_command": DOS}), "services.policy.pre_command", "DOS line breaks"),
        (_tree({"env": {"X": f"lit:{BIG}"}}), "services.policy.env.X", "131071 bytes"),
        (_tree({"env": {f"X{n}": "lit:" + "y" * 99_999 for n in range(30)}}), "services.policy.env", "2999970 bytes"),
        (_tree({"env": {"X": "host:LATIN"}}), "services.policy.env.X", "not valid UTF-8"),
        (_tree({"env": {"X": "host:LARGE"}}), "services.policy.env.X", "200006 bytes with its name"),
        (_tree({"env": {"_": "lit:x"}}), "services.policy.env._", "bash keeps"),
        (_tree(driver={"env": {"gym_checkout": "lit:x"}}), "driver.env.gym_checkout", "the job script uses"),
        (_tree(driver={"benchmarks": {"bench": {"command": DOS}}}), "bench.command", "DOS line breaks"),
        (_tree(driver={"benchmarks": {"bench": {"run": {"a": BIG}}}}), "bench.run.a", "131071"),
        (
            _tree(driver={"benchmarks": {"bench": {"run": {f"a{n}": "y" * 99_999 for n in range(30)}}}}),
            "driver.benchmarks.bench.run",
            "arguments have 300",
        ),
        (_tree(driver={"benchmarks": {"be;nch": {}}}), "driver.benchmarks", "be;nch"),
        (_tree(driver={"benchmarks": {"-rf": {}}}), "driver.benchmarks", "read as an option"),
        (_tree(account="a\nb"), "compute.cluster.account", "line break"),
        (_tree(account="a\x80b"), "compute.cluster.account", "control character"),
        (_tree(account=""), "compute.cluster.account", "empty"),
        (_tree(account="y" * 1025), "the directive --account", "at most 1024"),
        (_tree(extra_args={"comment": "y" * 1025}), "the directive --comment", "at most 1024"),
        (_tree(extra_args={"comment": "a\n#SBATCH --nodes=9"}), "extra_args.comment", "line break"),
        (_tree(extra_args={"qos=x": "y"}), "extra_args", "name of a directive"),
        (_tree(extra_args={"output": "/" + "y" * 5000}), "the directive --output", "at most 4096"),
        (_tree(forward_env=["a b"]), "forward_env", "a b"),
        (_tree(forward_env=["RANDOM"]), "forward_env.0", "bash keeps"),
        (_tree(forward_env=["_gym_saved_lc_all"]), "forward_env.0", "bash keeps"),
        (_tree(forward_env=["SBATCH_PARTITION"]), "forward_env.0", "override directives"),
        ({**_tree(), "job": {"output_path": "/a/${b"}}, "job.output_path", "${"),
        ({**_tree(), "job": {"output_path": "/a\x9bb"}}, "job.output_path", "control character"),
        ({**_tree(), "job": {"output_path": "-rf"}}, "job.output_path", "absolute"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_name(tree: dict[str, Any], place: str, told: str) -> None:
    with pytest.raises(SubmitConfigError) as refusal:
        render_job_script(config_of(tree, {"LATIN": "a\udce9", "LARGE": BIG}), "bench", "/lustre/x")
    assert place in str(refusal.value) and told in str(refusal.value)
    assert len(str(refusal.value)) < 2000


def test_a_directory_that_gym_would_interpolate_is_refused() -> None:
    with pytest.raises(SubmitConfigError, match=r"job\.output_path: .*interpolation"):
        render_job_script(config_of(_tree()), "bench", "/lustre/${HOME}/x")


OF_THE_MANUAL = """PIPESTATUS BASH_REMATCH MAPFILE REPLY COPROC COLUMNS LINES OPTARG OPTIND FUNCNAME BASH_ENV ENV TMOUT
POSIXLY_CORRECT GLOBIGNORE HOME CDPATH INPUTRC LC_ALL LANG TZ LD_PRELOAD PROMPT_COMMAND EXECIGNORE BASH_COMPAT A a"""


def test_a_variable_of_any_name_arrives_or_is_refused() -> None:
    """Every name that bash itself uses, those of its manual, and those that the steps' own text assigns."""
    own = set(
        subprocess.run(["bash", "-c", "compgen -v"], capture_output=True, text=True, check=True, env={}).stdout.split()
    )
    templates = Path(render_job_script.__code__.co_filename).with_name("templates")
    texts = [
        path.read_text() for path in templates.glob("*.j2") if "body" in path.name or path.name == "ray_head.sh.j2"
    ]
    own |= {name for text in texts for name in re.findall(r"^ *(?:for )?([a-z_]+)(?:=| in )", text, re.M)}
    own |= set(re.findall(r"\w+", OF_THE_MANUAL))
    env = config_of({"driver": {"env": {name: f"lit:/x {name}" for name in sorted(own - {"_"})}}}).driver.env
    refused = {name for name in env if _refused({name: env[name]})}
    lines = export_lines({name: value for name, value in env.items() if name not in refused}, "env")
    body = "{\n" + "\n".join(lines) + "\nexec /usr/bin/env -0\n} </dev/null\n"
    done = subprocess.run(["bash", "-s"], input=body.encode(), capture_output=True, check=True, env={"PATH": "/bin"})
    found = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0")[:-1])
    assert {name: found.get(name) for name in env if name not in refused} == {
        name: f"/x {name}" for name in env if name not in refused
    }
    assert {"gym_checkout", "serve", "ray_address", "RANDOM", "PIPESTATUS"} <= refused
    assert not {"PATH", "HOME", "IFS", "LC_ALL", "A", "a", "LD_PRELOAD"} & refused


def _refused(env: Any) -> bool:
    try:
        export_lines(env, "env")
    except SubmitConfigError:
        return True
    return False
