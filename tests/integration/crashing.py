"""Chains whose tries are killed, cut off and lied to, on the real Slurm over the real sshd, and what is left of it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fakes.tries import STAMP, Order, Tries

from airflow_gym_provider.chain import ChainKey, job_name, run_dir
from airflow_gym_provider.config.hiding import shapes

BENCHMARK = "crash"
# How its job stands in the queue: a job that waits for its time, one that is held, one that runs.
KINDS: dict[str, dict[str, str]] = {"waiting": {"begin": "now+2hours"}, "held": {"hold": ""}, "running": {}}
# What a try gets from its environment for the job, and must leave in job.sh alone.
CANARIES = {
    "GYM_CRASH_HOSTED": 'canary-5f1e7c2a9b\nit\'s "another" canary-5f1e7c2a9b $x\n',
    "GYM_CRASH_FORWARDED": "canary-0d4b8e6f3a'& %",
}
_MOST_TRIES = 12
_LONGEST_DELAY = 31.0


@dataclass(frozen=True)
class Tally:
    """One line of the table."""

    kind: str
    kills: int = 0
    duplicates: int = 0
    lost: int = 0
    orphans: int = 0

    @property
    def clean(self) -> bool:
        return not (self.duplicates or self.lost or self.orphans)


class Ground:
    """A cluster, a program of tries, and a folder of its own."""

    def __init__(self, cluster: Any, tries: Tries, folder: Path) -> None:
        self.cluster, self.tries, self.folder = cluster, tries, folder
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        self.chains: list[Chain] = []
        self.numbers = itertools.count()  # chains are made in several threads
        self.started: list[Try] = []
        self._mine = f"SLURM_CONF={cluster.exports['SLURM_CONF']}"
        self._others = _logins(self._mine)

    def chain(self, name: str, kind: str = "waiting", **options: Any) -> Chain:
        """A new chain; names are the test's own."""
        made = Chain(self, f"{name} {self.mark}", self.folder / f"{next(self.numbers):04}", kind, **options)
        self.chains.append(made)
        return made

    def together(self, work: Callable[..., Any], items: Iterable[Any], at_once: int = 8) -> list[Any]:
        """`work` on each item, some at once: most of the time is waiting."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(work, items))

    def queue(self) -> dict[str, dict[str, str]]:
        """By job name: every id that the queue or accounting has ever known, with its state."""
        names = [chain.job_name for chain in self.chains]
        found: dict[str, dict[str, str]] = {name: {} for name in names}
        for at in range(0, len(names), 50):
            some = shlex.quote(",".join(names[at : at + 50]))
            known = self.cluster.run(f"sacct -nPX -S now-1days -o JobName,JobIDRaw,State --name {some}")
            live = self.cluster.run(f"squeue -h -t all -o '%j|%A|%T' --name {some}")
            for line in [*known.splitlines(), *live.splitlines()]:
                name, job_id, state = line.split("|")
                found[name][job_id] = state
        return found

    def count(self, kind: str, kills: int) -> Tally:
        """What is left of all chains so far, each of which has come to rest."""
        orphans = self._remote_processes()
        exposed = sorted({path for chain in self.chains for path in (*chain.exposed, *chain.seen())})
        assert not exposed, f"others may read a secret in {exposed}"
        tally, queue = Tally(kind, kills, orphans=len(orphans)), self.queue()
        self.words = [f"still there: {word}" for word in orphans]
        for chain in self.chains:
            ids, held = queue[chain.job_name], chain.held
            lost = [job_id for job_id in ids if job_id not in chain.recorded]
            left = chain.left_behind()
            tally = replace(
                tally,
                duplicates=tally.duplicates + max(0, len(ids) - 1),
                lost=tally.lost + len(lost) + (held is None or list(ids)[-1:] != [held]),
                orphans=tally.orphans + len(left),
            )
            if len(ids) != 1 or lost or left or held not in ids:
                self.words.append(f"{chain.run_id}: jobs {ids}, held {held}, recorded {chain.recorded}, left {left}")
                self.words += [f"    {line}" for line in chain.story()]
        return tally

    def next_look(self) -> None:
        """Airflow looks again, once every sbatch is over: what was at work when the last try came is tidied up now."""
        self._remote_processes()
        self.together(
            lambda chain: chain.try_once(), [chain for chain in self.chains if chain.left_behind()], at_once=8
        )

    def _remote_processes(self, seconds: float = 90) -> list[str]:
        """Processes of logins that are still there some time after the last one."""
        deadline = time.monotonic() + seconds
        while (found := self._begun_since()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return found

    def _begun_since(self) -> list[str]:
        """Without those that another test has left in this cluster."""
        return [words for process, words in _logins(self._mine).items() if process not in self._others]

    def end(self) -> None:
        """Take every process and every job away, also when a test broke off in the middle."""
        for marker in self.folder.glob("*/pid"):
            with suppress(OSError, ValueError):
                os.kill(int(marker.read_text()), signal.SIGCONT)
        for made in self.started:
            if not made.end.done():
                made.signal(signal.SIGKILL)
        names = ",".join(chain.job_name for chain in self.chains)
        if names:
            live = self.cluster.run(f"squeue -h -o %A --name {shlex.quote(names)}").split()
            if live:
                self.cluster.run(f"scancel {' '.join(live)}", check=False)


def _logins(mark: str) -> dict[tuple[str, str], str]:
    """(process number, time of its start) to the words of each process of a login to the cluster."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):
            environ = (folder / "environ").read_bytes().decode("utf-8", "replace").split("\0")
            words = {word.partition("=")[0] for word in environ}
            if mark in environ and "SSH_CONNECTION" in words and "SLURM_JOB_ID" not in words:
                began = (folder / "stat").read_text().rpartition(")")[2].split()[19]
                words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
                found[folder.name, began] = words
    return found


