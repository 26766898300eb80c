"""Logins over real sshds: whose host key is trusted, which key logs in by which way, and what a refused one says.

Every login is tried as workers and as triggers do it: both must come to the same.
"""

from __future__ import annotations

import asyncio
import getpass
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from private_sshd import Sshd, make_key, public

from airflow_gym_provider.exceptions import (
    SlurmAnswerCutError,
    SlurmAuthenticationError,
    SlurmSettingsError,
    SlurmTransportError,
    SlurmUnreachableError,
)
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.remote import RemoteScript

USER = getpass.getuser()
NAMES = itertools.count()


class Keys:
    """Key pairs of this module, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host, self.host_rsa, self.authority, self.other, self.user = (
            make_key(folder / name, kind)
            for name, kind in (
                ("host", "ed25519"),
                ("host_rsa", "rsa"),
                ("authority", "ed25519"),
                ("other", "ed25519"),
                ("user", "ed25519"),
            )
        )
        make_key(folder / "certified")
        words = ["ssh-keygen", "-q", "-s", self.authority, "-h", "-I", "host", "-n", "127.0.0.1,login"]
        subprocess.run([*words, folder / "certified.pub"], check=True)
        self.certified = folder / "certified"
        self.locked = folder / "locked"
        shutil.copy(self.user, self.locked)
        subprocess.run(
            ["ssh-keygen", "-q", "-p", "-P", "", "-N", "CANARY-pass", "-a", "1", "-f", self.locked], check=True
        )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def servers(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Starts an sshd with these options, or gives the one that has been started with them."""
    running: dict[tuple, Sshd] = {}

    def start(*options: str, host_keys: tuple[Path, ...] = (), user_key: Path | None = None) -> Sshd:
        key = (options, host_keys, user_key)
        if key not in running:
            folder = tmp_path_factory.mktemp("sshd") / "d"
            running[key] = Sshd(folder, *options, host_keys=host_keys or (keys.host,), user_key=user_key or keys.user)
        return running[key]

    yield start
    for server in running.values():
        server.end()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker's home, without keys, known hosts, config and agent."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("airflow_gym_provider.hooks.slurm.time.sleep", lambda seconds: None)  # between two attempts
    monkeypatch.setattr("airflow_gym_provider.hooks.slurm._AFTER_REFUSAL", 0.01)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


@pytest.fixture
def login(keys: Keys, home: Path, monkeypatch: pytest.MonkeyPatch):
    """Log in and run a script, as a worker and as a trigger: "in", or the error that both of them got."""

    def attempt(port: int | None, *, host: str = "127.0.0.1", user: str | None = USER, **extra) -> SlurmTransportError:
        name = f"login{next(NAMES)}"
        password = extra.pop("password", None)
        given = {"key_file": str(keys.user), "conn_timeout": 10} | extra
        values = {"conn_type": "ssh", "host": host, "port": port, "login": user, "password": password}
        values["extra"] = {key: value for key, value in given.items() if value is not None}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(values))
        sockets = _sockets()
        worker, trigger = _outcome(lambda: _blocking(name)), _outcome(lambda: asyncio.run(_async(name)))
        assert type(worker) is type(trigger), (worker, trigger)
        assert _sockets() <= sockets  # a refused connection is closed: sshd bears few of those (MaxStartups)
        if worker != "in":
            assert str(worker) == str(trigger)
            assert f"{name!r}" in str(worker)  # the connection that is to be mended
            assert "CANARY" not in str(worker)
        return worker

    return attempt


def _sockets() -> int:
    """How many sockets this process holds."""
    return sum(
        str(link.readlink()).startswith("socket:") for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
    )


def _outcome(attempt) -> object:
    try:
        return attempt()
    except SlurmTransportError as err:
        return err


def _script() -> RemoteScript:
    return RemoteScript.build("frame in", needs=())


def _blocking(name: str) -> str:
    with SlurmHook(name) as hook:
        script = _script()
        return script.frames(hook.run(script, 20).stdout)[0].name


async def _async(name: str) -> str:
    async with SlurmHook(name) as hook:
        script = _script()
        return script.frames((await hook.arun(script, 20)).stdout)[0].name


# -- host keys --------------------------------------------------------------------------------------------------------

