"""A stand-in for a login node at the other end of SlurmHook: answers our status scripts as text, under a test's clock.

It reads from a script which jobs are asked for, as squeue and sacct would from their arguments, and prints what they
print; its shell stays, and remembers what it was told. What goes wrong is the test's to say, as a function of the time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from airflow_gym_provider.exceptions import SlurmAnswerCutError
from airflow_gym_provider.slurm.accounting import SACCT_FIELDS
from airflow_gym_provider.slurm.remote import Answer, RemoteScript
from airflow_gym_provider.slurm.tables import SEPARATOR

COLUMNS = "JOBID STATE TIME TIME_LIMIT START_TIME SUBMIT_TIME NODELIST REASON WORK_DIR NAME JOBID"
SLURMCTLD_AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
SLURMDBD_AWAY = "sacct: error: Problem talking to the database: Connection refused"
RATE_LIMIT = "slurm_load_jobs error: Rate limit exceeded, try again later"
TIMED_OUT = "slurm_load_jobs error: Socket timed out on send/recv operation"


class AnsweringHook:
    """Knows of SlurmHook what watchers need. `jobs`: number to state; an ended job leaves squeue for accounting.

    `trouble(now)` raises what a transport raises, or returns {"squeue": text, "sacct": text} for tools that fail;
    `garbled(text, now)` may change an answer on its way. `clock`: how wrong the login node's own clock is, in seconds.
    """

    def __init__(self, place: Any = None, poll_floor: float = 30.0) -> None:
        self.place = place
        self.poll_floor = poll_floor
        self.script_options: dict[str, Any] = {}
        self.jobs: dict[str, str] = {}
        self.queue_cells: dict[str, dict[str, str]] = {}
        self.trouble: Callable[[float], dict[str, str]] = lambda now: {}
        self.garbled: Callable[[str, float], str] = lambda text, now: text
        self.clock = 0.0
        self.calls: list[tuple[float, RemoteScript]] = []
        self.closed = self.loads = 0
        self.at_once = self.most_at_once = 0
        self._loaded = False
        self._shell: dict[str, Any] | None = None
        self._told: dict[str, Any] = {"ids": set(), "last": ""}

    async def aload(self) -> None:
        self.loads += not self._loaded
        self._loaded = True

    def forget(self) -> None:
        self._loaded = False

    async def aclose(self) -> None:
        self.closed += 1
        self._shell = None

    async def aask(
        self, write: Callable[..., RemoteScript], timeout: float, *, anew: bool = False
    ) -> tuple[RemoteScript, Answer]:
        shell, self._shell = self._shell, None
        fresh = shell is None or anew
        script = write(fresh=fresh)
        self._told = {"ids": set(), "last": ""} if fresh or shell is None else shell
        answer = await self.arun(script, timeout)
        self._shell = self._told
        return script, answer

    async def arun(self, script: RemoteScript, timeout: float) -> Answer:
        now = asyncio.get_running_loop().time()
        self.calls.append((now, script))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.2)
            whole, short = self._print(script, self.trouble(now))
            text = self.garbled(whole, now)
            if text == whole:
                text = short
            else:
                self._told["last"] = ""
        finally:
            self.at_once -= 1
        if not script.frames(text).complete:
            raise SlurmAnswerCutError("login: the connection ended in the middle of an answer")
        return Answer(0, text, "")

    # -- what the programs print ----------------------------------------------------------------------------------

    def _print(self, script: RemoteScript, failing: dict[str, str]) -> tuple[str, str]:
        """The answer, and the one of a shell that leaves out what squeue has printed to it before."""
        shown = same = ""
        mark = f"\n@@{script.nonce} "
        parts = [f"{mark}begin\n{mark}clock\n{int(time.time() + self.clock)}\n"]
        if re.search(r"^_gym_look_0$", script.text, re.MULTILINE):
            ids = self._wanted(script.text)
            steady = self._tool("@", "queue", "0", [i for i in ids if self._queued(i)], failing.get("squeue"))
            rest = ids if "squeue" in failing else [i for i in ids if not self._queued(i)]
            parts.append(shown := steady.replace("@", mark))
            same = f"{mark}same 0\n" if steady == self._told["last"] else shown
            self._told["last"] = "" if rest else steady
            if rest:
                if "squeue" not in failing:
                    parts.append(self._tool(mark, "squeue", "0.0", [], None))
                parts.append(f"{mark}asked 0.0\n{','.join(rest)}\n")
                parts.append(self._tool(mark, "sacct", "0.0", rest, failing.get("sacct")))
        for tool, tag, ids in re.findall(r"^framed (squeue|sacct) (\d+) .*--jobs=([\d,]+)$", script.text, re.MULTILINE):
            known = [i for i in ids.split(",") if tool == "sacct" or self._queued(i)]
            parts.append(self._tool(mark, tool, tag, known, failing.get(tool)))
        whole = "".join([*parts, f"{mark}end 0\n"])
        return whole, whole.replace(shown, same) if shown else whole

    def _wanted(self, text: str) -> list[str]:
        """The ids that the shell knows of after this script; see `alive.alive_script`."""
        ids = self._told["ids"]
        if re.search(r"^_gym_last\[0\]=$", text, re.MULTILINE):
            self._told["last"] = ""
        for gone in re.findall(r"'_gym_ids_0\[(\d+)\]'", text):
            ids.discard(gone)
        for come in re.findall(r"^_gym_ids_0\+=\((.*)\)$", text, re.MULTILINE):
            ids.update(re.findall(r"\d+", come))
        return sorted(ids)

    def _queued(self, job_id: str) -> bool:
        return self.jobs.get(job_id, "").split(" ")[0] in ("PENDING", "RUNNING", "COMPLETING")

    def _tool(self, mark: str, name: str, tag: str, ids: list[str], failure: str | None) -> str:
        if failure:
            return f"{mark}{name} {tag}\n{mark}{name}.end {tag} 1\n{failure}\n"
        columns = SACCT_FIELDS if name == "sacct" else COLUMNS.split()
        rows = [SEPARATOR.join(columns), *(self._row(columns, job_id) for job_id in ids if job_id in self.jobs)]
        return f"{mark}{name} {tag}\n" + "".join(f"{row}\n" for row in rows) + f"{mark}{name}.end {tag} 0\n\n"

    def _row(self, columns: Any, job_id: str) -> str:
        state = self.jobs[job_id]
        cells = {"JOBID": job_id, "STATE": state, "TIME": "0:05", "TIME_LIMIT": "UNLIMITED", "START_TIME": "N/A"}
        cells |= {"JobID": job_id, "State": state, "ExitCode": "0:0", "ElapsedRaw": "5", "NODELIST": "n1"}
        cells |= self.queue_cells.get(job_id, {})
        return SEPARATOR.join(cells.get(name, "") for name in columns)


def stamp(seconds: float) -> str:
    """A moment as squeue prints it under TZ=UTC0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
