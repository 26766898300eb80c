"""What a connection that was not made is taken for: by class whether trying again can help, and words to go by."""

from __future__ import annotations

import errno
import os
import socket

import asyncssh
import pytest

from airflow_gym_provider.exceptions import SlurmShellError, SlurmUnknownHostError, SlurmUnreachableError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.remote import Answer, RemoteScript

NAMES = {
    socket.EAI_AGAIN: ("Temporary failure in name resolution", SlurmUnreachableError),
    socket.EAI_NONAME: ("Name or service not known", SlurmUnknownHostError),
}


async def failing(monkeypatch, connect, error: Exception) -> SlurmUnreachableError:
    async def refuse(**_):
        raise error

    monkeypatch.setattr(asyncssh, "connect", refuse)
    connect('{"conn_type": "ssh", "host": "login.example", "extra": {"no_host_key_check": true}}')
    with pytest.raises(SlurmUnreachableError) as caught:
        await SlurmHook("login").arun(RemoteScript.build("frame x", needs=()))
    return caught.value


@pytest.mark.row("nobody knows the login node's name")
@pytest.mark.parametrize("number", NAMES)
async def test_a_name_that_is_unknown_is_told_from_a_server_of_names_that_is_away(monkeypatch, connect, number):
    text, kind = NAMES[number]
    error = await failing(monkeypatch, connect, socket.gaierror(number, text))
    assert type(error) is kind
    assert f"login.example:22 (connection 'login'): cannot connect: [Errno {number}] {text}" in str(error)
    assert ("Check the host of the connection" in str(error)) == (kind is SlurmUnknownHostError)


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT])
async def test_a_login_node_that_cannot_be_reached_is_an_outage(monkeypatch, connect, number):
    error = await failing(monkeypatch, connect, OSError(number, os.strerror(number)))
    assert type(error) is SlurmUnreachableError
    assert os.strerror(number) in str(error)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(127, "", "bash: not found"), SlurmShellError, "status 127 before the script did. Is bash there"),
        (
            Answer(254, "", "fork: Resource temporarily unavailable"),
            None,
            "status 254 .* no process or memory to spare",
        ),
        (Answer(137, "\n@@{} begin\n", ""), None, "status 137 before the script did. Was it killed"),
    ],
)
def test_a_shell_that_could_not_begin_is_told_from_one_that_was_cut_off(answer, kind, words):
    script = RemoteScript.build("frame x", needs=())
    answer = Answer(answer.returncode, answer.stdout.format(script.nonce), answer.stderr)
    with pytest.raises(Exception, match=words) as caught:
        SlurmHook()._whole(script, answer)
    assert isinstance(caught.value, SlurmShellError) == (kind is SlurmShellError)