TRUST = {
    # what ~/.ssh/known_hosts says: (lines, extras), taken by us, by the ssh provider (None: it knows no such thing)
    "nothing": ("", {}, False, False),
    "its key": ("[127.0.0.1]:{port} {host}", {}, True, True),
    "its key without the port": ("127.0.0.1 {host}", {}, True, None),
    "its key among lines that are none": ("x\n@what {host}\n|2|a|b {host}\n\udcff\n*:{port} {host}\n", {}, True, None),
    "a changed key": ("[127.0.0.1]:{port} {other}", {}, False, False),
    "its key hashed": ("HASH [127.0.0.1]:{port} {host}", {}, True, True),
    "a changed key hashed": ("HASH [127.0.0.1]:{port} {other}", {}, False, False),
    "a key of another kind": ("[127.0.0.1]:{port} {host_rsa}", {}, False, False),
    "its key but revoked": ("[127.0.0.1]:{port} {host}\n@revoked * {host}", {}, False, None),
    "another host's key": ("[127.0.0.2]:{port} {host}", {}, False, False),
    "who signs other hosts": ("@cert-authority * {other}", {}, False, None),
    "nothing, unchecked": ("", {"no_host_key_check": True}, True, True),
    "nothing, unchecked by its old name": ("", {"ignore_hostkey_verification": "true"}, True, True),
    "nothing, unchecked in the ssh provider's other way": ("", {"known_hosts": "none"}, True, None),
    "nothing, said to be checked": ("", {"no_host_key_check": "false"}, False, False),
    "a changed key, unchecked": ("[127.0.0.1]:{port} {other}", {"no_host_key_check": "true"}, False, False),
    "a changed key, of another kind, unchecked": (
        "[127.0.0.1]:{port} {host_rsa}",
        {"no_host_key_check": "true"},
        False,
        False,
    ),
    "a revoked key, unchecked": ("@revoked * {host}", {"no_host_key_check": "true"}, False, None),
    "a changed key, unchecked, may change": (
        "[127.0.0.1]:{port} {other}",
        {"no_host_key_check": "true", "allow_host_key_change": "true"},
        True,
        True,
    ),
    "a changed key that may change": ("[127.0.0.1]:{port} {other}", {"allow_host_key_change": True}, True, True),
    "nothing, may change": ("", {"allow_host_key_change": "True"}, True, True),
    "nothing, and the connection its key": ("", {"host_key": "{host}"}, True, True),
    "nothing, and the connection another": ("", {"host_key": "{other}"}, False, False),
    "its key, and the connection another that may change": (
        "",
        {"host_key": "{other}", "allow_host_key_change": "true"},
        False,
        False,
    ),
    "a changed key, and the connection its own": ("[127.0.0.1]:{port} {other}", {"host_key": "{host}"}, True, None),
    "its key, and the connection's file another": (
        "[127.0.0.1]:{port} {host}",
        {"known_hosts": "~/.ssh/others"},
        False,
        None,
    ),
}


@pytest.mark.parametrize("case", TRUST)
def test_an_unknown_or_changed_host_key_is_refused_unless_the_connection_says_otherwise(
    servers, keys, home, login, case
) -> None:
    lines, extra, taken, by_the_ssh_provider = TRUST[case]
    server = servers()
    texts = {name: public(getattr(keys, name)) for name in ("host", "host_rsa", "other")}
    extra = {name: str(value).format(**texts) if name == "host_key" else value for name, value in extra.items()}
    known = home / ".ssh" / "known_hosts"
    text = lines.removeprefix("HASH ").format(port=server.port, **texts)
    known.write_bytes(f"{text}\n".encode("utf-8", "surrogateescape"))
    (home / ".ssh" / "others").write_text(f"* {texts['other']}\n")
    if lines.startswith("HASH "):
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
        assert "127.0.0.1" not in known.read_text()
    found = login(server.port, **extra)
    if taken:
        assert found == "in", found
    else:
        assert isinstance(found, SlurmAuthenticationError), found
        assert "host key" in str(found)
    if by_the_ssh_provider is not None:
        assert _ssh_provider_takes(server.port, {"key_file": str(keys.user)} | extra) is by_the_ssh_provider is taken


def _ssh_provider_takes(port: int, extra: dict) -> bool:
    import paramiko
    from airflow.providers.ssh.hooks.ssh import SSHHook

    name = f"other{next(NAMES)}"
    values = {"conn_type": "ssh", "host": "127.0.0.1", "port": port, "login": USER, "extra": extra}
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(values)
    try:
        with SSHHook(name, conn_retry_attempts=1).get_conn():
            return True
    except paramiko.SSHException:
        return False
    finally:
        del os.environ[f"AIRFLOW_CONN_{name.upper()}"]


