"""`vllm serve MODEL …`: an HTTP server with vLLM's endpoints, deterministic answers and no model.

Behaviour is steered by the environment, as a config's `services.<name>.env` can do:

  STANDIN_VLLM_DELAY    seconds before the port opens (default 0)
  STANDIN_VLLM_LATENCY  seconds per answer (default 0)
  STANDIN_VLLM_PACE     seconds between the pieces of a streamed answer (default 0)
  STANDIN_VLLM_FAIL     start            exit 1 before the port opens
                        exit:SECONDS     exit 1 that long after the port opened
                        health           /health answers 503 for ever
                        request:N        every Nth request is answered with 500
                        refuse:TEXT      prompts that contain TEXT are answered with 400
  STANDIN_RECORD_DIR    see recording.py

A data-parallel head opens its port only when headless workers for all the other ranks have joined it at
--data-parallel-address and --data-parallel-rpc-port: a wrong address, rank or size hangs here as it does with vLLM.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from . import VERSION
from .recording import record
from .vllm_http import Endpoint, listen
from .vllm_ranks import RankError, join_head, local_size, start_rank, wait_for_workers

SWITCHES = {"headless", "trust-remote-code", "enforce-eager", "enable-auto-tool-choice", "help"}
SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "h": "help"}


def parse_arguments(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Split into positional words and flags. A flag takes every word up to the next flag, as `--served-model-name A B`
    does; flags that are not known are kept like the others, and underscores in a flag's name count as dashes."""
    positional: list[str] = []
    flags: dict[str, list[str]] = {}
    current = None
    for word in words:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit() and len(word.lstrip("-")) > 0:
            name, equals, value = word.partition("=")
            name = name.lstrip("-").replace("_", "-")
            name = SHORT.get(name, name)
            flags[name] = [value] if equals else []
            current = None if equals or name in SWITCHES else name
        elif current is not None:
            flags[current].append(word)
        else:
            positional.append(word)
    return positional, flags


def first(flags: dict[str, list[str]], name: str, default: str) -> str:
    """The flag's first word, or the default."""
    return (flags.get(name) or [default])[0]


def serve(positional: list[str], flags: dict[str, list[str]]) -> int:
    """Run until ended. Returns 1 where vLLM would give up."""
    model = positional[0] if positional else first(flags, "model", "")
    if not model:
        print("vllm serve: error: the following arguments are required: model_tag", file=sys.stderr)
        return 2
    fail, _, detail = os.environ.get("STANDIN_VLLM_FAIL", "").partition(":")
    print(f"INFO stand-in for vLLM {VERSION}: {model}, no GPU, no model; node {os.environ.get('SLURMD_NODENAME', '-')}")
    time.sleep(float(os.environ.get("STANDIN_VLLM_DELAY", "0")))
    if fail == "start":
        print("ERROR RuntimeError: Engine core initialization failed (STANDIN_VLLM_FAIL=start)", file=sys.stderr)
        return 1
    total = int(first(flags, "data-parallel-size", "1"))
    rpc = first(flags, "data-parallel-address", "127.0.0.1"), int(first(flags, "data-parallel-rpc-port", "29550"))
    if "headless" in flags:
        return join_head(rpc, start_rank(flags), local_size(flags, total), total)
    if local_size(flags, total) < total:
        wait_for_workers(rpc, local_size(flags, total), total)
    if fail == "exit":
        threading.Timer(float(detail or 1), os._exit, [1]).start()
    names = flags.get("served-model-name") or [model]
    endpoint = Endpoint(names, model, fail, detail, float(os.environ.get("STANDIN_VLLM_LATENCY", "0")))
    return listen(endpoint, first(flags, "host", ""), int(first(flags, "port", "8000")))


def main(argv: list[str]) -> int:
    """The command line. Only `serve` does something."""
    record("vllm", ["vllm", *argv])
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    positional, flags = parse_arguments(argv)
    if "version" in flags or positional[:1] == ["version"]:
        print(VERSION)
        return 0
    if positional[:1] != ["serve"] or "help" in flags:
        print(__doc__)
        return 0 if "help" in flags else 2
    try:
        return serve(positional[1:], flags)
    except (RankError, ValueError, OSError) as problem:
        print(f"ERROR {type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
