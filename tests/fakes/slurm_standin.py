"""A stand-in for Slurm's commands, with state, for tests of scripts that run on a login node. It runs no job.

As a command (`slurm_standin.py sbatch|squeue|sacct|scancel …`) it works on the folder that STANDIN names; tests make
that folder, plan what goes wrong and read what happened with the class `Standin`. It knows the options our scripts use
and refuses all others, so that a new one is noticed.
"""

import calendar
import contextlib
import fcntl
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path

SEP = "\x1f"
LIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD")
START = {"next": 101, "jobs": [], "calls": 0, "plan": {}}


class Standin:
    """The folder of one stand-in cluster, as a test sees it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir(parents=True)
        for tool in TOOLS:
            command = root / "bin" / tool
            words = shlex.join([sys.executable, "-S", "-E", str(Path(__file__).resolve()), tool])
            command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            command.chmod(0o755)
        (root / "state.json").write_text(json.dumps(START))

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "STANDIN": str(self.root)}

    @property
    def jobs(self) -> list[dict]:
        return json.loads((self.root / "state.json").read_text())["jobs"]

    @property
    def live(self) -> list[int]:
        return [job["id"] for job in self.jobs if job["state"] in LIVE]

    def calls(self, tool: str) -> list[dict]:
        log = self.root / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for call in map(json.loads, lines) if call["tool"] == tool]

    def plan(self, tool: str, *turns: dict, always: bool = False, late: float = 0) -> None:
        """What the next calls of `tool` do: rc, stdout, before (on stdout), stderr, delay, creates and job (sbatch).

        `always`: the first turn holds for ever. `late`: seconds before every call reaches the cluster. A turn that has
        `only` is for calls with an option that begins so.
        """
        with changed(self.root) as state:
            state["plan"][tool] = {"turns": list(turns), "always": always, "late": late}

    def set(self, job_id: int, **fields: object) -> None:
        with changed(self.root) as state:
            next(job for job in state["jobs"] if job["id"] == job_id).update(fields)

    def limit_range(self, seconds: float) -> None:
        """MaxQueryTimeRange of slurmdbd: what is asked about without ids may reach no further back."""
        with changed(self.root) as state:
            state["range"] = seconds

    def add(self, **fields: object) -> int:
        with changed(self.root) as state:
            return make_job(state, fields)["id"]


@contextlib.contextmanager
def changed(root: Path):
    with (root / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = json.loads((root / "state.json").read_text())
        yield state
        (root / "state.json.new").write_text(json.dumps(state))
        (root / "state.json.new").replace(root / "state.json")


def make_job(state: dict, fields: dict) -> dict:
    job = {"id": state["next"], "name": "x", "dir": "/", "state": "PENDING", "exit": "0:0", "elapsed": 0, "user": "me"}
    job |= {"submit": time.time(), "sacct": True, "squeue": True, "cluster": "c1", "hidden": False} | fields
    state["next"] = max(state["next"], job["id"]) + 1
    state["jobs"].append(job)
    return job


def options(argv: list[str], known: str) -> tuple[dict[str, str], list[str]]:
    found, words = {}, []
    for word in argv:
        name, _, value = word.partition("=")
        if not word.startswith("--"):
            words.append(word)
        elif name[2:] in known.split():
            found[name[2:]] = value
        else:
            sys.exit(f"unrecognized option '{word}'")
    return found, words


def sbatch(state: dict, argv: list[str], turn: dict) -> str:
    found, words = options(argv, "parsable job-name chdir time")
    size = len(Path(words[0]).read_text())
    answer = ""
    if turn.get("creates", turn.get("rc", 0) == 0):
        fields = {"name": found["job-name"], "dir": found["chdir"], "time": found.get("time"), "size": size}
        job = make_job(state, fields | {"env": {**os.environ}, "umask": os.umask(0)} | turn.get("job", {}))
        answer = f"{job['id']}\n"
        turn = {
            key: text.replace("{id}", str(job["id"])) if isinstance(text, str) else text for key, text in turn.items()
        }
    return turn.get("stdout", answer if turn.get("rc", 0) == 0 else "")


def squeue(state: dict, argv: list[str], turn: dict) -> str:
    found, _ = options(argv, "all states user format name clusters jobs noheader")
    told = "all" in found or "jobs" in found  # else it says nothing of hidden partitions, nor of what was given away
    if found.get("format") == "%Z":
        return "".join(f"{job['dir']}\n" for job in state["jobs"] if str(job["id"]) == found["jobs"])
    rows = [SEP.join("JOBID STATE TIME TIME_LIMIT START_TIME SUBMIT_TIME NODELIST REASON WORK_DIR NAME JOBID".split())]  # noqa: SIM905
    for job in state["jobs"]:
        hidden = job["hidden"] or job["state"] == "REVOKED"
        if named(job, found) and job["squeue"] and (told or not hidden):
            word = job["squeue"] if isinstance(job["squeue"], str) else job["state"].split()[0]
            ran = f"0:{job['elapsed']:02}"
            cells = [
                job["id"],
                word,
                ran,
                "UNLIMITED",
                "N/A",
                stamp(job),
                "",
                "None",
                job["dir"],
                job["name"],
                job["id"],
            ]
            rows.append(SEP.join(map(str, cells)))
    return "\n".join(rows) + "\n"


def sacct(state: dict, argv: list[str], turn: dict) -> str:
    found, _ = options(argv, "delimiter parsable2 duplicates format jobs name starttime clusters")
    start = calendar.timegm(time.strptime(found["starttime"], "%Y-%m-%dT%H:%M:%S")) if "starttime" in found else 0
    if "jobs" not in found and time.time() - start > state.get("range", math.inf):
        turn.update(rc=1, stderr="sacct: error: slurmdbd: Too wide of a date range in query\n")
        return ""
    rows = [found["delimiter"].join(found["format"].split(","))]
    for job in state["jobs"]:
        by_id = "jobs" not in found or str(job["id"]) in found["jobs"].split(",")
        if named(job, found) and by_id and job["sacct"]:
            values = {"JobID": job["id"], "State": job["state"], "ExitCode": job["exit"], "ElapsedRaw": job["elapsed"]}
            values |= {"WorkDir": job["dir"], "JobName": job["name"], "Submit": stamp(job), "Cluster": job["cluster"]}
            rows.append(found["delimiter"].join(str(values.get(name, "")) for name in found["format"].split(",")))
    return "\n".join(rows) + "\n"


def scancel(state: dict, argv: list[str], turn: dict) -> str:
    found, words = options(argv, "clusters user name")
    for job in state["jobs"]:
        if str(job["id"]) in words or (not words and named(job, found)):
            if job["state"] in LIVE:
                job["state"] = "CANCELLED by 1000"
            elif words:
                trouble = "Job/step already completing or completed"
                sys.stderr.write(f"scancel: error: Kill job error on job id {job['id']}: {trouble}\n")
    return ""


def named(job: dict, found: dict) -> bool:
    cluster = found.get("clusters", "c1")
    return job["cluster"] == cluster and ("name" not in found or job["name"] in found["name"].split(","))


def stamp(job: dict) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(job["submit"]))


TOOLS = {"sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel}


def main() -> None:
    tool, argv, root = sys.argv[1], sys.argv[2:], Path(os.environ["STANDIN"])
    time.sleep(json.loads((root / "state.json").read_text())["plan"].get(tool, {}).get("late", 0))
    with changed(root) as state:
        plan = state["plan"].get(tool, {"turns": []})
        turn = dict(plan["turns"][0]) if plan["turns"] else {}
        if not any(word.startswith(turn.get("only", "")) for word in [*argv, ""]):
            turn = {}
        elif plan["turns"] and not plan.get("always"):
            plan["turns"].pop(0)
        env = {k: v for k, v in os.environ.items() if k.startswith(("SLURM", "SBATCH", "SQUEUE", "SACCT", "LC_"))}
        call = {"tool": tool, "argv": argv, "time": time.time(), "env": env, "cwd": str(Path.cwd())}
        out = TOOLS[tool](state, argv, turn)
        with (root / "calls.log").open("a") as log:
            log.write(json.dumps(call) + "\n")
    time.sleep(turn.get("delay", 0))
    sys.stderr.write(turn.get("stderr", ""))
    sys.stdout.write(turn.get("before", "") + out)
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(turn.get("rc", 0))


if __name__ == "__main__":
    main()
