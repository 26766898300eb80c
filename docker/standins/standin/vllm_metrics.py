"""The series of vLLM's /metrics that dashboards look at, counted for real."""

from __future__ import annotations

import threading

BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """Counters of one server. Safe to use from its request threads."""

    def __init__(self, model: str) -> None:
        """Labels are vLLM's: the served name and the engine's number."""
        self.labels = f'engine="0",model_name="{model}"'
        self.lock = threading.Lock()
        self.running = 0
        self.tokens = {"prompt": 0, "generation": 0}
        self.finished = {"stop": 0, "length": 0, "abort": 0}
        self.seconds: list[float] = []

    def begin(self) -> None:
        """A request came in."""
        with self.lock:
            self.running += 1

    def end(self, reason: str, prompt: int, generation: int, seconds: float) -> None:
        """A request was answered; reason is "stop", "length" or "abort"."""
        with self.lock:
            self.running -= 1
            self.finished[reason] += 1
            self.tokens["prompt"] += prompt
            self.tokens["generation"] += generation
            self.seconds.append(seconds)

    def _histogram(self, name: str) -> list[str]:
        lines = [f"# HELP {name} Histogram of seconds.", f"# TYPE {name} histogram"]
        for bound in BUCKETS:
            lines.append(f'{name}_bucket{{{self.labels},le="{bound}"}} {sum(s <= bound for s in self.seconds)}')
        lines.append(f'{name}_bucket{{{self.labels},le="+Inf"}} {len(self.seconds)}')
        return [
            *lines,
            f"{name}_count{{{self.labels}}} {len(self.seconds)}",
            f"{name}_sum{{{self.labels}}} {sum(self.seconds)}",
        ]

    def text(self) -> str:
        """Prometheus' text format."""
        with self.lock:
            lines = []
            for name, value in (
                ("num_requests_running", self.running),
                ("num_requests_waiting", 0),
                ("kv_cache_usage_perc", 0.0),
            ):
                lines += [
                    f"# HELP vllm:{name} Gauge.",
                    f"# TYPE vllm:{name} gauge",
                    f"vllm:{name}{{{self.labels}}} {value}",
                ]
            for name, value in self.tokens.items():
                lines += [
                    f"# HELP vllm:{name}_tokens_total Tokens.",
                    f"# TYPE vllm:{name}_tokens_total counter",
                    f"vllm:{name}_tokens_total{{{self.labels}}} {value}",
                ]
            lines += ["# HELP vllm:request_success_total Requests.", "# TYPE vllm:request_success_total counter"]
            lines += [
                f'vllm:request_success_total{{{self.labels},finished_reason="{reason}"}} {count}'
                for reason, count in self.finished.items()
            ]
            for name in ("vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds"):
                lines += self._histogram(name)
            return "\n".join(lines) + "\n"
