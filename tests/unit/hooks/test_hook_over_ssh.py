"""The hook over a real SSH server in this process: what is refused, what is reused, what is said when it breaks."""

import asyncio
import time

import asyncssh
import pytest

from airflow_gym_provider.exceptions import (
    SlurmAnswerCutError,
    SlurmAuthenticationError,
    SlurmSettingsError,
    SlurmUnreachableError,
)
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.remote import RemoteScript


def script(body: str = "frame x", **kwargs) -> RemoteScript:
    return RemoteScript.build(body, needs=(), **kwargs)


async def test_many_scripts_use_one_connection(node, connect):
    connect(node.connection())
    async with SlurmHook("login") as hook:
        scripts = [script(f"frame n {n}") for n in range(5)]
        answers = await asyncio.gather(*(hook.arun(s) for s in scripts))
    assert [s.frames(a.stdout)[0].args for s, a in zip(scripts, answers, strict=True)] == [(str(n),) for n in range(5)]
    assert node.connects == 1


async def test_a_connection_that_died_is_opened_again(node, connect):
    connect(node.connection())
    async with SlurmHook("login") as hook:
        await hook.arun(script())
        node.conns[0].abort()
        await asyncio.sleep(0.1)
        await hook.arun(script())
    assert node.connects == 2


async def test_a_changed_host_key_is_refused(node, connect):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    connect(node.connection(host_key=other))
    with pytest.raises(SlurmAuthenticationError, match=r"127\.0\.0\.1.*host key"):
        await SlurmHook("login").arun(script())


