"""Runs as the benchmark of a job: asks a gateway everything that a client, an operator or a crash would ask of it.

usage: gateway_driver.py RECORDS RESULT — the servers' notes, and where the findings go as JSON. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BASE = os.environ["NEMO_GYM_POLICY_BASE_URL"]
MODEL = os.environ["NEMO_GYM_POLICY_MODEL_NAME"]


def post(number: int, **body: object):
    """The open answer to a question."""
    content = {"model": MODEL, "messages": [{"role": "user", "content": f"question {number}"}], **body}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{BASE}/chat/completions", json.dumps(content).encode(), headers)
    return urllib.request.urlopen(request, timeout=120)


def health() -> int:
    """Status of /health; 0 where nothing answers."""
    try:
        with urllib.request.urlopen(BASE.removesuffix("/v1") + "/health", timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as problem:
        return problem.code
    except OSError:
        return 0


def servers() -> list[dict]:
    """The notes of the servers that live."""
    notes = [json.loads(path.read_text()) for path in Path(sys.argv[1]).glob("vllm-*.json")]
    return [note for note in notes if Path(f"/proc/{note['pid']}").exists()]


def answered(server: dict) -> int:
    """How many answers a server counted."""
    port = server["argv"][server["argv"].index("--port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return round(sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:request_success_total")))


def until(condition, seconds: float) -> bool:
    """Whether the condition became true in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return bool(found)


def refused(**body: object) -> int:
    """The status of a request that is not answered."""
    try:
        post(0, **body).close()
    except urllib.error.HTTPError as problem:
        return problem.code
    return 200


def crowd(size: int) -> float:
    """Seconds until so many questions, asked at once, are answered."""
    began = time.monotonic()
    with ThreadPoolExecutor(size) as pool:
        assert all("boxed" in answer.read().decode() for answer in pool.map(post, range(size)))
    return time.monotonic() - began


def streamed() -> tuple[int, float]:
    """The number of pieces of a streamed answer, and the seconds from the first to the last."""
    times = [time.monotonic() for line in post(1, stream=True) if line.startswith(b"data: ")]
    return len(times), times[-1] - times[0]


def gateway_pid() -> int:
    """The program that holds the gateway; its arguments end in those of `vllm serve`."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if b"--instances" in words and words[1].startswith(b"/"):
            return int(path.parent.name)
    raise SystemExit("no gateway among the processes of this node")


def main() -> None:
    """Ask, break, ask again, end."""
    found: dict = {"health": health(), "servers": [server["argv"] for server in servers()]}
    found["unknown model"] = refused(model="other")
    found["pieces"], found["streaming seconds"] = streamed()
    found["crowd seconds"] = crowd(60)
    found["answered"] = [answered(server) for server in servers()]
    os.kill(servers()[0]["pid"], signal.SIGKILL)
    found["unhealthy after a death"] = until(lambda: health() != 200, 60)
    found["healthy again"] = until(lambda: health() == 200, 120)
    found["servers after a death"] = len(servers())
    os.kill(gateway_pid(), signal.SIGTERM)
    found["all ended"] = until(lambda: not servers(), 60)
    found["health at the end"] = health()
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
