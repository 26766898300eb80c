"""One contender of bench_watcher.py: a process like a triggerer's that waits for jobs in one of three ways.

Reads a plan (JSON) from its standard input and prints a JSON line for every event. "cost N" on its input: after its
next look it says that it begins to count, and N looks later what they have cost. Not for use by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import psutil


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


class Looks:
    """Counts looks that are over."""

    def __init__(self) -> None:
        self._over = 0
        self._one_more = asyncio.Event()

    def over(self) -> None:
        self._over += 1
        self._one_more.set()

    async def wait(self, number: int) -> None:
        until = self._over + number
        while self._over < until:
            self._one_more.clear()
            await self._one_more.wait()


LOOKS = Looks()


async def ours(plan: dict[str, Any]) -> None:
    """Our trigger, one for each job."""
    from airflow_gym_provider.hooks.slurm import SlurmHook
    from airflow_gym_provider.triggers.slurm import SlurmJobTrigger

    ask = SlurmHook.aask

    async def counted(*args: Any, **kwargs: Any) -> Any:
        try:
            return await ask(*args, **kwargs)
        finally:
            asyncio.get_running_loop().call_later(0.3, LOOKS.over)  # what is made of it counts as well

    SlurmHook.aask = counted  # type: ignore[method-assign]

    async def wait(job: dict[str, str]) -> None:
        trigger = SlurmJobTrigger(
            [job["id"]], ssh_conn_id="bench", poll_interval=plan["interval"], rollouts_path=job.get("rollouts")
        )
        async for event in trigger.run():
            say(event=job["id"], at=time.time(), how=event.payload["reason"])

    await asyncio.gather(*map(wait, plan["jobs"]))


async def remote_job(plan: dict[str, Any]) -> None:
    """Airflow's SSHRemoteJobTrigger, one for each job."""
    from airflow.providers.ssh.triggers.ssh_remote_job import SSHRemoteJobTrigger

    async def wait(job: dict[str, str]) -> None:
        folder = job["folder"]
        trigger = SSHRemoteJobTrigger(
            ssh_conn_id="bench",
            remote_host=None,
            job_id=job["id"],
            job_dir=folder,
            log_file=f"{folder}/stdout.log",
            exit_code_file=f"{folder}/exit_code",
            remote_os="posix",
            poll_interval=plan["interval"],
        )
        async for event in trigger.run():
            say(event=job["id"], at=time.time(), how=event.payload["status"])

    await asyncio.gather(*map(wait, plan["jobs"]))


async def bare(plan: dict[str, Any]) -> None:
    """The limit: one connection, one sacct per interval, and a dictionary."""
    import asyncssh

    waiting = {job["id"] for job in plan["jobs"]}
    ids = ",".join(sorted(waiting, key=int))
    command = f"sacct -X -n -P -j {ids} -o JobID,State,ExitCode,ElapsedRaw,Start,End,Reason,NodeList"
    async with asyncssh.connect(**plan["ssh"]) as conn:
        while waiting:
            answer = await conn.run(command)
            states = {}
            for line in str(answer.stdout).splitlines():
                cells = line.split("|")
                states[cells[0]] = cells[1:]
            for job_id, cells in states.items():
                if job_id in waiting and cells[0].split()[0] not in ("PENDING", "RUNNING", "COMPLETING"):
                    waiting.discard(job_id)
                    say(event=job_id, at=time.time(), how=cells[0])
            asyncio.get_running_loop().call_later(0.3, LOOKS.over)
            await asyncio.sleep(plan["interval"])


class Stalls:
    """How much CPU the process used at most between two turns of its event loop: what else on the machine holds it up
    does not count.
    """

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        before = time.process_time()
        while True:
            await asyncio.sleep(0.002)
            now = time.process_time()
            self.longest = max(self.longest, now - before)
            before = now


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)  # a plan of many jobs is long
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb"))
    plan = json.loads(await reader.readline())
    way = {"ours": ours, "bare": bare, "remote": remote_job}[plan["way"]]
    # what every way needs anyway is there before memory is compared
    import asyncssh  # noqa: F401

    if plan["way"] == "ours":
        import airflow_gym_provider.triggers.slurm  # noqa: F401
    if plan["way"] == "remote":
        import airflow.providers.ssh.triggers.ssh_remote_job  # noqa: F401
    process = psutil.Process()
    before, stalls = process.memory_info().rss, Stalls()
    task = loop.create_task(way(plan))
    ticker = None
    while word := (await reader.readline()).decode().strip():
        if word.startswith("cost"):
            looks = int(word.split()[1])
            await (asyncio.sleep(plan["interval"]) if plan["way"] == "remote" else LOOKS.wait(1))
            say(begin=True)
            cpu = time.process_time()
            await (asyncio.sleep(looks * plan["interval"]) if plan["way"] == "remote" else LOOKS.wait(looks))
            say(cpu=time.process_time() - cpu, memory=process.memory_info().rss - before)
        elif word == "stalls":
            ticker = loop.create_task(stalls.watch())
        elif word == "over":
            break
    say(stall=stalls.longest)
    for each in (task, ticker):
        if each is not None:
            each.cancel()
    os._exit(0)


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    asyncio.run(main())
