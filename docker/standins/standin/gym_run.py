"""One evaluation: expected rollouts, the policy's answers, rewards, and how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .gym_files import Row, RunFiles, key
from .gym_metrics import aggregate, quality
from .nodes import on_this_node
from .vllm_answers import LETTERS, answer_text, response


class Incomplete(Exception):
    """The run ends with exit 1; the text says why."""


class Crash(Exception):
    """A made-up crash, asked for by standin.exit_after."""


def questions(benchmark: str, limit: int, repeats: int) -> list[Row]:
    """The expected rollouts: `limit` questions, each `repeats` times."""
    rows = []
    for task in range(limit):
        identity = hashlib.sha256(f"{benchmark} {task}".encode()).hexdigest()
        prompt = f"Question {task} of {benchmark} ({identity[:8]}): A, B, C or D? Put the letter inside \\boxed{{}}."
        row = {
            "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
            "expected_answer": LETTERS[int(identity[-1], 16) % len(LETTERS)],
            "uuid": identity[:32],
            "task_source": f"{benchmark}_simple_agent",
            "_ng_task_index": task,
            "agent_ref": {"name": f"{benchmark}_simple_agent"},
        }
        rows += [{**row, "_ng_rollout_index": repeat} for repeat in range(repeats)]
    return rows


def ask(config: dict[str, Any], model_type: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """The policy's answer as a response object: /v1/responses for openai_model, chat completions for vllm_model;
    without a model type the benchmark brings its own policy, which is nobody."""
    if model_type is None:
        return response({"model": "none"}, answer_text("none", str(params)), "stop", str(params))
    body = {"model": config["policy_model_name"], **params}
    path = "/responses"
    if model_type == "vllm_model":
        path, body["messages"] = "/chat/completions", body.pop("input")
    request = urllib.request.Request(
        config["policy_base_url"].rstrip("/") + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {config['policy_api_key']}"},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        found = json.load(answer)
    if model_type == "vllm_model":
        found = response(body, found["choices"][0]["message"]["content"], "stop", str(params))
    return found


class Run:
    """The state that the worker threads share."""

    def __init__(self, config: dict[str, Any], model_type: str | None, files: RunFiles, total: int) -> None:
        """`total` is how many rollouts this run is going to try."""
        self.config, self.model_type, self.files, self.total = config, model_type, files, total
        self.standin = config.get("standin") or {}
        self.begun = self.ended = 0
        self.crashed = False

    def one(self, row: Row) -> None:
        """Try one rollout and write its line. Raises Incomplete when a failure is to end the run."""
        if self.crashed:
            return
        attempt = row.pop("_attempt")
        self.wait_at_gate()
        began = time.time()
        try:
            found = ask(self.config, self.model_type, row["responses_create_params"])
        except (urllib.error.URLError, OSError, ValueError, KeyError) as problem:
            self.failed(row, problem)
            return
        time.sleep(max(0.0, pace(self.standin) - (time.time() - began)))
        self.capture(row, attempt, found, began)
        self.files.append(self.files.rollouts, rollout_line(row, attempt, self.as_asked(row, found), began))
        with self.files.lock:
            self.ended += 1
            print(f"Finished {self.ended} / {self.total} rollouts")
            if self.ended == self.standin.get("exit_after"):
                self.crashed = True
                raise Crash

    def wait_at_gate(self) -> None:
        """Until standin.gate exists, if this run has begun standin.gate_after rollouts before."""
        with self.files.lock:
            first = self.begun < int(self.standin.get("gate_after", 0))
            self.begun += 1
        gate = self.standin.get("gate")
        while gate and not first and not Path(gate).exists():
            time.sleep(0.2)

    def as_asked(self, row: Row, found: dict[str, Any]) -> dict[str, Any]:
        """The answer, or the one that standin.right_tasks says instead of it."""
        right = self.standin.get("right_tasks")
        if right is None:
            return found
        letter = row["expected_answer"] if row["_ng_task_index"] < int(right) else "X"
        return response({"model": "made up"}, f"The answer is \\boxed{{{letter}}}", "stop", str(row["uuid"]))

    def failed(self, row: Row, problem: Exception) -> None:
        """A line in the failures file if they are collected there; otherwise the run ends, as the real one does."""
        if not self.config.get("route_failures_to_sidecar"):
            raise Incomplete(f"Rollout {key(row)} failed: {problem}")
        line = {
            "_ng_failure_class": "agent_run_error",
            "_ng_failure_type": type(problem).__name__,
            "_ng_failure_message": str(problem),
            "_ng_failure_http_status": getattr(problem, "code", 500),
            "_ng_failure_response_body": problem.read().decode() if isinstance(problem, urllib.error.HTTPError) else "",
        }
        names = ("_ng_task_index", "_ng_rollout_index", "agent_ref", "task_source")
        self.files.append(self.files.failures, {**line, **{name: row[name] for name in names}})

    def capture(self, row: Row, attempt: int, found: dict[str, Any], began: float) -> None:
        """The model call in a file of its own, when observability is on."""
        folder = self.config.get("model_call_capture_dir")
        if not (self.config.get("observability_enabled") and folder):
            return
        task, repeat = key(row)
        name = f"{task}-{repeat}" + (f"-a{attempt}" if attempt else "")
        call = {
            "model_call_id": found["id"],
            "dialect": "responses",
            "started_at": began,
            "completed_at": time.time(),
            "status_code": 200,
            "error_category": None,
            "request": row["responses_create_params"],
            "response": found,
        }
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.capture.jsonl").write_text(json.dumps(call) + "\n")


def pace(standin: dict[str, Any]) -> float:
    """Seconds that a rollout takes."""
    return float(standin.get("seconds_per_rollout", os.environ.get("STANDIN_GYM_PACE", "0")))


def rollout_line(row: Row, attempt: int, found: dict[str, Any], began: float) -> Row:
    """A success as rollouts.jsonl holds it."""
    letters = re.findall(r"\\boxed\{([A-Z])\}", json.dumps(found).replace("\\\\", "\\"))
    extracted = letters[-1] if letters else None
    usage = found["usage"]
    line = {
        "responses_create_params": row["responses_create_params"],
        "response": found,
        "reward": 1.0 if extracted == row["expected_answer"] else 0.0,
        "mask_sample": False,
        "failure_kind": None,
        "failure_reason": None,
        "expected_answer": row["expected_answer"],
        "extracted_answer": extracted,
        **{name: row[name] for name in ("_ng_task_index", "_ng_rollout_index", "agent_ref", "task_source")},
        "_ng_result_type": "legacy_agent",
        "ng_perf": {
            "num_turns": 1,
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "reasoning_tokens": 0,
            "total_latency_ms": (time.time() - began) * 1000,
            "token_observability_coverage": 1.0,
        },
    }
    return {**line, "_ng_attempt_index": attempt} if attempt else line


def run(config: dict[str, Any], benchmark: str, model_type: str | None) -> int:
    """The exit status. Raises Incomplete for what exits 1 with a text."""
    standin = config.get("standin") or {}
    if standin.get("exit_after") == 0:
        print("ended before it began, as standin.exit_after says")
        return int(standin.get("exit_code", 1))
    files = RunFiles(str(config["output_jsonl_fpath"]))
    if not (config.get("resume_from_cache") and files.resume()):
        files.start_over(questions(benchmark, int(config.get("limit") or 10), int(config.get("num_repeats") or 1)))
    time.sleep(float(standin.get("startup_seconds", 0)))
    todo = files.todo()
    if todo and model_type:
        config = {**config, "policy_base_url": on_this_node(str(config["policy_base_url"]))}
    state = Run(config, model_type, files, len(todo))
    print(f"Dispatching {len(todo)} rollouts, one every {pace(standin)} s")
    try:
        dispatch(state, todo, int(config.get("num_samples_in_parallel") or 1))
    except Crash:
        print(f"ended after {state.ended} rollouts, as standin.exit_after says")
        return int(standin.get("exit_code", 1))
    return finish(files, bool(config.get("require_complete")))


def dispatch(state: Run, todo: list[Row], workers: int) -> None:
    """All rollouts, `workers` at a time. The first exception ends it; what has not begun is not begun."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(state.one, row) for row in todo]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()


def finish(files: RunFiles, require_complete: bool) -> int:
    """Metrics, written for an incomplete run as well; then the verdict."""
    done, expected = files.read(files.rollouts), files.read(files.materialized)
    files.aggregate.write_text(json.dumps(aggregate(done, expected), indent=1))
    if require_complete and len(done) < len(expected):
        raise Incomplete(f"EVAL FAILED: {len(done)}/{len(expected)} samples completed")
    summary, verdicts = quality(done)
    files.quality.write_text(json.dumps(summary, indent=1))
    files.verdicts.write_text("".join(json.dumps(row) + "\n" for row in verdicts))
    print(f"Finished: {len(done)}/{len(expected)} samples completed")
    return 0
