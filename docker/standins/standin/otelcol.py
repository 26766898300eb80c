"""`otelcol-contrib --config FILE`: a collector that reads the real one's configuration, and does a little of its work.

It refuses what the real one refuses at its start: a pipeline with a part that is not declared, a kind of part it does
not know, a port in use. Then it answers the health check, takes OTLP over HTTP (JSON or protobuf, kept as it comes;
4317 only accepts connections), scrapes Prometheus targets, and applies `resource` and `replace_pattern`.

Everything is kept until SIGTERM: what does not get its flush is lost, and can be missed in a test. The flush writes the
file exporters, posts to the OTLP/HTTP exporter and says when it was done.

  STANDIN_OTELCOL_FLUSH  seconds that the flush takes (default 0)
  STANDIN_RECORD_DIR     see recording.py

Unlike the other stand-ins this one needs PyYAML: it reads YAML as it is meant.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .recording import record

KINDS = {
    "extensions": {"health_check"},
    "receivers": {"otlp", "prometheus"},
    "processors": {"batch", "transform", "resource", "filter", "metricstransform"},
    "exporters": {"otlphttp", "otlp_http", "file", "debug"},
    "connectors": {"spanmetrics", "span_metrics"},
}


class ConfigError(Exception):
    """What the real collector would not start with."""


def expanded(value: Any) -> Any:
    """`${env:NAME}` as the environment has it, and `$$` as a single `$`, in every text of the configuration."""
    if isinstance(value, dict):
        return {name: expanded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\$\$|\$\{env:(\w+)\}", lambda found: os.environ.get(found[1], "") if found[1] else "$", value)


def load(path: str) -> dict[str, Any]:
    """The configuration with its variables replaced, checked as far as its parts belong together."""
    import yaml

    config: dict[str, Any] = expanded(yaml.safe_load(Path(path).read_text()))
    for section, kinds in KINDS.items():
        for name in config.get(section) or {}:
            if name.partition("/")[0] not in kinds:
                raise ConfigError(f"'{section}' unknown type: {name!r}; the stand-in knows {', '.join(sorted(kinds))}")
    for pipeline, parts in config["service"]["pipelines"].items():
        for section, names in parts.items():
            known = set(config.get(section) or {})
            known |= set(config.get("connectors") or {}) if section != "processors" else set()
            if missing := set(names) - known:
                raise ConfigError(
                    f"service::pipelines::{pipeline}: references {section} {missing} which is not configured"
                )
    return config


def port_of(endpoint: str) -> int:
    """4318 of 0.0.0.0:4318."""
    return int(endpoint.rpartition(":")[2])


class Collector:
    """What came in, by signal, each with the resource's attributes."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Nothing is opened yet."""
        self.config = config
        self.kept: dict[str, list[dict[str, Any]]] = {"metrics": [], "traces": [], "logs": []}
        self.lock = threading.Lock()

    def keep(self, signal_name: str, attributes: dict[str, Any], **data: Any) -> None:
        """Take one thing in."""
        with self.lock:
            self.kept[signal_name].append({"resource": self.resource(signal_name, attributes), **data})

    def resource(self, signal_name: str, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes after the pipeline's `resource` processors."""
        found = dict(attributes)
        for name in self.config["service"]["pipelines"][signal_name].get("processors", []):
            if name.partition("/")[0] != "resource":
                continue
            for step in self.config["processors"][name]["attributes"]:
                value = found.get(step["from_attribute"]) if "from_attribute" in step else step.get("value")
                if value is None:
                    continue
                if step["action"] == "upsert" or (step["action"] == "insert" and step["key"] not in found):
                    found[step["key"]] = value
        return found

    def renamed(self, name: str) -> str:
        """A metric's name after the statements replace_pattern(metric.name, …) of all `transform` processors."""
        for part in (self.config.get("processors") or {}).values():
            for group in (part or {}).get("metric_statements", []):
                for statement in group["statements"] if isinstance(group, dict) else [group]:
                    call = re.fullmatch(r'replace_pattern\((?:metric\.)?name, "(.*)", "(.*)"\)', statement)
                    if call:
                        name = re.sub(call[1], call[2], name)
        return name

    def scrape_for_ever(self, job: dict[str, Any], target: str, labels: dict[str, str]) -> None:
        """One target of one scrape job, at its interval."""
        while True:
            began = time.monotonic()
            try:
                with urllib.request.urlopen(f"http://{target}/metrics", timeout=5) as answer:
                    types = re.findall(r"^# TYPE (\S+) (\w+)", answer.read().decode(), re.MULTILINE)
                metrics = {self.renamed(name): kind for name, kind in types}
                attributes = {"service.name": job["job_name"], "server.address": target}
                self.keep("metrics", attributes, labels=labels, metrics=metrics)
            except OSError as problem:
                print(f"warn Failed to scrape {target}: {problem}", flush=True)
            time.sleep(max(0.1, float(str(job["scrape_interval"]).rstrip("s")) - (time.monotonic() - began)))

    def start(self) -> None:
        """Open every port and begin to scrape; the health check's port is the last."""
        receivers = self.config["receivers"]
        for protocol in receivers.get("otlp", {}).get("protocols", {}).values():
            serve(port_of(protocol["endpoint"]), self)
        for job in receivers.get("prometheus", {}).get("config", {}).get("scrape_configs", []):
            for group in job["static_configs"]:
                for target in group["targets"]:
                    words = (job, target, group.get("labels") or {})
                    threading.Thread(target=self.scrape_for_ever, args=words, daemon=True).start()
        serve(port_of(self.config["extensions"]["health_check"]["endpoint"]), self)
        print("info Everything is ready. Begin running and processing data.", flush=True)

    def flush(self) -> None:
        """Give everything to the exporters of its pipeline."""
        time.sleep(float(os.environ.get("STANDIN_OTELCOL_FLUSH", "0")))
        for signal_name, items in self.kept.items():
            for name in self.config["service"]["pipelines"].get(signal_name, {}).get("exporters", []):
                exporter = (self.config.get("exporters") or {}).get(name) or {}
                if name.startswith("file"):
                    with Path(exporter["path"]).open("a" if exporter.get("append") else "w") as file:
                        file.writelines(json.dumps(item) + "\n" for item in items)
                elif name.startswith("otlp"):
                    post(exporter, signal_name, items)
        print(f"info Flushed everything at {time.time()}", flush=True)


def post(exporter: dict[str, Any], signal_name: str, items: list[dict[str, Any]]) -> None:
    """To the backend, as OTLP/HTTP: the path, the headers; not the format."""
    url = exporter["endpoint"].rstrip("/") + f"/v1/{signal_name}"
    headers = {"Content-Type": "application/json", **(exporter.get("headers") or {})}
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(items).encode(), headers), timeout=5).close()
    except (OSError, urllib.error.URLError) as problem:
        print(f"error Exporting failed: {problem}", flush=True)


def serve(port: int, collector: Collector) -> None:
    """Answer on all interfaces, in the background."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({"status": "Server available"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            signal_name = self.path.rpartition("/")[2]
            if signal_name not in collector.kept:
                return self.send_error(404)
            collector.keep(signal_name, {}, body=body.decode(errors="replace"))
            self.reply({})

        def reply(self, value: Any) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(argv: list[str]) -> int:
    """The command line: --config FILE or --config=FILE."""
    record("otelcol", ["otelcol-contrib", *argv])
    words = [part for word in argv for part in word.split("=", 1)]
    if len(words) != 2 or words[0] != "--config":
        print(__doc__)
        return 1
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        collector = Collector(load(words[1]))
        collector.start()
    except (ConfigError, OSError, KeyError) as problem:
        print(f"Error: {type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    while not ended.wait(0.5):
        pass
    collector.flush()
    return 0
