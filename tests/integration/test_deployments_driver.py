"""The driver of a deployed job: what it is given, what it runs, and how the job ends when something does not work."""

from __future__ import annotations

import json
import time

import pytest
from deploying import a_config, benchmark, make_image, standin_script, vllm

from airflow_gym_provider.slurm import parse_sacct

# What shells, Hydra, printf, Jinja and here-documents would each make something else of.
HOSTILE = "a  b'c\"d $HOME `id` $(id) \\ \\\\ \\n ; & | < > * ? # ! ~ %s {{ x }} END_DRIVER é 漢 🎉 = , [ ] { } : \t."


def no_services(**changes) -> dict:
    """A job of the driver alone."""
    return a_config({}, **changes)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"env": {"STANDIN_VLLM_FAIL": "lit:start"}}, "has ended by itself"),
        ({"pre_command": "exit 0"}, "has ended by itself"),
        ({"env": {"STANDIN_VLLM_FAIL": "lit:health"}, "health_check": {"timeout_seconds": 5}}, "did not answer at"),
    ],
    ids=["dies", "ends well", "is never healthy"],
)
def test_no_benchmark_runs_when_a_service(deploy, field, says):
    services = {"policy": vllm(), "judge": vllm(port=8100, **field)}
    job = deploy(a_config(services, driver=benchmark(run={}))).failed(1)
    assert f"judge {says}" in job.output
    assert not job.calls("gym") and not job.rollouts()


def test_a_dead_service_is_noticed_while_another_one_still_loads(deploy):
    slow = vllm(env={"STANDIN_VLLM_DELAY": "lit:100"}, health_check={"timeout_seconds": 100})
    began = time.monotonic()
    job = deploy(a_config({"slow": slow, "short": vllm(port=8100, env={"STANDIN_VLLM_FAIL": "lit:exit:1"})})).failed(1)
    assert "short has ended by itself" in job.output and not job.calls("gym")
    assert time.monotonic() - began < 40


def test_the_jobs_exit_status_is_the_drivers(deploy):
    run = {"standin": {"exit_after": 2, "exit_code": 75}}
    job = deploy(a_config({"policy": vllm()}, driver=benchmark(run=run))).failed(75)
    assert len(job.rollouts()) == 2
    assert "ended with status 75" in job.output


def test_prepare_comes_before_the_benchmark_and_its_failure_ends_the_job(deploy):
    good = deploy(
        no_services(driver=benchmark(prepare={"split": "benchmark", "a": {"b": [1, "x y"]}}, run={"limit": 1}))
    )
    broken = make_image(
        deploy.cluster, "gym-that-cannot-prepare", {"gym": '#!/bin/sh\n[ "$2" != prepare ] || exit 9\n'}
    )
    bad = deploy(no_services(driver={"container": broken, **benchmark(prepare={"split": "x"})}))
    prepare, run = good.succeeded().calls("gym")
    assert prepare.argv == ["gym", "eval", "prepare", "+split=benchmark", '+a.b=[1,"x y"]']
    assert run.argv[:3] == ["gym", "eval", "run"] and "--model-type" not in run.argv
    bad.failed(9)


def test_a_resumed_run_goes_on_after_a_line_that_was_cut_short(deploy):
    run = {"limit": 4, "standin": {"exit_after": 2}}
    config = a_config({"policy": vllm()}, driver=benchmark(run=run, resumable=True))
    first = deploy(config).failed(1)
    rollouts = first.folder / "artifacts" / "rollouts.jsonl"
    with rollouts.open("a") as file:
        file.write('{"_ng_task_index": 3, "torn')
    again = first.again().failed(1)
    assert again.call("gym").overrides()["resume_from_cache"] == "true"
    assert "removing the unfinished last line" in again.log("driver")
    assert len(again.rollouts()) == 4
    assert len(list((first.folder / "logs").iterdir())) == 4


COMMAND = """\
env -0 >seen
printf '%s' "$0" "$-" >shell
cat <<'END' | tee text >/dev/null
{{ not a template }} $HOME `id` 'a' "b" \\\\
END
python3 -c "import urllib.request, os
print(urllib.request.urlopen(os.environ['NEMO_GYM_POLICY_BASE_URL'] + '/models').status)" >status
false | true
echo not reached >after
"""


def test_a_command_of_its_own_gets_the_policy_and_stops_at_the_first_error(deploy):
    driver = {"policy_host": "${oc.env:HEAD_NODE_IP}", "env": {"MINE": "lit:1"}}
    config = a_config({"policy": vllm(served_model_name="tiny model")})
    config["driver"] = {**config["driver"], **driver, "benchmarks": {"demo": {"command": COMMAND}}}
    job = deploy(config).failed(1)
    seen = dict(item.split("=", 1) for item in (job.folder / "seen").read_text().split("\0") if item)
    assert seen["NEMO_GYM_BENCH_DIR"] == str(job.folder) and seen["MINE"] == "1"
    assert seen["NEMO_GYM_POLICY_MODEL_NAME"] == "tiny model" and seen["NEMO_GYM_POLICY_API_KEY"]
    assert seen["NEMO_GYM_POLICY_BASE_URL"] == f"http://{seen['HEAD_NODE_IP']}:8000/v1"
    assert (job.folder / "status").read_text() == "200\n"
    assert (job.folder / "text").read_text() == "{{ not a template }} $HOME `id` 'a' \"b\" \\\\\n"
    assert not (job.folder / "after").exists() and not job.calls("gym")