def test_of_several_host_keys_the_known_one_is_asked_for(servers, keys, home, login) -> None:
    server = servers(host_keys=(keys.host, keys.host_rsa))
    for key in (keys.host, keys.host_rsa):
        (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {public(key)}\n")
        assert login(server.port) == "in"
        assert login(server.port, host_key=public(key)) == "in"
    assert login(server.port, host_key=public(keys.host_rsa).split()[1]) == "in"  # a bare one is RSA


def test_a_certified_host_key_is_trusted_by_its_authority(servers, keys, home, login) -> None:
    server = servers(f"HostCertificate {keys.certified}-cert.pub", host_keys=(keys.certified,))
    known = home / ".ssh" / "known_hosts"
    known.write_text(f"@cert-authority [127.0.0.1]:{server.port} {public(keys.authority)}\n")
    assert login(server.port) == "in"
    known.write_text(f"@cert-authority * {public(keys.authority)}\n@revoked * {public(keys.authority)}\n")
    assert isinstance(login(server.port), SlurmAuthenticationError)
    known.write_text(f"@cert-authority * {public(keys.other)}\n")
    assert isinstance(login(server.port), SlurmAuthenticationError)


def test_a_config_of_ssh_does_not_switch_the_check_off(servers, keys, home, login) -> None:
    server = servers()
    config = home / ".ssh" / "config"
    for line in ("UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"):
        config.write_text(f"Host *\n  {line}\n")
        assert isinstance(login(server.port), SlurmAuthenticationError)
    (home / "known").write_text(f"127.0.0.1 {public(keys.host)}\n")
    config.write_text(f"Host *\n  UserKnownHostsFile {home}/none {home}/known\n")
    assert login(server.port) == "in"


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"known_hosts": "/no/such/file"}, "No such file.*'/no/such/file'"),
        ({"host_key": "ssh-ed25519 AAAA"}, "extra 'host_key' is no public key"),
        ({"host_key": "{}"}, "extra 'host_key' is no public key"),
    ],
)
def test_a_trust_that_cannot_be_read_is_a_wrong_setting(servers, login, extra, told) -> None:
    before = servers().connects
    found = login(servers().port, **extra)
    assert isinstance(found, SlurmSettingsError)
    assert re.search(told, str(found)), found
    assert servers().connects == before


# -- keys, agents, passwords ------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(servers, keys, home) -> Sshd:
    """A server whose key ~/.ssh/known_hosts has."""
    (home / ".ssh" / "known_hosts").write_text(f"* {public(keys.host)}\n")
    return servers()


def test_a_key_with_a_passphrase(trusted, keys, home, login) -> None:
    for place in ({"key_file": str(keys.locked)}, {"key_file": None, "private_key": keys.locked.read_text()}):
        assert login(trusted.port, **place, private_key_passphrase="CANARY-pass") == "in"
        for wrong in ({"private_key_passphrase": "CANARY-wrong"}, {}):
            before = trusted.connects
            found = login(trusted.port, **place, **wrong)
            assert isinstance(found, SlurmSettingsError)
            assert next(iter(place)) in str(found) or "private_key" in str(found)
            assert trusted.connects == before
    # one that ~/.ssh/config or its place names
    shutil.copy(keys.locked, home / ".ssh" / "id_ed25519")
    assert login(trusted.port, key_file=None, private_key_passphrase="CANARY-pass") == "in"
    assert isinstance(login(trusted.port, key_file=None), SlurmAuthenticationError)
    wrong = login(trusted.port, key_file=None, private_key_passphrase="CANARY-wrong")
    assert isinstance(wrong, SlurmTransportError) and not isinstance(wrong, SlurmUnreachableError)


