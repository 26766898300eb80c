"""The hook on this machine, and what decides that a config means this machine."""

import os
import socket
import time
from types import SimpleNamespace

import pytest

from airflow_gym_provider.exceptions import SlurmAnswerCutError, SlurmSettingsError
from airflow_gym_provider.hooks.settings import SshSettings
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.hooks.transport import local_environ
from airflow_gym_provider.slurm.remote import RemoteScript


@pytest.mark.parametrize("name", [None, "localhost", socket.gethostname(), socket.getfqdn()])
def test_this_machine(name):
    assert SlurmHook(hostname=name).local


def test_another_machine_needs_a_connection():
    with pytest.raises(SlurmSettingsError, match=r"login\.example.*ssh_conn_id"):
        SlurmHook(hostname="login.example")


def test_a_script_runs_here():
    script = RemoteScript.build("frame pid $PPID; printf '%s' 'a  b'", needs=())
    with SlurmHook() as hook:
        answer = hook.run(script)
    [frame] = script.frames(answer.stdout)
    assert (answer.returncode, frame.text, frame.args) == (0, "a  b", (str(os.getpid()),))


def test_time_over_ends_everything_that_was_started(tmp_path):
    mark = tmp_path / "late"
    script = RemoteScript.build(f"(sleep 2; touch {mark}) & sleep 30", needs=())
    with SlurmHook() as hook, pytest.raises(SlurmAnswerCutError, match="within 1 s"):
        hook.run(script, timeout=1)
    time.sleep(1.5)
    assert not mark.exists()


def test_a_script_is_in_no_arguments():
    script = RemoteScript.build("frame args; tr '\\0' ' ' </proc/$$/cmdline; : CANARY-in-body", needs=())
    with SlurmHook() as hook:
        [frame] = script.frames(hook.run(script).stdout)
    assert frame.text.split() == ["bash", "-s"]


def test_jobs_do_not_inherit_the_workers_secrets():
    kept = {"PATH": "/bin", "SLURM_CONF": "/etc/s", "HOME": "/h"}
    dropped = ["AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_X", "PYTHONPATH", "VIRTUAL_ENV", "HF_TOKEN", "OPENAI_API_KEY"]
    dropped += ["WANDB_KEY", "GH_PAT", "SSH_PASSPHRASE", "BASIC_AUTH", "DB_PASSWD"]
    assert local_environ(kept | dict.fromkeys(dropped, "x")) == kept


def _connection(**fields):
    return SimpleNamespace(**{"conn_id": "c", "host": "h", "port": None, "login": None, "password": None} | fields)


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_a_poll_interval_that_is_none(value):
    with pytest.raises(SlurmSettingsError, match=f"'c'.*poll_interval.*{value}"):
        SshSettings.read(_connection(), {"poll_interval": value})


def test_defaults_are_strict_and_slow():
    settings = SshSettings.read(_connection(), {})
    assert (settings.port, settings.check_host_key, settings.poll_floor) == (None, True, 30)


def test_the_configs_hostname_counts_when_the_connection_has_none():
    assert SshSettings.read(_connection(host=None), {}, "login").host == "login"
    with pytest.raises(SlurmSettingsError, match="hostname"):
        SshSettings.read(_connection(host=None), {})


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"private_key": "x", "key_file": "y"}, "not both"),
        ({"host_key": "ssh-rsa AAAA", "no_host_key_check": True}, "no_host_key_check"),
    ],
)
def test_extras_that_contradict_each_other(extra, problem):
    with pytest.raises(SlurmSettingsError, match=problem):
        SshSettings.read(_connection(), extra)
