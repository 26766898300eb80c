"""The HTTP side of the vLLM stand-in: vLLM's routes, errors and streaming."""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import VERSION
from .nodes import own_address
from .vllm_answers import answer_text, chat, completion, cut, response, stream, text_of
from .vllm_metrics import Metrics

ROUTES = {
    "/v1/completions": ("prompt", completion),
    "/v1/chat/completions": ("messages", chat),
    "/v1/responses": ("input", response),
}


class Endpoint:
    """What one server serves, and how it is told to misbehave (see vllm.py)."""

    def __init__(self, names: list[str], root: str, fail: str, detail: str, latency: float) -> None:
        """`names` are the served model names, `root` the model that was asked for."""
        self.names, self.root, self.fail, self.detail, self.latency = names, root, fail, detail, latency
        self.metrics = Metrics(names[0])
        self.requests = 0
        self.lock = threading.Lock()

    def models(self) -> dict[str, Any]:
        """The answer of GET /v1/models."""
        entry = {
            "object": "model",
            "created": 0,
            "owned_by": "vllm",
            "root": self.root,
            "parent": None,
            "max_model_len": 4096,
        }
        return {"object": "list", "data": [{"id": name, **entry} for name in self.names]}

    def complaint(self, body: dict[str, Any], prompt: str) -> tuple[int, str] | None:
        """The status and message of a request that is not to succeed."""
        with self.lock:
            self.requests += 1
            number = self.requests
        if body.get("model") not in (None, *self.names):
            return 404, f"The model `{body['model']}` does not exist."
        if self.fail == "request" and number % int(self.detail or 1) == 0:
            return 500, f"request {number} fails, as STANDIN_VLLM_FAIL says"
        if self.fail == "refuse" and self.detail in prompt:
            return 400, f"prompts with {self.detail!r} are refused, as STANDIN_VLLM_FAIL says"
        return None


class Handler(BaseHTTPRequestHandler):
    """One request. The class attribute `endpoint` is set by listen()."""

    protocol_version = "HTTP/1.1"
    endpoint: Endpoint

    def do_GET(self) -> None:
        """The small routes."""
        path = self.path.partition("?")[0]
        if path in ("/health", "/ping"):
            self.send(503 if self.endpoint.fail == "health" else 200, "text/plain", b"")
        elif path == "/v1/models":
            self.send_json(200, self.endpoint.models())
        elif path == "/version":
            self.send_json(200, {"version": VERSION})
        elif path == "/metrics":
            self.send(200, "text/plain; version=0.0.4; charset=utf-8", self.endpoint.metrics.text().encode())
        else:
            self.send_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """The three that answer a prompt."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path not in ROUTES:
            return self.send_json(404, {"detail": "Not Found"})
        field, build = ROUTES[path]
        try:
            body = json.loads(raw)
            prompt = text_of(body[field])
        except (ValueError, KeyError, TypeError) as problem:
            return self.send_error_json(400, f"not a request for {path}: {problem!r}")
        complaint = self.endpoint.complaint(body, prompt)
        if complaint:
            return self.send_error_json(*complaint)
        self.answer(path, body, prompt, build)

    def answer(self, path: str, body: dict[str, Any], prompt: str, build: Any) -> None:
        """A good answer, in one piece or streamed."""
        began = time.monotonic()
        self.endpoint.metrics.begin()
        time.sleep(self.endpoint.latency)
        body.setdefault("model", self.endpoint.names[0])
        text, reason = cut(answer_text(body["model"], prompt), body)
        whole = build(body, text, reason, prompt)
        if body.get("stream"):
            self.send_stream(stream(path, whole, text, bool((body.get("stream_options") or {}).get("include_usage"))))
        else:
            self.send_json(200, whole)
        self.endpoint.metrics.end(reason, len(prompt.split()), len(text.split()), time.monotonic() - began)

    def send(self, status: int, kind: str, content: bytes) -> None:
        """A whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_json(self, status: int, value: Any) -> None:
        """A whole answer that is JSON."""
        self.send(status, "application/json", json.dumps(value).encode())

    def send_error_json(self, status: int, message: str) -> None:
        """vLLM's shape of an error."""
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
        self.send_json(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def send_stream(self, events: Any) -> None:
        """Server-sent events; the connection ends with the stream."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode())
            self.wfile.flush()
            time.sleep(float(os.environ.get("STANDIN_VLLM_PACE", "0")))

    def log_message(self, format: str, *args: Any) -> None:
        """vLLM's access log goes to standard output."""
        print(f'INFO {self.client_address[0]} - "{self.requestline}" {args[1] if len(args) > 1 else ""}')


class Server(ThreadingHTTPServer):
    """Many requests at once, as an evaluation sends them."""

    daemon_threads = True
    request_queue_size = 1024


def addresses(host: str) -> list[str]:
    """Where to listen: everywhere, or on the node's own address and, while no other node has it, on localhost."""
    own = own_address()
    if host not in ("", "0.0.0.0") or own is None:
        return [host or "0.0.0.0"]
    return [own, "127.0.0.1"]


def listen(endpoint: Endpoint, host: str, port: int) -> int:
    """Serve until the process is ended. A port in use is an error, except localhost's beside the node's own address."""
    Handler.endpoint = endpoint
    first, *others = addresses(host)
    server = Server((first, port), Handler)
    for address in others:
        threading.Thread(target=serve_when_free, args=(address, port), daemon=True).start()
    print(f"INFO serving {', '.join(endpoint.names)} on {first}:{port}")
    server.serve_forever()
    return 0


def serve_when_free(address: str, port: int) -> None:
    """Serve there too, once no other node of this machine does."""
    while True:
        try:
            server = Server((address, port), Handler)
        except OSError:
            time.sleep(0.2)
        else:
            server.serve_forever()
