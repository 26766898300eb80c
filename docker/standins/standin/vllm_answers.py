"""Answers of a model that does not exist: always the same one for the same model and prompt."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from typing import Any

LETTERS = "ABCD"


def answer_text(model: str, prompt: str) -> str:
    """A sentence that ends in one boxed letter: of the choices that the prompt lists ("A: ..."), or else of four."""
    letters = "".join(re.findall(r"^([A-Z])[:.)]", prompt, re.MULTILINE)) or LETTERS
    # Any byte of the digest would do. With this one some answers are right, of the real gym's questions as well.
    chosen = hashlib.sha256(f"{model}\0{prompt}".encode()).digest()[9]
    return f"The answer is \\boxed{{{letters[chosen % len(letters)]}}}"


def text_of(value: Any) -> str:
    """The words in a prompt of any of the accepted shapes: text, messages, content parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return text_of(value.get("content", value.get("text", "")))
    if isinstance(value, list):
        return "\n".join(text_of(item) for item in value)
    return "" if value is None else str(value)


def _identity(kind: str, body: dict[str, Any]) -> str:
    return f"{kind}-{hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:24]}"


def _usage(prompt: str, text: str) -> dict[str, int]:
    words_in, words_out = len(prompt.split()), len(text.split())
    return {"prompt_tokens": words_in, "completion_tokens": words_out, "total_tokens": words_in + words_out}


def cut(text: str, body: dict[str, Any]) -> tuple[str, str]:
    """The text within the request's token limit (a word counts as a token), and why it ended."""
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens")
    words = text.split(" ")
    if limit is None or len(words) <= int(limit):
        return text, "stop"
    return " ".join(words[: int(limit)]), "length"


def completion(body: dict[str, Any], text: str, reason: str, prompt: str) -> dict[str, Any]:
    """The answer of POST /v1/completions."""
    choices = [{"index": i, "text": text, "finish_reason": reason, "logprobs": None} for i in range(body.get("n") or 1)]
    return {
        "id": _identity("cmpl", body),
        "object": "text_completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "choices": choices,
        "usage": _usage(prompt, text),
    }


def chat(body: dict[str, Any], text: str, reason: str, prompt: str) -> dict[str, Any]:
    """The answer of POST /v1/chat/completions."""
    message = {"role": "assistant", "content": text, "tool_calls": []}
    choices = [
        {"index": i, "message": message, "finish_reason": reason, "logprobs": None} for i in range(body.get("n") or 1)
    ]
    return {
        "id": _identity("chatcmpl", body),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "choices": choices,
        "usage": _usage(prompt, text),
    }


def response(body: dict[str, Any], text: str, reason: str, prompt: str) -> dict[str, Any]:
    """The answer of POST /v1/responses, with every field that the OpenAI client insists on."""
    usage = _usage(prompt, text)
    done = "completed" if reason == "stop" else "incomplete"
    content = {"type": "output_text", "text": text, "annotations": [], "logprobs": None}
    message = {
        "type": "message",
        "id": _identity("msg", body),
        "role": "assistant",
        "status": done,
        "content": [content],
    }
    return {
        "id": _identity("resp", body),
        "object": "response",
        "created_at": int(time.time()),
        "model": body.get("model"),
        "status": done,
        "output": [message],
        "error": None,
        "metadata": {},
        "incomplete_details": None if reason == "stop" else {"reason": "max_output_tokens"},
        "instructions": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word + (" " if i < len(words) - 1 else "") for i, word in enumerate(words)]


def stream(path: str, whole: dict[str, Any], text: str, want_usage: bool) -> Iterator[tuple[str, str]]:
    """The same answer as server-sent events: (event name or "", data)."""
    if path == "/v1/responses":
        yield (
            "response.created",
            json.dumps({"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}),
        )
        for piece in _pieces(text):
            event = {
                "type": "response.output_text.delta",
                "item_id": whole["output"][0]["id"],
                "output_index": 0,
                "content_index": 0,
                "delta": piece,
            }
            yield event["type"], json.dumps(event)
        yield "response.completed", json.dumps({"type": "response.completed", "response": whole})
        return
    base = {key: whole[key] for key in ("id", "created", "model")}
    base["object"] = "chat.completion.chunk" if path.startswith("/v1/chat") else "text_completion"
    pieces, reason = _pieces(text), whole["choices"][0]["finish_reason"]
    for number, piece in enumerate(pieces):
        part: dict[str, Any] = {"index": 0, "finish_reason": reason if number == len(pieces) - 1 else None}
        if path.startswith("/v1/chat"):
            part["delta"] = {"role": "assistant", "content": piece} if number == 0 else {"content": piece}
        else:
            part["text"] = piece
        yield "", json.dumps({**base, "choices": [part]})
    if want_usage:
        yield "", json.dumps({**base, "choices": [], "usage": whole["usage"]})
    yield "", "[DONE]"
