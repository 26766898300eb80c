"""`airflow gym validate` and `render`: what they say, and with which exit status."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_valid_config(gym, config):
    done = gym("validate", config)
    assert (done.status, done.err) == (0, "")
    assert done.out == "valid: 2 benchmarks (gpqa, own) on compute.eos\n"


def test_a_valid_config_as_json(gym, config):
    done = gym("validate", config, "compute.eos.walltime=1:00:00", "--json")
    assert done.status == 0
    assert done.json["ok"] is True
    assert done.json["benchmarks"] == ["gpqa", "own"]
    assert done.json["config"]["compute"]["eos"]["walltime"] == "1:00:00"
    assert "swordfish" not in done.out


def test_every_problem_at_once(gym, config):
    words = ("validate", config, "compute.eos.walltime=soon", "+driver.bencmarks=x")
    done = gym(*words)
    assert (done.status, done.out) == (1, "")
    assert "the submit config has 2 problems:" in done.err
    assert "compute.eos.walltime: 'soon' is not a duration" in done.err
    found = gym(*words, "--json")
    assert (found.status, found.json["ok"]) == (1, False)
    assert {problem["where"] for problem in found.json["problems"]} == {"compute.eos.walltime", "driver.bencmarks"}


def test_what_only_rendering_finds(gym, config):
    done = gym("validate", config, "+compute.eos.node_pools.b={partition: other}")
    assert done.status == 1
    assert "pools disagree on partition" in done.err


@pytest.mark.parametrize("command", ["validate", "render"])
def test_what_rendering_finds_in_every_benchmark_is_told_once(gym, config, tmp_path, command):
    benchmarks = "{gpqa: {run: {a b: 1}}, own: {prepare: {c d: 1}}}"
    (tmp_path / "more.yaml").write_text(f"driver: {{env: {{UID: 'lit:0'}}, benchmarks: {benchmarks}}}")
    done = gym(command, config, tmp_path / "more.yaml", "--json")
    assert done.status == 1
    places = [problem["where"] for problem in done.json["problems"]]
    assert sorted(places) == ["driver.benchmarks.gpqa.run.a b", "driver.benchmarks.own.prepare.c d", "driver.env.UID"]


def test_warnings_do_not_make_it_invalid(gym, config):
    done = gym("validate", config, "driver.benchmarks.gpqa.resumable.max_walltime=1:00:00")
    assert done.status == 0
    assert "warning: driver.benchmarks.gpqa.resumable.max_walltime" in done.err
    assert gym("validate", config, "driver.benchmarks.gpqa.resumable.max_walltime=1:00:00", "--json").json["warnings"]


def test_a_variable_that_is_set_elsewhere(gym, config, monkeypatch):
    monkeypatch.delenv("CLI_TOKEN")
    assert "host:CLI_TOKEN is not set" in gym("validate", config).err
    assert gym("validate", config, "--any-env").status == 0
    collector = ("otel.enabled=true", "+otel.endpoint=http://x", "+otel.service_name=s", "+otel.gym_telemetry=false")
    monkeypatch.setenv("CLI_TOKEN", "x")
    assert "OTEL_TOKEN" in gym("validate", config, *collector).err
    done = gym("validate", config, *collector, "--any-env")
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-file.yaml"], "'no-such-file.yaml' is neither a file that exists nor an override"),
        (["a.b=c"], "no config was given"),
        (["{config}", "--template", "ds"], "--template 'ds' is not NAME=VALUE"),
        (["{config}", "--conn-id", "no_such"], "there is no connection 'no_such'"),
    ],
)
def test_wrong_usage(gym, config, words, told):
    done = gym("validate", *(word.format(config=config) for word in words))
    assert (done.status, done.out) == (2, "")
    assert told in done.err


def test_a_long_override_is_no_file(gym, config):
    done = gym("validate", config, f"driver.benchmarks.own.command={'x' * 400}", "--json")
    assert (done.status, done.json["config"]["driver"]["benchmarks"]["own"]["command"]) == (0, "x" * 400)


@pytest.mark.parametrize("extra", ["[1]", '{"account": ["a"]}'])
def test_a_connection_that_cannot_be_used(gym, config, monkeypatch, extra):
    monkeypatch.setenv("AIRFLOW_CONN_EOS", json.dumps({"conn_type": "slurm", "host": "eos", "extra": extra}))
    done = gym("validate", config, "--conn-id", "eos", "--json")
    assert done.status == 2
    assert "onnection 'eos'" in done.json["error"]


def test_no_words_at_all(gym):
    done = gym("validate")
    assert done.status == 2
    assert "the following arguments are required: CONFIG|KEY=VALUE" in done.err


def test_an_unknown_benchmark(gym, config):
    done = gym("validate", config, "-b", "gqpa")
    assert done.status == 1
    assert "driver.benchmarks has gpqa, own: there is no 'gqpa'" in done.err


def test_several_files_later_over_earlier(gym, config, tmp_path):
    (tmp_path / "site.yaml").write_text("compute: {eos: {account: sites, walltime: '1:00:00'}}")
    done = gym("validate", tmp_path / "site.yaml", config, "--json")
    assert done.json["config"]["compute"]["eos"]["account"] == "acct"


def test_the_resolved_config_can_be_given_again(gym, config, tmp_path):
    done = gym("validate", config, "--resolved")
    assert done.status == 0
    assert "host:CLI_TOKEN" in done.out
    (tmp_path / "again.yaml").write_text(done.out)
    assert gym("validate", tmp_path / "again.yaml", "--resolved").out == done.out


def test_jinja_in_a_file_gets_its_values_from_the_command_line(gym, config, tmp_path):
    path = tmp_path / "templated.yaml"
    path.write_text(Path(config).read_text().replace("org/model", "{{ params.model }}/{{ ds }}"))
    done = gym("validate", path)
    assert done.status == 1
    assert "is undefined: a DAG run gives it; here give it with --template NAME=VALUE" in done.err
    words = ("--template", "params.model=/ckpt", "--template", "ds=2026-01-31")
    services = gym("validate", path, *words, "--json").json["config"]["services"]
    assert services["policy"]["model"] == "/ckpt/2026-01-31"


def test_a_connection_fills_in_what_is_left_out(gym, config, monkeypatch):
    extra = {"account": "conn-acct", "output_path": "relative"}
    monkeypatch.setenv("AIRFLOW_CONN_EOS", json.dumps({"conn_type": "slurm", "host": "eos", "extra": extra}))
    words = ("validate", config, "~compute.eos.account", "--conn-id", "eos")
    done = gym(*words, "--json")
    assert done.json["config"]["compute"]["eos"]["account"] == "conn-acct"
    done = gym("validate", config, "~job.output_path", "--conn-id", "eos")
    assert done.status == 1
    assert "'relative' must be an absolute path" in done.err
    assert "(this value is from connection 'eos')" in done.err


def test_scripts_are_printed_without_secrets(gym, config, out):
    done = gym("render", config)
    assert done.status == 0
    assert f"### gpqa: {out}/gym-job-example/gpqa/job.sh" in done.out
    assert f"#SBATCH --chdir={out}/gym-job-example/own" in done.out
    assert "export HF_TOKEN='<CLI_TOKEN>'" in done.out
    assert "swordfish" not in done.out + done.err


def test_one_script_is_printed_as_it_is(gym, config, out):
    done = gym("render", config, "-b", "own", "--name", "tonight")
    assert done.out.startswith("#!/")
    assert f"#SBATCH --chdir={out}/tonight/own" in done.out


def test_secrets_when_they_are_asked_for(gym, config, monkeypatch):
    done = gym("render", config, "-b", "gpqa", "--secrets", "--json")
    assert "export HF_TOKEN=swordfish" in done.json["scripts"]["gpqa"]
    monkeypatch.delenv("CLI_TOKEN")
    assert gym("render", config).status == 0
    assert gym("render", config, "--secrets").status == 1


def test_a_secret_that_an_interpolation_reads_is_hidden_too(gym, config):
    done = gym("render", config, "driver.benchmarks.own.command='curl -H ${oc.env:CLI_TOKEN} x'", "-b", "own")
    assert done.status == 0
    assert "<CLI_TOKEN>" in done.out
    assert "swordfish" not in done.out


def test_what_is_read_under_any_name_is_hidden(gym, config, monkeypatch):
    monkeypatch.setenv("DATABASE_ADDRESS", "postgres://u:swordfish-2@db")
    done = gym("render", config, "+driver.benchmarks.gpqa.run.db=${oc.env:DATABASE_ADDRESS}", "-b", "gpqa")
    assert done.status == 0
    assert "<DATABASE_ADDRESS>" in done.out
    assert "swordfish" not in done.out


def test_scripts_are_written_for_their_owner_alone(gym, config, tmp_path):
    folder = tmp_path / "scripts"
    (folder / "own").mkdir(parents=True)
    (folder / "own" / "job.sh").write_text("older, and for everybody")
    (folder / "own" / "job.sh").chmod(0o644)
    done = gym("render", config, "--out", folder, "--secrets")
    assert done.out.splitlines() == [f"{folder}/gpqa/job.sh", f"{folder}/own/job.sh"]
    for path in (folder / "gpqa" / "job.sh", folder / "own" / "job.sh"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().startswith("#!/")
    (tmp_path / "file").touch()
    done = gym("render", config, "--out", tmp_path / "file")
    assert done.status == 2
    assert "cannot be written" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--name", "a", "--run-dir", "/b"], "give one of them"),
        (["--name", "a/b"], "--run-dir takes one"),
        (["--run-dir", "b"], "is not an absolute path"),
    ],
)
def test_a_place_that_is_none(gym, config, words, told):
    done = gym("render", config, *words)
    assert done.status == 2
    assert told in done.err


def test_the_real_command_needs_no_database(config, tmp_path):
    """A process of its own, as a shell starts it; the database cannot be opened, and nothing but JSON is printed."""
    environ = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nonexistent/none.db",
    }
    words = [sys.executable, "-m", "airflow", "gym", "validate", config, "job.output_path=relative", "--json"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["problems"][0]["where"] == "job.output_path"


def test_a_variable_whose_name_is_not_shown_may_be_set_elsewhere_as_well(gym, config):
    words = ("validate", config, "+driver.env.A=host:my_token_of_1970")
    assert "my_token_of_1970" not in gym(*words).err.replace(words[2], "")
    assert gym(*words, "--any-env").status == 0