class Chain:
    """One chain: a benchmark of one DAG run, as its tries and a person at the cluster see it."""

    def __init__(
        self,
        ground: Ground,
        run_id: str,
        folder: Path,
        kind: str,
        *,
        benchmark: str = BENCHMARK,
        benchmarks: tuple[str, ...] = (),
        run_group: str | None = None,
        command: str = "sleep 600",
        environ: dict[str, str] | None = None,
        extra: dict[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        self.ground, self.run_id, self.benchmark, self.run_group = ground, run_id, benchmark, run_group
        folder.mkdir(exist_ok=True)
        self.folder, self.name = folder, benchmark
        self.config = {
            "services": {},
            "compute": {
                "slurm": {
                    "type": "slurm",
                    "account": "eval",
                    "walltime": "00:20:00",
                    "extra_args": KINDS[kind] | (extra or {}),
                    "node_pools": {"main": {"partition": "debug"}},
                    "forward_env": ["GYM_CRASH_FORWARDED"],
                }
            },
            "driver": {
                "container": "gym:stand-in",
                "benchmarks": {name: {"command": command} for name in benchmarks or (benchmark,)},
                "env": {"HOSTED": "host:GYM_CRASH_HOSTED"},
            },
            "job": {"output_path": str(output or folder / "runs")},
            "otel": {"enabled": False},
        }
        key = ChainKey("crashes", run_id, run_group or "eval", deployment="airflow")
        self.run_dir = Path(run_dir(str(output or folder / "runs"), key, STAMP))
        self.job_dir = self.run_dir / benchmark
        self.job_name = job_name(benchmark, key)
        self.environ = CANARIES | (environ or {})
        self.exposed: set[str] = set()
        self.results: list[dict[str, Any]] = []

    # -- tries --------------------------------------------------------------------------------------------------------

    def order(self, **faults: Any) -> Order:
        result = self.folder / f"{self.name}.{len(self.results)}.result"
        values = faults | {"environ": self.environ | faults.get("environ", {})}
        return Order(
            self.config,
            self.benchmark,
            self.run_id,
            str(self.folder / f"{self.name}.memory"),
            str(result),
            self.run_group,
            **values,
        )

    def start(self, **faults: Any) -> Try:
        """A try in a process of its own."""
        order = self.order(**faults)
        self.results.append({})
        made = Try(order, *self.ground.tries.start(order), self.results[-1])
        self.ground.started.append(made)
        return made

    def try_once(self, **faults: Any) -> Try:
        """A try, to its end."""
        made = self.start(**faults)
        made.wait()
        self.exposed |= self.seen()
        return made

    def rest(self) -> None:
        """Tries as Airflow would make them, until one holds a job."""
        for _ in range(_MOST_TRIES):
            end = self.try_once().result
            if end.get("ended") in ("deferred", "done", "failed"):
                return
            time.sleep(min(end.get("delay", 2.0), _LONGEST_DELAY))

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def held(self) -> str | None:
        """The job that the last try waits for."""
        last = self.results[-1] if self.results else {}
        if last.get("ended") == "done":
            return self.recorded[-1] if self.recorded else None
        return last.get("job_id", "").partition(";")[0] or None

    @property
    def recorded(self) -> list[str]:
        """The chain as its directory has it."""
        path = self.job_dir / ".gym_job_chain"
        return path.read_text().split() if path.exists() else []

    def entry(self) -> dict[str, Any]:
        """What gym-job.json says of this benchmark."""
        record = json.loads((self.run_dir / "gym-job.json").read_text())
        return next((item for item in record["benchmarks"] if item["benchmark"] == self.benchmark), {})

    def left_behind(self) -> list[str]:
        """Temporary files, intents and locks that nobody holds any more; a record that is not true."""
        left = [str(path) for pattern in (".gym_tmp.*", "*/.gym_tmp.*") for path in self.run_dir.glob(pattern)]
        left += [str(path) for path in [self.job_dir / ".gym_intent"] if path.exists()]
        left += [f"{path} is held" for path in self.run_dir.glob("**/.gym_*.lock") if _is_held(path)]
        try:
            said = self.entry().get("job_id")
        except (OSError, ValueError) as err:
            return [*left, f"gym-job.json: {err!r}"]
        return left if said == self.held else [*left, f"gym-job.json says {said}"]

    def seen(self) -> set[str]:
        """Files with a secret that is none of theirs, or that others may read or could put another in the place of."""
        found = set()
        for path in self.folder.rglob("*"):
            with suppress(OSError):  # a try may go on beside us
                if path.is_file() and _CANARY.search(path.read_bytes()) and not _is_private(path):
                    found.add(str(path))
        return found

    def story(self) -> list[str]:
        """What its tries came to."""
        logs = [path.read_text().splitlines()[-6:] for path in sorted(self.folder.glob(f"{self.name}.*.log"))]
        return [*(json.dumps(result) for result in self.results), *(line for lines in logs for line in lines)]


_CANARY = re.compile(b"|".join(re.escape(text.encode()) for text in shapes(CANARIES.values())))


def _is_private(path: Path) -> bool:
    """Whether it is a job script, or one that was about to become one, as such a file has to be."""
    mode, folder = path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777
    return path.name.endswith("job.sh") and mode == 0o600 and not folder & 0o022


def _is_held(path: Path) -> bool:
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Try:
    """One try: its process and, once it has ended, what it came to."""

    def __init__(self, order: Order, pid: int, end: Any, result: dict[str, Any]) -> None:
        self.order, self.pid, self.end, self.result = order, pid, end, result
        self.status: int | None = None

    def wait(self, seconds: float = 400) -> int:
        """Its exit status, negative for a signal."""
        self.status = self.end.result(seconds)
        with suppress(OSError):
            self.result.update(json.loads(Path(self.order.result).read_text()))
        return self.status

    def signal(self, sign: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, sign)

    def stopped(self) -> bool:
        """Whether a signal has stopped it."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
        except OSError:
            return False


def wait_for(what: str, found: Callable[[], Any], seconds: float = 200) -> Any:
    """Until it is true."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return value


def write_wrapper(folder: Path) -> Path:
    """A folder with an sbatch that answers as the file `fault` in the chain's output path says, once."""
    folder.mkdir(exist_ok=True)
    path = folder / "sbatch"
    path.write_text(SBATCH)
    path.chmod(0o755)
    subprocess.run(["bash", "-n", path], check=True)
    return folder


SBATCH = r"""#!/usr/bin/env bash
here=$(dirname -- "$0")
PATH=${PATH//"$here":/}
fault=$PWD/../../fault word=
if mv "$fault" "$fault.$$" 2>/dev/null; then word=$(cat "$fault.$$"); fi
timed_out="sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
case $word in
    none) echo "$timed_out" >&2; exit 1 ;;
    slow) sleep 6 ;;
    lingering) sleep 25 ;;
esac
answer=$(sbatch "$@"); status=$?
case $word in
    late) sleep 20 ;;
    never) sleep 100 ;;
    garbage) answer=$'\x01\xff Job 12 has been 7; 8' ;;
    empty) answer= ;;
    warned) echo "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying" >&2 ;;
    banner) answer=$'Welcome to cluster 5\n'$answer$'\nHave 2 nice days' ;;
    two) answer=$'999999\n'$answer ;;
    lost) answer=; echo "$timed_out" >&2; status=1 ;;
    zero) answer=; echo "sbatch: error: Zero Bytes were transmitted or received" >&2; status=0 ;;
    killed) kill -KILL $PPID ;;
    shell) kill -KILL "$(ps -o ppid= -p $PPID | tr -d ' ')"; sleep 1 ;;
esac
[ -z "$answer" ] || printf '%s\n' "$answer"
exit "$status"
"""