GIT = """\
#!/bin/bash
printf '%q ' git "$@" >>"$STANDIN_RECORD_DIR/installed"; echo >>"$STANDIN_RECORD_DIR/installed"
[ "$1" != clone ] || touch pyproject.toml
"""
UV = """\
#!/bin/bash
printf '%q ' uv "$@" >>"$STANDIN_RECORD_DIR/installed"; echo >>"$STANDIN_RECORD_DIR/installed"
case $1 in
    venv) mkdir -p "$2/bin" ;;
    pip) [ -e pyproject.toml ] && cp "$(dirname "$0")/real-gym" "$VIRTUAL_ENV/bin/gym" ;;
esac
"""


def test_gym_is_installed_from_a_checkout_of_its_own(deploy):
    programs = {"git": GIT, "uv": UV, "real-gym": standin_script("gym"), "gym": "#!/bin/sh\nexit 66\n"}
    driver = {"container": make_image(deploy.cluster, "gym-installer", programs)}
    driver["gym_install"] = {"repo": "https://example.com/a gym.git", "ref": "v1.2-rc"}
    job = deploy(a_config({"policy": vllm()}, driver=driver)).succeeded()
    assert (job.folder / "records" / "installed").read_text().splitlines() == [
        "git clone https://example.com/a\\ gym.git . ",
        "git checkout v1.2-rc -- ",
        "uv venv .venv ",
        "uv pip install -e . ",
    ]
    gym = job.call("gym")
    assert gym.cwd != str(job.folder) and gym.env["VIRTUAL_ENV"] == f"{gym.cwd}/.venv"
    assert len(job.rollouts()) == 3


def test_values_of_hostile_text_arrive_as_they_are(deploy):
    text, line = HOSTILE, HOSTILE.replace("\t", "")
    run = {"text": text, "many": [text, {"a": text}, -1, 0.5, None, True, "1", "null"], "deep": {"er": {"key": "'"}}}
    services = {"policy": vllm(model=f"org/{line}", served_model_name=f"-{line}", env={"T": f"lit:{text}\nsecond"})}
    config = a_config(services, driver={"env": {"T": "host:SECRET"}, "policy_model": None, **benchmark(run=run)})
    config["compute"]["cluster"]["extra_args"] = {"comment": 'it\'s "a" $HOME `id` #1'}
    job = deploy(config, {"SECRET": f"{text}\n\n"}).succeeded()
    server, gym = job.call("vllm"), job.call("gym")
    assert server.env["T"] == f"{text}\nsecond" and server.argv[2] == f"org/{line}"
    assert f"--served-model-name=-{line}" in server.argv
    assert gym.env["T"] == f"{text}\n\n"
    assert parsed_by_hydra(gym.argv[3:], "text", "many", "deep") == {key: run[key] for key in ("text", "many", "deep")}
    comment = deploy.cluster.run(f"scontrol show job {job.id} | sed -n 's/^ *Comment=//p'").rstrip("\n")
    assert comment.strip() == 'it\'s "a" $HOME `id` #1'
    assert parse_sacct(deploy.cluster.run(f"sacct -P -j {job.id}"))[0].state == "COMPLETED"


def parsed_by_hydra(words: list[str], *keys: str) -> dict:
    """The values that the real Hydra and OmegaConf make of gym's arguments."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    config = OmegaConf.create({})
    overrides = OverridesParser.create().parse_overrides(words)
    ConfigLoaderImpl._apply_overrides_to_config(overrides, config)
    found = OmegaConf.to_container(config, resolve=True)
    return {key: found[key] for key in keys}


def test_forwarded_secrets_arrive_and_stand_in_no_argument_and_no_file(deploy):
    secret = "s3cr$t 'with' \"signs\""
    config = a_config({"policy": vllm(env={"TOKEN": "runtime:HF_TOKEN", "ABSENT": "runtime:NOT_THERE"})})
    config["compute"]["cluster"]["forward_env"] = ["HF_TOKEN"]
    config["driver"]["env"] = {"KEY": "runtime:HF_TOKEN", "NODE": "runtime:SLURMD_NODENAME", "ABSENT": "lit:"}
    job = deploy(config, {"HF_TOKEN": secret}).succeeded()
    server, gym = job.call("vllm"), job.call("gym")
    assert server.env["TOKEN"] == gym.env["KEY"] == secret
    assert gym.env["NODE"] == gym.node
    assert "ABSENT" not in server.env and gym.env["ABSENT"] == ""
    files = [path for path in job.folder.rglob("*") if path.is_file() and path.parent.name != "records"]
    assert not [path for path in files if "s3cr" in path.read_text(errors="replace")]
    assert "s3cr" not in json.dumps([server.argv, gym.argv])


def test_a_job_of_several_tasks_for_each_node_starts_each_process_once(deploy):
    config = a_config({"policy": vllm(number_of_instances=2)}, {"main": {"nodes": 2, "ntasks_per_node": 4}})
    job = deploy(config).succeeded()
    assert len(job.calls("vllm")) == 2 and len(job.calls("gym")) == 1
