"""What waiting for Slurm jobs costs: our trigger, Airflow's SSHRemoteJobTrigger, and the bare loop as the limit.

    bash docker/cluster.sh up --dir /tmp/bench
    python tests/bench/bench_watcher.py --cluster /tmp/bench [--jobs 1 20 100 1000] [--rounds 3] [--looks 12]

Real jobs on a real Slurm, behind an sshd with its default limits. The bare loop's commands run the account's start-up
files, which may cost more than all that is measured: --quick-shell leaves them out. The contenders take turns, each in
a process of its own, all at the same interval: ours and the bare loop `--rounds` times, medians are shown;
SSHRemoteJobTrigger once, up to `--most-remote` jobs. In every round jobs end at random moments, for the delay until the
event (the longest of a round). CPU is of everything under sshd, and of the process that stands for the triggerer,
measured from one look's end over `--looks` looks, and shown for the looks of a minute (a look counts as one command). A
stall is the CPU that the process used between two turns of its event loop.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from watcher_site import RUNNING, Site, environment

CONTENDER = Path(__file__).with_name("watcher_contender.py")
COLUMNS = (
    "jobs",
    "way",
    "logins",
    "commands/min",
    "login node s/min",
    "triggerer s/min",
    "KB/job",
    "stall ms",
    "delay s",
)


class Contender:
    """A process that waits, and what it says."""

    def __init__(self, site: Site, way: str, jobs: list[dict[str, str]], interval: float) -> None:
        environ = site.environ | {"AIRFLOW_CONN_BENCH": site.connection(interval)}
        words = [sys.executable, str(CONTENDER)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: dict[str, float] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        self.tell(json.dumps({"way": way, "jobs": jobs, "interval": interval, "ssh": site.ssh_options()}))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            words = json.loads(line)
            if "event" in words:
                self.events[words["event"]] = words["at"]
            else:
                self.said.put(words)

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def ask(self, word: str) -> dict[str, Any]:
        self.tell(word)
        return self.said.get(timeout=120)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(site: Site, way: str, number: int, interval: float, looks: int) -> dict[str, float]:
    """One round of one contender."""
    jobs = site.jobs[:number]
    before = site.counts()
    contender = Contender(site, way, jobs, interval)
    try:
        time.sleep(12 + interval)  # imports, logins and the first looks, which ask more
        if contender.events:
            raise RuntimeError(f"{way} gave up on {len(contender.events)} of {number} jobs")
        contender.ask(f"cost {looks}")
        started, cpu, commands = time.time(), site.cpu(), site.counts()[1]
        cost = contender.said.get(timeout=60 + 20 * interval * looks)
        cpu, span = site.cpu() - cpu, time.time() - started
        commands = site.counts()[1] - commands if way == "remote" else looks
        if contender.events:
            raise RuntimeError(f"{way} gave up on {len(contender.events)} of {number} jobs")
        contender.tell("stalls")
        delays = end_some(site, contender, jobs, interval)
        stall = contender.ask("over")["stall"]
    finally:
        contender.end()
    for job_id in list(contender.events):
        site.replace(job_id)
    after = site.counts()
    return {
        "logins": after[0] - before[0],
        "dropped": after[2] - before[2],
        "commands/min": commands * 60 / span,
        "login node s/min": cpu / looks * 60 / interval,
        "triggerer s/min": cost["cpu"] / looks * 60 / interval,
        "KB/job": cost["memory"] / 1024 / number,
        "stall ms": stall * 1000,
        "delay s": max(delays),
    }


def end_some(site: Site, contender: Contender, jobs: list[dict[str, str]], interval: float) -> list[float]:
    """End up to two running jobs at random moments; the seconds until each event."""
    delays = []
    for job in random.sample(jobs[:RUNNING], min(2, len(jobs))):
        time.sleep(random.uniform(0, interval))
        ended = site.end_job(job)
        deadline = time.time() + 20 * interval + 60
        while job["id"] not in contender.events and time.time() < deadline:
            time.sleep(0.05)
        delays.append(contender.events.get(job["id"], float("inf")) - ended)
    return delays


def row(number: int, way: str, found: list[dict[str, float]]) -> dict[str, Any]:
    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    return {"jobs": number, "way": way} | middle


def show(rows: list[dict[str, Any]]) -> None:
    limits = {each["jobs"]: each for each in rows if each["way"] == "bare loop"}
    print("\n| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    for each in rows:
        limit, cells = limits[each["jobs"]], [str(each["jobs"]), each["way"]]
        for name in COLUMNS[2:]:
            if name not in each:
                cells.append(str(each.get("text", "")) if name == "logins" else "")
                continue
            ratio = f" ({each[name] / limit[name]:.2f}x)" if name.endswith(" s/min") and each is not limit else ""
            cells.append(f"{each[name]:.{0 if name in ('logins', 'looks/min', 'stall ms') else 2}f}{ratio}")
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", help="the folder of a cluster that docker/cluster.sh brought up")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 20, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--looks",
        type=int,
        default=12,
        help="how many looks a round measures: of a minute, for that is how often rollouts are counted",
    )
    parser.add_argument("--interval", type=float, default=5, help="seconds, of all contenders")
    parser.add_argument(
        "--most-remote", type=int, default=100, help="SSHRemoteJobTrigger is tried up to this many jobs"
    )
    parser.add_argument("--quick-shell", action="store_true", help="leave the account's start-up files out")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gym-bench-") as folder:
        site = Site(environment(options.cluster), Path(folder))
        site.start_sshd(quick_shell=options.quick_shell)
        try:
            for number in options.jobs:
                site.submit(number)
                found: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
                for _ in range(options.rounds):
                    for way, results in found.items():
                        results.append(measure(site, way, number, options.interval, options.looks))
                        print(json.dumps({"jobs": number, "way": way} | results[-1]), file=sys.stderr)
                rows.append(row(number, "ours", found["ours"]))
                rows.append(row(number, "bare loop", found["bare"]))
                if number <= options.most_remote:
                    try:
                        rows.append(
                            row(
                                number,
                                "SSHRemoteJobTrigger",
                                [measure(site, "remote", number, options.interval, options.looks)],
                            )
                        )
                    except (RuntimeError, queue.Empty) as err:
                        rows.append({"jobs": number, "way": "SSHRemoteJobTrigger", "text": str(err)})
        finally:
            site.end()
    show(rows)


if __name__ == "__main__":
    main()
