"""`gym eval prepare …` and `gym eval run …`: the words, files and exit codes of NeMo Gym 0.7.0, with made-up questions.

The questions come from the benchmark's name (the last of `config_paths`), the answers from the policy over HTTP, the
rewards from comparing the two; so the same benchmark and model always give the same score.

Overrides that the stand-in heeds: output_jsonl_fpath, limit (questions, 10), num_repeats (1),
num_samples_in_parallel (1), policy_base_url, policy_model_name, policy_api_key, resume_from_cache, require_complete,
route_failures_to_sidecar, observability_enabled, model_call_capture_dir. Like the real command it takes any other
without a word, and so it does with these, which are its own:

  standin.seconds_per_rollout   how long a rollout takes (or STANDIN_GYM_PACE; default 0)
  standin.startup_seconds       before the first rollout (default 0; the real one needs 40 to 80)
  standin.exit_after, .exit_code  end like a crash once this many rollouts were done in this run (code 1); after 0,
                                before anything is written
  standin.gate, .gate_after     a file that must be there before a rollout begins, save the first so many of a run (0)
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from . import VERSION
from .gym_run import Incomplete, run
from .overrides import OverrideError, parse_overrides, resolve
from .recording import record

MODEL_TYPES = ("openai_model", "vllm_model")
VALUED = ("--model-type", "--model_type", "--split", "--benchmark", "--agent", "--environment")


def split_words(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and the overrides."""
    options: dict[str, str] = {}
    overrides = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in VALUED:
            options[name.replace("_", "-")] = value if equals else next(rest, "")
        elif word.startswith("-") and "=" not in word:
            options[word] = ""
        else:
            overrides.append(word)
    return options, overrides


def benchmark_name(config: dict[str, Any]) -> str:
    """gpqa for config_paths=[benchmarks/gpqa/config.yaml] and for [configs/gpqa.yaml]."""
    paths = config.get("config_paths") or ["demo"]
    parts = str(paths[-1] if isinstance(paths, list) else paths).strip("/").split("/")
    stem = parts[-1].rsplit(".", 1)[0]
    return parts[-2] if stem == "config" and len(parts) > 1 else stem


def prepare(config: dict[str, Any]) -> int:
    """The real command downloads data here; there is none."""
    time.sleep(float((config.get("standin") or {}).get("prepare_seconds", 0)))
    print(f"stand-in for gym {VERSION}: prepared {benchmark_name(config)}")
    return 0


def evaluate(config: dict[str, Any], model_type: str | None) -> int:
    """0 when done; 1 for what the real command calls an error."""
    # A walltime's end and a cancel arrive as SIGTERM, and the real command (Ray's handler) ends with 134 on it.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(134))
    if model_type not in (None, *MODEL_TYPES):
        print(f"Error: unknown model type {model_type!r}; the stand-in knows {', '.join(MODEL_TYPES)}")
        return 1
    missing = [
        key for key in ("policy_base_url", "policy_model_name", "policy_api_key") if model_type and not config.get(key)
    ]
    if missing or not config.get("output_jsonl_fpath"):
        print(f"Error: missing mandatory value: {', '.join(missing or ['output_jsonl_fpath'])}")
        return 1
    print(f"stand-in for gym {VERSION}: {benchmark_name(config)}, rewards without meaning")
    try:
        return run(config, benchmark_name(config), model_type)
    except Incomplete as problem:
        print(problem)
        return 1


def main(argv: list[str]) -> int:
    """The command line: `eval prepare`, `eval run` and `--version`."""
    record("gym", ["gym", *argv])
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    options, overrides = split_words(argv[2:])
    if argv[:1] in (["--version"], ["version"]):
        print(VERSION)
        return 0
    if argv[:2] not in (["eval", "prepare"], ["eval", "run"]) or {"--help", "-h"} & set(options):
        print(__doc__)
        return 0 if {"--help", "-h"} & set(argv) else 2
    try:
        config = resolve(parse_overrides(overrides))
    except OverrideError as problem:
        print(problem, file=sys.stderr)
        return 1
    if argv[1] == "prepare":
        return prepare(config)
    return evaluate(config, options.get("--model-type") or None)
