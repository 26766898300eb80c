"""Looks over one shell that stays: what it is told when, and what happens when it, or the connection, ends."""

import asyncio

import pytest

from airflow_gym_provider.exceptions import SlurmAnswerCutError, SlurmUnreachableError
from airflow_gym_provider.hooks import shell as module
from airflow_gym_provider.hooks import transport
from airflow_gym_provider.hooks.shell import Shell, ShellEndedError
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.slurm.remote import RemoteScript


class Writer:
    """Writes scripts as a looker does: `fresh` lists what was asked for."""

    def __init__(self, following: str = "gym_word", first: str = "gym_word() { frame said $$; }\ngym_word") -> None:
        self.first, self.following = first, following
        self.fresh: list[bool] = []

    def __call__(self, *, fresh: bool) -> RemoteScript:
        self.fresh.append(fresh)
        return RemoteScript.build(self.first, needs=(), stays=True) if fresh else RemoteScript.following(self.following)


@pytest.fixture
async def hook(node, connect):
    connect(node.connection())
    async with SlurmHook("login") as made:
        yield made


async def pid(hook, write, **kwargs):
    """The shell that answered."""
    script, answer = await hook.aask(write, 20, **kwargs)
    frames = script.frames(answer.stdout)
    assert frames.complete
    return frames.named("said")[0].arg(0)


async def test_one_shell_answers_all_and_keeps_what_it_was_told(node, hook):
    write = Writer()
    assert len({await pid(hook, write) for _ in range(5)}) == 1
    assert write.fresh == [True, False, False, False, False]
    assert node.connects == 1


async def test_other_scripts_run_beside_it(node, hook):
    write, script = Writer(), RemoteScript.build("frame other", needs=())
    first = await pid(hook, write)
    answers = await asyncio.gather(pid(hook, write), hook.arun(script))
    assert answers[0] == first
    assert script.frames(answers[1].stdout)[0].name == "other"
    assert node.connects == 1


async def test_it_is_replaced_now_and_then_and_when_asked(hook, monkeypatch):
    monkeypatch.setattr(module, "MOST_TURNS", 3)
    write = Writer()
    for _ in range(4):
        await pid(hook, write)
    await pid(hook, write, anew=True)
    assert write.fresh == [True, False, False, True, True]


@pytest.mark.parametrize("following", ["kill -9 $$", "exit 0", "exec >&-; exit"])
async def test_one_that_was_killed_is_replaced_within_the_same_look(node, hook, following):
    write = Writer(following)
    assert await pid(hook, write) != await pid(hook, write)
    assert write.fresh == [True, False, True]
    assert node.connects == 1


async def test_a_connection_that_died_is_opened_again(node, hook):
    write = Writer()
    await pid(hook, write)
    node.conns[0].abort()
    await asyncio.sleep(0.1)
    await pid(hook, write)
    assert write.fresh == [True, True]
    assert node.connects == 2


async def test_a_connection_that_dies_in_the_middle_is_opened_again(node, hook):
    write = Writer("sleep 30")
    await pid(hook, write)
    asking = asyncio.create_task(pid(hook, write))
    await asyncio.sleep(0.3)
    node.conns[0].abort()
    await asyncio.wait_for(asking, 10)
    assert write.fresh == [True, False, True]
    assert node.connects == 2


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(hook):
    write = Writer("sleep 1; frame said late")
    first = await pid(hook, write)
    with pytest.raises(SlurmAnswerCutError, match=r"no complete answer within 0\.3 s"):
        await hook.aask(write, 0.3)
    assert await pid(hook, write) not in (first, "late")
    assert write.fresh == [True, False, True]


async def test_one_that_was_given_up_in_the_middle_is_not_asked_again(hook):
    write = Writer("sleep 1; frame said late")
    await pid(hook, write)
    asking = asyncio.create_task(hook.aask(write, 20))
    await asyncio.sleep(0.2)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await pid(hook, write)
    assert write.fresh == [True, False, True]


async def test_a_shell_that_runs_nothing_says_so(node, hook):
    async def leave(process):
        process.exit(1)

    node.before_shell = leave
    with pytest.raises(SlurmAnswerCutError, match="Is bash there"):
        await hook.aask(Writer(), 20)


async def test_what_else_it_prints_is_no_answer(hook):
    write = Writer("printf '@@0123456789abcdef end 0\\n\\n@@'; frame said noise; printf '\\377\\n@@x end\\n'")
    await pid(hook, write)
    assert await pid(hook, write) == "noise"


async def test_a_script_that_arrives_in_part_runs_nothing(tmp_path):
    script = RemoteScript.following(f"touch {tmp_path}/ran")
    for end in range(0, len(script.text) - 1, 7):
        process = await asyncio.create_subprocess_exec(
            "bash", "-s", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        await process.communicate(script.text[:end].encode())
    assert not (tmp_path / "ran").exists()


async def test_on_this_machine_every_shell_is_fresh():
    write = Writer()
    hook = SlurmHook()
    assert await pid(hook, write) != await pid(hook, write)
    assert write.fresh == [True, True]


class Pieces:
    """Stands for a process of asyncssh whose output comes in small pieces."""

    def __init__(self, size: int) -> None:
        self.size, self.text = size, b""
        self.stdin = self.stdout = self
        self.closed = False

    def write(self, text: bytes) -> None:
        nonce = text.decode().rsplit("_gym_turn ", 1)[1].split()[0]
        self.text = f"noise\n@@{nonce} begin\n\n@@{nonce} end 0\n".encode()

    async def read(self, _: int) -> bytes:
        piece, self.text = self.text[: self.size], self.text[self.size :]
        return piece

    def close(self) -> None:
        self.closed = True

    def is_closed(self) -> bool:
        return False


@pytest.mark.parametrize("size", [1, 2, 7, 25, 1000])
async def test_an_answer_may_come_in_pieces(size):
    pieces = Pieces(size)
    shell = Shell(pieces, pieces, "login")
    for _ in range(2):
        script = RemoteScript.following("")
        answer = await shell.ask(script, 5)
        assert script.frames(answer.stdout).complete
    assert not pieces.closed
    pieces.write = lambda text: None  # it ends
    with pytest.raises(ShellEndedError):
        await shell.ask(RemoteScript.following(""), 5)
    assert pieces.closed
    assert not shell.usable


async def test_a_turn_that_bash_gives_up_in_the_middle_is_not_waited_for(hook):
    """As it does when it can have no process: the rest of the line is thrown away, and nothing says so."""
    write = Writer(first="frame said $$", following="frame said $$")
    first = await pid(hook, write)
    began = asyncio.get_running_loop().time()
    write.following = ": ${none:?given up}"
    write.first = "frame said $$"
    assert await pid(hook, write) != first, "another shell"
    assert asyncio.get_running_loop().time() - began < 10


async def test_a_session_that_never_opens_is_given_up_after_a_minute_whatever_the_scripts_time(hook, monkeypatch):
    monkeypatch.setattr(transport, "OPEN_SECONDS", 0.2)

    class Conn:
        async def create_process(self, *_, **__):
            await asyncio.sleep(3600)

    with pytest.raises(SlurmUnreachableError, match="no shell could be opened: TimeoutError"):
        await transport.open_shell(Conn(), 1800, "there")