async def test_an_unknown_host_key_is_refused_unless_the_connection_says_otherwise(
    node, tmp_path, connect, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    connect(node.connection(host_key=None))
    with pytest.raises(SlurmAuthenticationError, match="host key"):
        await SlurmHook("login").arun(script())
    connect(node.connection(host_key=None, no_host_key_check="true"))
    async with SlurmHook("login") as hook:
        await hook.arun(script())


async def test_a_known_hosts_file_of_the_connection_counts(node, tmp_path, connect):
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{node.port} {node.host_key.export_public_key().decode()}")
    connect(node.connection(host_key=None, known_hosts=str(known)))
    async with SlurmHook("login") as hook:
        await hook.arun(script())


async def test_a_refused_login_is_tried_once_and_says_what_to_do(node, connect):
    node_key, node.user_key = node.user_key, asyncssh.generate_private_key("ssh-ed25519")
    uri = node.connection()
    node.user_key = node_key
    connect(uri)
    with pytest.raises(SlurmAuthenticationError, match=r"login refused for user u.*key_file"):
        await SlurmHook("login").arun(script())
    assert node.connects == 1


@pytest.mark.filterwarnings("ignore:.*bcrypt")
@pytest.mark.parametrize("place", ["key_file", "private_key"])
async def test_keys_with_a_passphrase(node, tmp_path, connect, place):
    locked = node.user_key.export_private_key(passphrase="CANARY-pass", rounds=1)
    (tmp_path / "locked").write_bytes(locked)
    value = str(tmp_path / "locked") if place == "key_file" else locked.decode()
    extra = {"key_file": None, place: value}
    connect(node.connection(private_key_passphrase="CANARY-pass", **extra))
    async with SlurmHook("login") as hook:
        await hook.arun(script())
        assert "CANARY" not in repr(await hook.aload())
    connect(node.connection(private_key_passphrase="CANARY-wrong", **extra))
    with pytest.raises(SlurmSettingsError, match=place) as caught:
        await SlurmHook("login").arun(script())
    assert "CANARY" not in str(caught.value)


async def test_a_node_that_accepts_and_never_answers(connect):
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connect(
        f'{{"conn_type": "ssh", "host": "127.0.0.1", "port": {port}, '
        '"extra": {"conn_timeout": 1, "no_host_key_check": true}}'
    )
    begin = time.monotonic()
    with pytest.raises(SlurmUnreachableError, match=r"cannot connect: \w"):
        await SlurmHook("login").arun(script())
    assert time.monotonic() - begin < 5
    server.close()


async def test_nobody_listens(connect):
    connect('{"conn_type": "ssh", "host": "127.0.0.1", "port": 1}')
    with pytest.raises(SlurmUnreachableError, match=r"127\.0\.0\.1:1"):
        await SlurmHook("login").arun(script())


async def test_a_connection_that_ends_in_the_middle(node, connect):
    connect(node.connection())
    async with SlurmHook("login") as hook:
        running = asyncio.create_task(hook.arun(script("frame secret CANARY; sleep 30")))
        await asyncio.sleep(0.5)
        node.conns[0].abort()
        with pytest.raises(SlurmAnswerCutError) as caught:
            await running
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("end", [True, False])
async def test_a_server_that_passes_no_exit_status_on_is_judged_by_what_came(node, connect, end):
    async def gateway(process):
        text = await process.stdin.read()
        bash = await asyncio.create_subprocess_exec(
            "bash", "-s", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await bash.communicate(text)
        process.stdout.write(said if end else said[: said.rindex(b" end ")])
        process.close()
        await process.wait_closed()

    node.before_shell = gateway
    connect(node.connection())
    async with SlurmHook("login") as hook:
        asked = script("frame x; echo whole")
        if end:
            answer = await hook.arun(asked)
            assert (answer.returncode, asked.frames(answer.stdout)[0].text) == (-1, "whole\n")
        else:
            with pytest.raises(SlurmAnswerCutError, match="ended in the middle of an answer") as caught:
                await hook.arun(asked)
            assert type(caught.value) is SlurmAnswerCutError


async def test_a_script_that_takes_too_long(node, connect):
    connect(node.connection())
    async with SlurmHook("login") as hook:
        with pytest.raises(SlurmAnswerCutError, match="within 1 s"):
            await hook.arun(script("sleep 30"), timeout=1)
        await hook.arun(script())


async def test_a_shell_that_runs_nothing(node, connect):
    async def nologin(process):
        process.stderr.write(b"This account is currently not available.\n")
        process.exit(1)

    node.before_shell = nologin
    connect(node.connection())
    with pytest.raises(SlurmAnswerCutError, match="status 1"):
        await SlurmHook("login").arun(script())


async def test_blocking_callers_share_the_connection(node, connect):
    connect(node.connection())

    def work() -> None:
        with SlurmHook("login") as hook:
            hook.run(script())
            hook.run(script())

    await asyncio.to_thread(work)
    assert node.connects == 1


async def test_outputs_are_drained_together_and_capped(node, connect, monkeypatch):
    monkeypatch.setattr("airflow_gym_provider.hooks.transport.STDOUT_CAP", 200_000)
    monkeypatch.setattr("airflow_gym_provider.hooks.transport.STDERR_CAP", 1_000)
    connect(node.connection())
    async with SlurmHook("login") as hook:
        noisy = script("head -c 3000000 /dev/zero | tr '\\0' e >&2; head -c 100000 /dev/zero | tr '\\0' o")
        answer = await hook.arun(noisy, timeout=20)
    assert len(answer.stderr) == 1_000
    assert answer.stdout.count("o") >= 100_000


async def test_a_repaired_connection_is_read_again(node, connect):
    hook = SlurmHook("login")
    connect(node.connection(key_file="/nowhere"))
    with pytest.raises(SlurmSettingsError, match="/nowhere"):
        await hook.arun(script())
    connect(node.connection(poll_interval=7))
    hook.forget()
    await hook.arun(script())
    assert hook.poll_floor == 7
    hook.forget()
    assert hook.poll_floor == 7
    await hook.aclose()


async def test_the_configs_hostname_is_needed_only_without_another(node, connect):
    connect(node.connection())
    hook = SlurmHook("login", "elsewhere")
    await hook.aload()
    assert hook.needed_hostname is None
    connect('{"conn_type": "ssh"}')
    hook = SlurmHook("login", "elsewhere")
    await hook.aload()
    assert hook.needed_hostname == "elsewhere"