@pytest.fixture
def agent(keys, tmp_path, monkeypatch) -> Iterator:
    """An ssh-agent: agent(key, …) puts keys into it and says where it is."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)

    def add(*paths: Path) -> str:
        for _ in range(200):
            if path.exists():
                break
            time.sleep(0.01)
        environ = os.environ | {"SSH_AUTH_SOCK": str(path)}
        subprocess.run(["ssh-add", "-q", *paths], env=environ, check=True, capture_output=True)
        return str(path)

    yield add
    process.terminate()
    process.wait(10)


def test_the_keys_of_an_agent(trusted, keys, home, login, agent, monkeypatch) -> None:
    assert isinstance(login(trusted.port, key_file=None), SlurmAuthenticationError)
    path = agent(keys.other, keys.user)
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    assert login(trusted.port, key_file=None) == "in"
    assert isinstance(login(trusted.port, key_file=None, look_for_keys="false"), SlurmAuthenticationError)
    monkeypatch.setenv("SSH_AUTH_SOCK", "/no/agent")
    assert isinstance(login(trusted.port, key_file=None), SlurmAuthenticationError)
    (home / ".ssh" / "config").write_text(f"Host *\n  IdentityAgent {path}\n")
    assert login(trusted.port, key_file=None) == "in"


def test_a_named_key_is_tried_first_however_many_an_agent_has(
    servers, trusted, keys, login, agent, monkeypatch
) -> None:
    server = servers("MaxAuthTries 2")
    monkeypatch.setenv("SSH_AUTH_SOCK", agent(keys.other, keys.authority, keys.host))
    assert login(server.port) == "in"
    before = server.connects
    found = login(server.port, key_file=None)  # more refused keys than sshd bears
    assert isinstance(found, SlurmAuthenticationError)
    assert f"login refused for user {USER}: Too many authentication failures" in str(found)
    assert server.connects == before + 2  # one for the worker's way, one for the trigger's


def test_a_refused_login_is_tried_once_and_says_what_to_check(trusted, keys, login) -> None:
    for extra in (
        {"key_file": str(keys.other)},
        {"key_file": None, "password": "CANARY-word"},
        {"user": "nobody-else"},
    ):
        before = trusted.connects
        found = login(trusted.port, **extra)
        assert isinstance(found, SlurmAuthenticationError)
        assert f"login refused for user {extra.get('user', USER)}" in str(found)
        assert "Check login and key_file/private_key of the connection" in str(found)
        assert trusted.connects == before + 2  # one for the worker's way, one for the trigger's


@pytest.mark.parametrize("method", ["password", "keyboard-interactive", "one-time code"])
async def test_passwords_at_a_stand_in_for_an_sshd_that_asks_pam(keys, home, monkeypatch, method) -> None:
    connects = []

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn):
            connects.append(conn)

        def password_auth_supported(self):
            return method == "password"

        def validate_password(self, username, password):
            return password == "CANARY-word"

        def kbdint_auth_supported(self):
            return method != "password"

        def get_kbdint_challenge(self, username, lang, submethods):
            return "", "", "", [("Password: " if method == "keyboard-interactive" else "One-time code: ", False)]

        def validate_kbdint_response(self, username, responses):
            return responses == ["CANARY-word"]

    async def answer(process):
        stdin = await process.stdin.read()
        nonce = stdin.rpartition("_gym_main_")[2].split()[0]
        process.stdout.write(f"\n@@{nonce} begin\n\n@@{nonce} in\n\n@@{nonce} end 0\n")
        process.exit(0)

    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, server_host_keys=[str(keys.host)], process_factory=answer
    )
    values = {"conn_type": "ssh", "host": "127.0.0.1", "port": server.get_port(), "login": "u"}
    for password, taken in (("CANARY-word", method != "one-time code"), ("CANARY-wrong", False)):
        extra = {"host_key": public(keys.host), "look_for_keys": "false"}
        monkeypatch.setenv("AIRFLOW_CONN_PAM", json.dumps(values | {"password": password, "extra": extra}))
        connects.clear()
        for way in (lambda: asyncio.to_thread(_blocking, "pam"), lambda: _async("pam")):
            if taken:
                assert await way() == "in"
                continue
            with pytest.raises(SlurmAuthenticationError, match=r"login refused for user u.*one-time code") as caught:
                await way()
            assert "CANARY" not in str(caught.value)
        assert len(connects) == 2
    server.close()


# -- ways -------------------------------------------------------------------------------------------------------------


def test_an_alias_of_ssh_gives_what_the_connection_leaves_out(servers, trusted, keys, home, login) -> None:
    config = home / ".ssh" / "config"
    config.write_text(
        f"Host login\n  HostName 127.0.0.1\n  Port {trusted.port}\n  User {USER}\n  IdentityFile {keys.user}\n"
        "  RequestTTY force\n  ForwardAgent yes\n  RemoteCommand false\n"
    )
    assert login(None, host="login", user=None, key_file=None) == "in"
    assert login(None, host="login", user=None, key_file=None, host_key=public(keys.host)) == "in"
    # the connection's own come first
    config.write_text(f"Host login\n  HostName 127.0.0.1\n  Port 1\n  User nobody-else\n  IdentityFile {keys.other}\n")
    assert login(trusted.port, host="login") == "in"
    found = login(None, host="login")
    assert isinstance(found, SlurmUnreachableError)
    assert "login:1 (connection" in str(found)
    found = login(trusted.port, host="login", user=None)
    assert isinstance(found, SlurmAuthenticationError)
    assert "login refused for user nobody-else" in str(found)


@pytest.mark.parametrize("text", ["Host x\n  Port many\n", "Match exec\n", 'Host "\n', "\udcff\udcfe\n"])
def test_a_config_of_ssh_that_cannot_be_read_is_a_wrong_setting(trusted, home, login, text) -> None:
    (home / ".ssh" / "config").write_bytes(f"{text}".encode("utf-8", "surrogateescape"))
    found = login(trusted.port, host="x")
    assert isinstance(found, SlurmSettingsError)
    assert "~/.ssh/config" in str(found)


def test_jump_hosts_and_proxy_commands(servers, trusted, keys, home, login) -> None:
    inner = servers("AllowTcpForwarding no")
    before = [trusted.connects, inner.connects]
    config = home / ".ssh" / "config"
    hop = f"HostName 127.0.0.1\n  User {USER}\n  IdentityFile {keys.user}\n  Port {trusted.port}\n"
    config.write_text(
        f"Host gate1\n  {hop}Host gate2\n  {hop}Host inner\n  HostName 127.0.0.1\n  ProxyJump gate1,gate2\n"
    )
    assert login(inner.port, host="inner") == "in"
    assert [trusted.connects - before[0], inner.connects - before[1]] == [4, 2]
    # a jump host that lets nobody through, or that nobody trusts, is told from the login node
    for line, kind in (
        (f"ProxyJump {USER}@127.0.0.1:{inner.port}", SlurmUnreachableError),
        (f"ProxyJump {USER}@127.0.0.1:1", SlurmUnreachableError),
        ("ProxyJump nobody-else@gate1", SlurmAuthenticationError),
    ):
        config.write_text(f"Host gate1\n  {hop}Host inner\n  HostName 127.0.0.1\n  {line}\n")
        shutil.copy(keys.user, home / ".ssh" / "id_ed25519")
        found = login(inner.port, host="inner", conn_timeout=3)
        assert type(found) is kind, found
        assert f"by way of {line.split()[1]}" in str(found)
        (home / ".ssh" / "id_ed25519").unlink()
    config.write_text(
        f"Host inner\n  HostName 127.0.0.1\n  ProxyCommand ssh -q -i {keys.user} -p {trusted.port} -W %h:%p "
        f"-o UserKnownHostsFile={home}/.ssh/known_hosts {USER}@127.0.0.1\n"
    )
    assert login(inner.port, host="inner") == "in"


# -- strict sites -----------------------------------------------------------------------------------------------------

SHELLS = [name for name in ("bash", "dash", "rbash", "zsh", "csh", "tcsh", "fish", "ksh", "mksh") if shutil.which(name)]


@pytest.mark.parametrize(
    "options",
    [
        ("MaxSessions 1", "PermitTTY no", "AllowTcpForwarding no", "X11Forwarding no", "Banner /etc/passwd"),
        ('ForceCommand printf "Welcome, friend"; eval "$SSH_ORIGINAL_COMMAND"',),
        ('ForceCommand echo "@@0123 end 0"; eval "$SSH_ORIGINAL_COMMAND"; echo "@@0123 end 0"',),
        *((f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"',) for shell in SHELLS),
    ],
    ids=lambda options: options[0],
)
def test_a_strict_or_talkative_site_is_no_hindrance(servers, trusted, login, options) -> None:
    server = servers(*options)
    (server.home / ".bashrc").write_text("echo 'Message of the day'; printf 'no end of line'; echo oops >&2\n")
    assert login(server.port) == "in"


@pytest.mark.parametrize(
    ("option", "kind", "told"),
    [
        ("ForceCommand /usr/sbin/nologin", SlurmAnswerCutError, "status 1 before the script did. Is bash there"),
        ("ForceCommand cat", SlurmAnswerCutError, "status 0 before the script did. Is bash there"),
        ("ForceCommand internal-sftp", SlurmAnswerCutError, "before the script did|connection ended"),
        ("ForceCommand exec /no/shell", SlurmAnswerCutError, "status 12[67] before the script did"),
        ("MaxSessions 0", SlurmUnreachableError, "no shell could be opened"),
    ],
)
def test_an_account_that_may_run_nothing_says_so(servers, trusted, login, option, kind, told) -> None:
    found = login(servers(option).port)
    assert isinstance(found, kind), found
    assert re.search(told, str(found)), found
