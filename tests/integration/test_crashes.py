"""Whatever dies, wherever, and whatever sbatch says: one job, never two, none lost, nothing left behind.

Every try is the operator's own `execute` in a process of its own, over the real sshd, to the real Slurm. It is struck,
then Airflow's retries follow as our retry policy orders them. The table at the end of the run says what came of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crashing import Chain, Ground, Tally, wait_for, write_wrapper
from fakes.killing import TRACED
from fakes.proxy import Proxy
from fakes.tries import Tries

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

THOROUGH = bool(os.environ.get("GYM_TESTS_EVERY_STEP"))
# Rooms that talk to the login node: more of their lines are taken than of the others, which only compute in between.
TALKING = (
    "hooks/slurm.py",
    "hooks/transport.py",
    "hooks/loop.py",
    "operators/_chain.py",
    "operators/_cluster.py",
    "operators/_held.py",
    "operators/_memory.py",
    "operators/_submit.py",
    "triggers/slurm.py",
)
SHARES = 2
WHOM = {"its shell": "$$", "the shell and all its children": "-$$", "the session's sshd": "$PPID"}


@pytest.fixture(scope="session")
def tries(cluster) -> Iterator[Tries]:
    before = dict(os.environ)
    os.environ.update(cluster.exports)
    program = Tries()
    os.environ.clear()
    os.environ.update(before)
    yield program
    program.close()


@pytest.fixture
def ground(cluster, tries, tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(cluster, tries, tmp_path)
    yield ground
    ground.end()


@pytest.fixture
def judge(ground: Ground, record_property):
    """Count what is left, put it into the table, and fail unless it is nothing."""

    def count(kind: str, kills: int) -> Tally:
        tally = ground.count(kind, kills)
        record_property("crashes", json.dumps(vars(tally)))
        assert tally.clean, "\n".join([str(tally), *ground.words])
        return tally

    return count


# -- the client -------------------------------------------------------------------------------------------------------


def client_places(ground: Ground) -> list[str]:
    """Every line of ours that an undisturbed try passes, in the order of the first time."""
    log = ground.folder / "places"
    chain = ground.chain("places")
    assert chain.try_once(log=str(log)).status == 0
    return list(dict.fromkeys(log.read_text().split()))


def every(stride: int, steps: list[str]) -> list[str]:
    """One of so many steps, from another one on in each run (by the seed of pytest-randomly); in a soak all of them."""
    return steps if THOROUGH else steps[random.randrange(stride) :: stride]


def chosen(places: list[str]) -> list[str]:
    talking = [place for place in places if place.startswith(TALKING)]
    others = [place for place in places if not place.startswith(TALKING)]
    return sorted({*every(4, talking), *every(32, others)}, key=places.index)


def struck(ground: Ground, place: str, number: int, kind: str) -> bool:
    """A chain whose first try dies at this place; whether it did."""
    chain = ground.chain(f"client {number}", kind)
    status = chain.try_once(place=place).status
    chain.rest()
    return status == -signal.SIGKILL


@pytest.mark.parametrize("share", range(SHARES))
def test_a_client_killed_at_every_step(ground: Ground, judge, share: int):
    places = chosen(client_places(ground))[share::SHARES]
    kinds = ["waiting", "held", "waiting", "running"]
    died = ground.together(lambda at: struck(ground, places[at], at, kinds[at % 4]), range(len(places)), at_once=6)
    judge("client killed at a line", sum(died))
    assert sum(died) >= 0.9 * len(places) > 40


# -- the other end ----------------------------------------------------------------------------------------------------


def remote_lines(ground: Ground, script: int) -> list[str]:
    log = ground.folder / "lines"
    chain = ground.chain(f"lines {script}")
    if script == 1:
        chain.try_once()  # a look at something
    assert chain.try_once(remote=armed(log=log), script=script).status == 0
    return list(dict.fromkeys(log.read_text().split()))


def armed(*, line: str = "", log: Path | str = "", whom: str = "", sign: str = "KILL", pid: Path | str = "") -> str:
    """Bash for the front of a script: to tell its lines, or to end at one."""
    return f"KILL_AT={line} KILL_LOG='{log}' KILL_WHOM={whom} KILL_SIGN={sign} KILL_PID='{pid}'\n{TRACED}"


@pytest.mark.parametrize("share", range(SHARES))
def test_a_remote_shell_killed_at_every_line(ground: Ground, judge, share: int):
    lines = every(2, remote_lines(ground, 2))[share::SHARES]
    whom = list(WHOM.values())

    def strike(at: int) -> bool:
        chain = ground.chain(f"remote {at}", ["waiting", "running", "held"][at // 3 % 3])
        marker = chain.folder / "pid"
        chain.try_once(remote=armed(line=lines[at], whom=whom[(at + share) % 3], pid=marker))
        chain.rest()
        return marker.exists()

    died = ground.together(strike, range(len(lines)), at_once=12)
    judge("remote shell killed at a line", sum(died))
    assert sum(died) >= 0.9 * len(lines) > 30


def send(marker: Path, sign: int) -> None:
    """A signal for the shell that left its number there, if it is still one."""
    with suppress(ProcessLookupError):
        os.kill(int(marker.read_text()), sign)


def test_a_connection_cut_after_any_byte(ground: Ground, judge, cluster):
    port = int(cluster.exports["GYM_SSH_PORT"])
    whole = Proxy(port)
    ground.chain("whole").try_once(environ=over(cluster, whole))
    cuts = [(way, count * share // 18) for way, count in whole.passed.items() for share in range(1, 19)]

    def strike(at: int) -> bool:
        way, count = cuts[at]
        proxy = Proxy(port, **{way: count}, gently=at % 2 == 0)
        chain = ground.chain(f"cut {at}", ["waiting", "running", "held"][at % 3])
        chain.try_once(environ=over(cluster, proxy))
        chain.rest()
        proxy.close()
        return proxy.cut

    cut = ground.together(strike, range(len(cuts)), at_once=16)
    whole.close()
    judge("connection cut after n bytes", sum(cut))
    assert sum(cut) >= 30


def over(cluster, proxy: Proxy, **extra: str) -> dict[str, str]:
    """Airflow's connection, by way of this proxy."""
    values = json.loads(cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
    return {"AIRFLOW_CONN_GYM_CLUSTER": json.dumps(values | {"port": proxy.port, "extra": values["extra"] | extra})}


# -- two at once ------------------------------------------------------------------------------------------------------


def test_a_client_frozen_while_a_second_try_runs(ground: Ground, judge):
    places = chosen(client_places(ground))[::8]

    def strike(at: int) -> bool:
        chain = ground.chain(f"frozen {at}", ["waiting", "running", "held"][at % 3])
        first = chain.start(place=places[at], sign=signal.SIGSTOP)
        wait_for("the first try stops or ends", lambda: first.stopped() or first.end.done())
        frozen = first.stopped()
        chain.rest()
        first.signal(signal.SIGCONT)
        first.wait()
        chain.rest()
        return frozen

    frozen = ground.together(strike, range(len(places)), at_once=8)
    judge("client frozen, a second try beside it", sum(frozen))
    assert sum(frozen) >= 8


def test_a_remote_shell_frozen_while_a_second_try_runs(ground: Ground, judge):
    lines = remote_lines(ground, 2)[::7]

    def strike(at: int) -> bool:
        chain = ground.chain(f"stopped {at}", ["waiting", "running", "held"][at % 3])
        marker = chain.folder / "pid"
        first = chain.start(remote=armed(line=lines[at], sign="STOP", pid=marker))
        wait_for("the shell stops or the try ends", lambda: marker.exists() or first.end.done())
        second = chain.start()
        with suppress(TimeoutError):
            second.wait(25)
        if marker.exists():
            wait_for("its number", lambda: marker.read_text().strip())
            send(marker, signal.SIGCONT)
        first.wait()
        second.wait()
        chain.rest()
        return marker.exists()

    frozen = ground.together(strike, range(len(lines)), at_once=16)
    judge("remote shell frozen, a second try beside it", sum(frozen))
    assert sum(frozen) >= 10


# -- what sbatch says -------------------------------------------------------------------------------------------------

ANSWERS = {
    "late": "after 20 s",
    "garbage": "bytes that are no answer",
    "empty": "nothing",
    "warned": "the id, and an error beside it",
    "banner": "the id between lines of a banner",
    "lost": "that the socket timed out, and the job is there",
    "zero": "an error and exit status 0, and the job is there",
    "none": "that the socket timed out, and there is no job",
    "killed": "nothing, for it was killed after the job was there",
    "shell": "to a shell that is dead by then",
    "two": "two numbers",
    "never": "nothing for ever, and the job is there",
}


@pytest.mark.parametrize("kind", ["waiting", "held", "running"])
def test_what_sbatch_says_neither_doubles_nor_loses_a_job(ground: Ground, judge, cluster, kind: str):
    wrapper = write_wrapper(ground.folder / "bin")
    connection = with_extra(cluster, slurm_bin=str(wrapper))

    def strike(word: str) -> None:
        extra = {"requeue": ""} if word == "lost" and kind == "running" else {}
        chain = ground.chain(word, kind, environ=connection, extra=extra)
        arm(chain, word)
        chain.try_once()
        if extra:
            requeue(chain, cluster)
        chain.rest()
        assert not list(chain.folder.glob("runs/fault")), "sbatch was not called"

    words = [word for word in ANSWERS if word != "never" or kind == "held"]
    ground.together(strike, words, at_once=len(words))
    judge("sbatch answers late, wrongly or not at all", len(words))


def with_extra(cluster, **extra: str) -> dict[str, str]:
    values = json.loads(cluster.exports["AIRFLOW_CONN_GYM_CLUSTER"])
    return {"AIRFLOW_CONN_GYM_CLUSTER": json.dumps(values | {"extra": values["extra"] | extra})}


def arm(chain: Chain, word: str) -> None:
    (chain.folder / "runs").mkdir(exist_ok=True)
    (chain.folder / "runs" / "fault").write_text(word)


def requeue(chain: Chain, cluster) -> None:
    """Slurm takes the job back while it runs, and will start it again under the same id."""
    (job_id,) = cluster.jobs_named(chain.job_name)
    cluster.wait_for(job_id, "RUNNING")
    cluster.run(f"scontrol requeue {job_id}")
    cluster.wait_for(job_id, "PENDING", "COMPLETING", "REQUEUED", "RUNNING")


def test_a_job_that_ended_before_its_id_was_known_is_not_run_again(ground: Ground, judge, cluster):
    connection = with_extra(cluster, slurm_bin=str(write_wrapper(ground.folder / "bin")))

    def strike(word: str) -> None:
        chain = ground.chain(f"short {word}", "running", environ=connection, command="true")
        arm(chain, word)
        chain.try_once()
        if word == "shell":
            time.sleep(25)  # until squeue has forgotten it (MinJobAge)
        chain.rest()
        assert chain.results[-1]["ended"] in ("done", "deferred")

    words = ["lost", "empty", "killed", "shell", "zero"]
    ground.together(strike, words, at_once=5)
    judge("job over before its id is known", len(words))


def test_a_client_killed_while_sbatch_is_at_work(ground: Ground, judge, cluster):
    connection = with_extra(cluster, slurm_bin=str(write_wrapper(ground.folder / "bin")))

    def strike(item: tuple[str, bool]) -> None:
        word, shell_too = item
        chain = ground.chain(f"{word} {shell_too}", environ=connection)
        arm(chain, word)
        first = chain.start(remote=armed(line="0", pid=chain.folder / "pid") if shell_too else "")
        wait_for("sbatch is at work", lambda: list((chain.folder / "runs").glob("fault.*")))
        first.signal(signal.SIGKILL)
        if shell_too:
            kill_shells_in(chain.job_dir)
        chain.rest()

    items = [(word, shell_too) for word in ("slow", "late", "lost", "lingering") for shell_too in (False, True)]
    ground.together(strike, items, at_once=8)
    ground.next_look()
    judge("client killed while sbatch works", len(items))


def kill_shells_in(job_dir: Path) -> None:
    """The script's own shell, which holds the chain's lock; sbatch and its like go on."""
    lock = str(job_dir / ".gym_chain.lock")
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            held = {str(link.readlink()) for link in (folder / "fd").iterdir()}
        except OSError:
            continue
        if words[:2] == [b"bash", b"-s"] and lock in held:
            os.kill(int(folder.name), signal.SIGKILL)


# -- a file system that is full ---------------------------------------------------------------------------------------

ROOM = [*(f"size={kb}k" for kb in range(4, 44, 4)), *(f"nr_inodes={number}" for number in range(3, 19))]


@pytest.mark.row("the disk is full when a job is queued")
def test_a_file_system_that_is_full_at_any_write(ground: Ground, judge, mounts):
    def strike(room: str) -> bool:
        output = mounts.tmpfs(*["size=1m"] * room.startswith("nr"), room)
        chain = ground.chain(room, output=output)
        first = chain.try_once().result
        full = first["ended"] == "retry" or not chain.recorded
        if first["ended"] == "retry":
            assert f"{output}/" in first["reason"]
            assert "full, in bytes or in files (`df -h` and `df -i` there tell): make room" in first["reason"]
        mounts.remount(output, "size=1m", "nr_inodes=1000")
        chain.rest()
        return full

    rooms = every(2, ROOM)
    full = ground.together(strike, rooms, at_once=8)
    judge("file system full at a write", sum(full))
    assert sum(full) >= 0.6 * len(rooms) > 5


# -- twenty of one run ------------------------------------------------------------------------------------------------


def test_twenty_benchmarks_of_one_run_at_once(ground: Ground, judge):
    names = tuple(f"b{number:02}" for number in range(20))
    folder = ground.folder / "run"
    chains = []
    for number, name in enumerate(names):
        chain = Chain(
            ground,
            f"twenty {ground.mark}",
            folder,
            ["waiting", "held", "running"][number % 3],
            benchmark=name,
            benchmarks=names,
            run_group="evals",
        )
        chains.append(chain)
    ground.chains += chains
    places = client_places(ground)
    record, halves, seen = chains[0].run_dir / "gym-job.json", [], set()
    over_ = threading.Event()

    def read() -> None:
        while not over_.is_set():
            try:
                seen.add(len(json.loads(record.read_text())["benchmarks"]))
            except FileNotFoundError:
                pass
            except (ValueError, KeyError) as err:
                halves.append(repr(err))
            time.sleep(0.002)

    reader = threading.Thread(target=read)
    reader.start()

    def strike(at: int) -> bool:
        place = random.Random(at).choice(places[len(places) // 3 :]) if at % 4 == 0 else ""
        remote = armed(line=str(random.Random(at).randrange(150, 500)), whom="-$$") if at % 4 == 2 else ""
        status = chains[at].try_once(place=place, remote=remote).status
        chains[at].rest()
        return status != 0

    died = ground.together(strike, range(20), at_once=20)
    over_.set()
    reader.join()
    assert not halves
    assert [item["benchmark"] for item in json.loads(record.read_text())["benchmarks"]] == list(names)
    assert len(seen) > 1, "the reader saw it grow"
    judge("20 benchmarks of one run at once, some killed", sum(died))


# -- anything, anywhere, for long -------------------------------------------------------------------------------------


@pytest.mark.soak
def test_faults_at_random_for_long(ground: Ground, judge, cluster):
    seed = int(os.environ.get("GYM_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    minutes = float(os.environ.get("GYM_SOAK_MINUTES") or 20)
    print(f"\nGYM_SOAK_SEED={seed}, {minutes:g} minutes")
    soak = Soak(ground, cluster, random.Random(seed))
    deadline = time.monotonic() + 60 * minutes
    batch = 0
    while time.monotonic() < deadline:
        batch += 1
        kills = sum(ground.together(soak.strike, [soak.dice.random() for _ in range(24)], at_once=12))
        tally = judge(f"random faults, seed {seed}", kills)
        print(f"batch {batch}: {tally.kills} faults, nothing doubled, lost or left")
        ground.end()
        ground.chains.clear()
        ground.started.clear()


class Soak:
    """Chains whose first tries meet one fault after another, each drawn by lot."""

    def __init__(self, ground: Ground, cluster, dice: random.Random) -> None:
        self.ground, self.cluster, self.dice, self.number = ground, cluster, dice, 0
        self.places = client_places(ground)
        self.lines = remote_lines(ground, 2)
        self.port = int(cluster.exports["GYM_SSH_PORT"])
        self.bin = str(write_wrapper(ground.folder / "bin"))

    def strike(self, seed: float) -> int:
        """One chain; how many faults it met."""
        dice = random.Random(seed)
        self.number += 1
        extra = dice.choice([{}, {"requeue": ""}])
        kind = dice.choice(["waiting", "waiting", "held", "running"])
        chain = self.ground.chain(
            f"soak {seed}", kind, environ=with_extra(self.cluster, slurm_bin=self.bin), extra=extra
        )
        faults = [self.client, self.instant, self.shell, self.cut, self.answer, self.frozen, self.twins]
        met = sum(dice.choice(faults)(chain, dice) for _ in range(dice.randint(1, 3)))
        chain.rest()
        return met

    def client(self, chain: Chain, dice: random.Random) -> int:
        return chain.try_once(place=dice.choice(self.places)).status == -signal.SIGKILL

    def instant(self, chain: Chain, dice: random.Random) -> int:
        first = chain.start()
        time.sleep(dice.random() * 2.5)
        first.signal(signal.SIGKILL)
        return first.wait() == -signal.SIGKILL

    def shell(self, chain: Chain, dice: random.Random) -> int:
        marker = chain.folder / f"struck{dice.random()}"
        line, whom, script = dice.choice(self.lines), dice.choice(list(WHOM.values())), dice.choice([1, 2, 2])
        chain.try_once(remote=armed(line=line, whom=whom, pid=marker), script=script)
        return marker.exists()

    def cut(self, chain: Chain, dice: random.Random) -> int:
        proxy = Proxy(self.port, **{dice.choice(["up", "down"]): dice.randrange(1, 20_000)}, gently=dice.random() < 0.5)
        values = json.loads(chain.environ["AIRFLOW_CONN_GYM_CLUSTER"]) | {"port": proxy.port}
        chain.try_once(environ={"AIRFLOW_CONN_GYM_CLUSTER": json.dumps(values)})
        proxy.close()
        return proxy.cut

    def answer(self, chain: Chain, dice: random.Random) -> int:
        arm(chain, dice.choice([word for word in ANSWERS if word not in ("never", "late")]))
        first = chain.start()
        if dice.random() < 0.3:
            time.sleep(dice.random() * 3)
            first.signal(signal.SIGKILL)
        first.wait()
        return not (chain.folder / "runs" / "fault").exists()

    def frozen(self, chain: Chain, dice: random.Random) -> int:
        first = chain.start(place=dice.choice(self.places), sign=signal.SIGSTOP)
        wait_for("the first try stops or ends", lambda: first.stopped() or first.end.done())
        frozen = first.stopped()
        chain.try_once()
        first.signal(signal.SIGCONT)
        first.wait()
        return frozen

    def twins(self, chain: Chain, dice: random.Random) -> int:
        first = chain.start()
        time.sleep(dice.random())
        second = chain.start()
        first.wait()
        second.wait()
        return 1
