"""A connection's extras of wrong types: said in words, before anything is tried."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_gym_provider.exceptions import SlurmSettingsError
from airflow_gym_provider.hooks.defaults import read_defaults
from airflow_gym_provider.hooks.settings import SshSettings
from airflow_gym_provider.hooks.way import find_way


def connection(extra: Any) -> Connection:
    return Connection(conn_id="eos", conn_type="slurm", host="login", password="swordfish", extra=json.dumps(extra))


def settings(extra: Any) -> SshSettings:
    conn = connection(extra)
    return SshSettings.read(conn, conn.extra_dejson)


@pytest.mark.parametrize("extra", [[], 5, "text", None, True])
def test_extras_that_are_no_object(extra: Any):
    for read in (settings, lambda given: read_defaults(connection(given))):
        with pytest.raises(SlurmSettingsError, match=r"Connection 'eos': its extras are .*, not a JSON object"):
            read(extra)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("poll_interval", "conn_timeout") for value in ("nan", "inf", 1e400, 0, [], True)),
        *(
            (name, value)
            for name in ("key_file", "private_key", "passphrase", "host_key", "known_hosts", "slurm_bin")
            for value in (["hunter2"], {"hunter2": 1}, True, "hunter2\0")
        ),
        ("ciphers", {"a": 1}),
        ("ciphers", [["a"]]),
    ],
)
def test_an_extra_that_cannot_be_used_is_named(name: str, value: Any):
    with pytest.raises(SlurmSettingsError, match=f"extra '{name}'") as caught:
        settings({name: value})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("hostkey", "host_key"), ("Host_Key", "host_key"), ("host-key", "host_key"), (" host_key", "host_key")),
        *(("no_hostkey_check", "no_host_key_check"), ("extra__ssh__key_file", "key_file"), ("keyfile", "key_file")),
        *(("acount", "account"), ("partiton", "partition"), ("output-path", "output_path")),
        *(("poll_intervall", "poll_interval"), ("slurm-bin", "slurm_bin"), ("file_url", "files_url")),
    ],
)
def test_a_misspelt_extra_is_told_and_not_ignored(written: str, meant: str):
    for read in (settings, lambda given: read_defaults(connection(given))):
        with pytest.raises(SlurmSettingsError, match=f"extra '{written}'; did you mean '{meant}'") as caught:
            read({written: "hunter2"})
        assert "hunter2" not in str(caught.value)


def test_an_extra_for_somebody_else_is_left_alone():
    theirs = {"team": "x", "billing": 1, "timeout": 10, "remote_host": "a", "owner": None, "note": [], "key": "k"}
    assert settings(theirs).host == "login"
    assert read_defaults(connection(theirs)).account is None


@pytest.mark.parametrize("name", ["account", "partition", "output_path"])
@pytest.mark.parametrize("value", [["a"], {"a": 1}, True, "a\0b"])
def test_what_stands_in_for_a_config_must_be_text(name: str, value: Any):
    with pytest.raises(SlurmSettingsError, match=f"extra '{name}' is .* must be text"):
        read_defaults(connection({name: value}))


def test_a_number_is_the_text_that_it_is_written_as():
    assert read_defaults(connection({"account": 4711, "partition": "", "output_path": None})).account == "4711"


@pytest.mark.parametrize(
    "word", ["x;touch pwned", "x'$(id)'", "-oProxyCommand=id", "a b", "a\nb", "`id`", "a|b", "${x}", "a\\\\"]
)
def test_no_host_and_no_login_is_a_command_where_ssh_config_gives_them_to_a_shell(word: str, tmp_path, monkeypatch):
    (tmp_path / ".ssh").mkdir()
    shell = f"sh -c 'echo %h %r; touch {tmp_path}/asked'"
    (tmp_path / ".ssh/config").write_text(f'Match exec "touch {tmp_path}/matched"\n  ProxyCommand {shell}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, given in (("host", {"host": word, "login": "me"}), ("login", {"host": "n1.example", "login": word})):
        with pytest.raises(SlurmSettingsError, match=f"its {name} is .* which ssh could not be given"):
            find_way(SshSettings.read(Connection(conn_id="c", **given), {}))
    assert not (tmp_path / "matched").exists()
    good = SshSettings.read(Connection(conn_id="c", host="[fe80::1%eth0]", login="DOMAIN\\\\me@site"), {})
    assert (good.host, good.username) == ("[fe80::1%eth0]", "DOMAIN\\\\me@site")


@pytest.mark.parametrize(("given", "read"), [("a, b,", ("a", "b")), (["a", "b"], ("a", "b")), (None, ()), ("", ())])
def test_ciphers_are_a_list_or_a_text(given: Any, read: tuple[str, ...]):
    assert settings({"ciphers": given}).ciphers == read


@pytest.mark.parametrize(
    "extra", [{"no_host_key_check": True}, {"allow_host_key_change": "true"}, {"known_hosts": "none"}]
)
def test_no_config_can_have_a_password_sent_to_a_host_of_its_own(extra: dict[str, Any]):
    def read(hostname: str | None = "evil.example", **parts: Any) -> SshSettings:
        conn = Connection(**({"conn_id": "eos", "conn_type": "slurm", "extra": json.dumps(extra)} | parts))
        return SshSettings.read(conn, conn.extra_dejson, hostname)

    with pytest.raises(SlurmSettingsError, match="Give the connection its host or a host_key") as caught:
        read(password="swordfish")
    assert "swordfish" not in str(caught.value)
    assert read(password="swordfish", host="login").host == "login"
    assert read().host == "evil.example"  # a key is shown to nobody
    extra = {"host_key": "ssh-ed25519 AAAA"}
    assert read(password="swordfish").host == "evil.example"
