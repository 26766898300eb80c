"""What all tests share: a skipped test is a failure where everything must run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: how long one example takes says nothing.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def _masker_forgets() -> Iterator[None]:
    """Airflow's masker is one for the whole process: what one test has it hide is no secret of the next one."""
    yield
    if module := sys.modules.get("airflow.sdk._shared.secrets_masker"):
        module._secrets_masker().reset_masker()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if skipped := terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped; GYM_TESTS_NO_SKIPS=1 makes that a failure.")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With GYM_TESTS_NO_SKIPS set, a run in which a test was skipped did not pass."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("GYM_TESTS_NO_SKIPS") and reporter and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
