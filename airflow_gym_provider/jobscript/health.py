"""Health checks: what has to answer before the driver starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider.jobscript.templating import render_template

POLL_SECONDS = 5


@dataclass(frozen=True)
class HealthCheck:
    """One endpoint: `url` is a bash word, `log` the service's log as a bash word."""

    name: str
    log: str
    url: str
    timeout_seconds: int

    @property
    def attempts(self) -> int:
        """Probes before giving up: one per five seconds of the timeout, and never none."""
        return max(1, self.timeout_seconds // POLL_SECONDS)


def render_health_checks(checks: Sequence[HealthCheck]) -> str:
    """The section that waits for all of `checks`, one after the other, and notices any service that has ended."""
    return render_template("health.sh.j2", checks=checks)
