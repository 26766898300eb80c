"""How the parts of a data-parallel vLLM find each other: headless workers report their ranks to the head."""

from __future__ import annotations

import json
import socket
import time


class RankError(Exception):
    """The workers' ranks do not add up to the size they all claim."""


def _number(flags: dict[str, list[str]], name: str, default: int) -> int:
    return int((flags.get(name) or [str(default)])[0])


def local_size(flags: dict[str, list[str]], total: int) -> int:
    """How many of the ranks run in this process; all of them unless told otherwise."""
    return _number(flags, "data-parallel-size-local", total)


def start_rank(flags: dict[str, list[str]]) -> int:
    """The first rank of a headless worker. vLLM cannot guess it either."""
    rank = _number(flags, "data-parallel-start-rank", -1)
    if rank < 1:
        raise RankError(f"--headless wants --data-parallel-start-rank of 1 or more, got {rank}")
    return rank


def wait_for_workers(address: tuple[str, int], mine: int, total: int) -> None:
    """Return once every rank from `mine` to `total` has joined. Ranks 0 to mine-1 are the head's own."""
    missing = set(range(mine, total))
    server = socket.create_server(address)
    print(f"INFO waiting at {address[0]}:{address[1]} for data-parallel ranks {sorted(missing)}")
    joined = []
    while missing:
        connection, _ = server.accept()
        report = json.loads(connection.makefile().readline())
        ranks = set(range(report["start"], report["start"] + report["size"]))
        if report["total"] != total or not ranks <= missing:
            wanted = f"still missing {sorted(missing)} of {total}"
            raise RankError(f"a worker joined with ranks {sorted(ranks)} of {report['total']}; {wanted}")
        missing -= ranks
        joined.append(connection)
        connection.sendall(b"joined\n")
        print(f"INFO data-parallel ranks {sorted(ranks)} joined")
    wait_for_workers.connections = joined  # type: ignore[attr-defined]  # open while the head lives


def join_head(address: tuple[str, int], start: int, size: int, total: int) -> int:
    """Report to the head until it answers, then live as long as it does."""
    print(f"INFO headless: ranks {start} to {start + size - 1} of {total} look for {address[0]}:{address[1]}")
    while True:
        try:
            with socket.create_connection(address, timeout=5) as connection:
                connection.settimeout(None)
                connection.sendall(json.dumps({"start": start, "size": size, "total": total}).encode() + b"\n")
                answer = connection.recv(64)
                while answer and connection.recv(64):
                    pass
            if answer:
                print("INFO the head is gone: so are we")
                return 0
        except OSError:
            pass
        time.sleep(0.5)
