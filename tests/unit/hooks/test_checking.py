"""What the "Test" button says. The login node is this machine's bash; Slurm's commands are little scripts."""

import asyncio
import json
import shutil

import pytest

from airflow_gym_provider.hooks.slurm import SlurmHook

WELL = {
    "sbatch": "echo slurm 24.11.1",
    "squeue": ":",
    "scancel": ":",
    "sinfo": "printf 'batch\\nlong\\nbatch\\n'",
    "sacct": ":",
    "sacctmgr": "printf 'science\\nscience\\nother\\n'",
}


@pytest.fixture
def slurm(tmp_path):
    """A folder of Slurm's commands, each with the body it is given."""
    folder = tmp_path / "slurm bin"
    folder.mkdir()

    def make(**bodies):
        for name, body in (WELL | bodies).items():
            (folder / name).write_text(f"#!/bin/bash\n{body}\n")
            (folder / name).chmod(0o755)
        return str(folder)

    return make


@pytest.fixture
def test(node, connect):
    """Press the button, with these extras beside those of a login that works."""

    async def press(**extra):
        values = json.loads(node.connection(**extra))
        connect(json.dumps(values | {"conn_type": "slurm"}))
        return await asyncio.to_thread(SlurmHook("login").test_connection)

    return press


async def test_it_names_the_version_and_what_there_is_to_choose(slurm, test):
    found, text = await test(slurm_bin=slurm())
    assert found, text
    assert text.startswith("slurm 24.11.1 on ")
    assert text.endswith("accounting answers; partitions batch, long; accounts science, other")


@pytest.mark.parametrize("extra", ["[1]", '"text"', "5", "null"])
async def test_extras_that_are_no_object_are_said_to_be_none(connect, extra):
    connect(json.dumps({"conn_type": "slurm", "host": "127.0.0.1", "password": "swordfish", "extra": extra}))
    found, text = await asyncio.to_thread(SlurmHook("login").test_connection)
    assert not found
    assert text.startswith("The connection: its extras are ")
    assert "swordfish" not in text


async def test_an_address_of_no_page_is_a_fault(slurm, test):
    found, text = await test(slurm_bin=slurm(), files_url="javascript:alert(1)")
    assert not found
    assert "files_url must be an http(s):// address" in text
    found, text = await test(slurm_bin=slurm(), files_url="https://ood.edu/fs{path}")
    assert found, text


async def test_what_the_connection_names_is_looked_for(slurm, test, tmp_path):
    path = str(tmp_path / "not yet" / "there")
    found, text = await test(slurm_bin=slurm(), account="science", partition="long", output_path=path)
    assert found, text
    assert text.endswith(f"partition long; account science; output_path {path}")


async def test_what_is_not_there_is_told_with_what_is(slurm, test, tmp_path):
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "evals")
    found, text = await test(slurm_bin=slurm(), account="sience", partition="short", output_path=path)
    assert not found
    assert "account 'sience' is not one of this user's; these are science, other" in text
    assert "partition 'short' is not there; there are batch, long" in text
    assert f"{tmp_path}/file is not a folder this user may write" in text


async def test_without_sacctmgr_an_account_is_not_doubted(slurm, test):
    found, text = await test(slurm_bin=slurm(sacctmgr="echo 'sacctmgr: error: x' >&2; exit 1"), account="any")
    assert found, text


async def test_accounting_that_does_not_answer_is_a_fault(slurm, test):
    body = "echo 'sacct: error: Unable to contact slurmdbd: Connection refused' >&2; exit 1"
    found, text = await test(slurm_bin=slurm(sacct=body))
    assert not found
    assert "slurm 24.11.1 on " in text
    assert "accounting does not answer (sacct: Unable to contact slurmdbd: Connection refused)" in text


async def test_slurmctld_that_does_not_answer_is_a_fault(slurm, test):
    body = "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    found, text = await test(slurm_bin=slurm(sinfo=body), partition="batch")
    assert not found
    assert "slurmctld does not answer" in text
    assert "partition 'batch'" not in text


async def test_a_folder_without_sbatch_is_a_fault_although_path_has_one(slurm, test, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{slurm()}:/usr/bin:/bin")
    found, text = await test(slurm_bin=str(tmp_path))
    assert not found
    assert f"slurm_bin {str(tmp_path)!r} holds no sbatch" in text


async def test_no_slurm_at_all(test, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "uname", "id"):
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tools))
    found, text = await test(slurm_bin="/nowhere")
    assert not found
    assert "Slurm is not on the PATH" in text


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"poll_interval": "soon"}, "extra 'poll_interval' is 'soon'"),
        ({"slurm_bin": "bin"}, "extra 'slurm_bin' is 'bin', it must be one absolute path"),
        ({"key_file": "/no/key"}, "key_file /no/key cannot be read"),
        ({"host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIT9R1bXhJ0aDXMrExy5eyZN3x5+vU5jMoxCzM0trRe"}, "host key"),
    ],
)
async def test_a_wrong_setting_is_named(test, extra, told):
    found, text = await test(**extra)
    assert not found
    assert told in text
    assert "'login'" not in text, "Airflow tests a connection under a passing name, which tells nobody anything"


async def test_no_secret_of_the_connection_is_in_the_text(connect):
    secret = "-----BEGIN hunter2"
    extra = {"private_key": secret, "private_key_passphrase": "open sesame", "conn_timeout": "5"}
    connect(json.dumps({"conn_type": "slurm", "host": "127.0.0.1", "password": "swordfish", "extra": extra}))
    found, text = await asyncio.to_thread(SlurmHook("login").test_connection)
    assert not found
    assert "private_key" in text
    assert not any(value in text for value in ("hunter2", "open sesame", "swordfish"))


async def test_nobody_there(connect):
    connect(json.dumps({"conn_type": "slurm", "host": "127.0.0.1", "port": 1, "extra": {"conn_timeout": "5"}}))
    found, text = await asyncio.to_thread(SlurmHook("login").test_connection)
    assert not found
    assert "Are host and port right" in text


def test_an_unknown_connection():
    found, text = SlurmHook("there_is_none").test_connection()
    assert not found
    assert "isn't defined" in text
