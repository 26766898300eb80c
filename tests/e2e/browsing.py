"""A real browser before the stack's Airflow, signed in as one of its users."""

from __future__ import annotations

import json
import secrets
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Frame, Page, sync_playwright
from stack import Stack

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120


@contextmanager
def browser() -> Iterator[Browser]:
    """The distribution's chromium, without a window."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, f"none of {', '.join(PROGRAMS)} is installed: apt-get install chromium"
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


def passwords(stack: Stack) -> dict[str, str]:
    """Names to passwords; those of the users that have none yet are made. Airflow reads the file at every login."""
    path = stack.home / "home" / "passwords.json"
    known = json.loads(path.read_text())
    missing = {"reader", "nobody"} - set(known)
    if missing:
        known |= {name: secrets.token_hex(8) for name in missing}
        path.write_text(json.dumps(known))
    return known


def token(stack: Stack, user: str) -> str:
    """A session of this user, as the login gives it."""
    body = json.dumps({"username": user, "password": passwords(stack)[user]}).encode()
    asked = urllib.request.Request(f"{stack.api.url}/auth/token", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)["access_token"]


class Window:
    """One page of a browser. `problems`: what went wrong in it, such as a script or a style that was refused."""

    def __init__(self, made: Browser, stack: Stack, user: str | None, **options: Any) -> None:
        self.url = stack.api.url
        self.context = made.new_context(**options)
        if user is not None:
            self.context.add_cookies([{"name": "_token", "value": token(stack, user), "url": self.url}])
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(1000 * SECONDS)
        self.problems: list[str] = []
        self.page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        self.page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "/gym/" in message.location.get("url", ""):
            self.problems.append(message.text)

    def open(self, path: str) -> Frame:
        """Airflow's page at this path; the frame of ours in it."""
        self.page.goto(f"{self.url}/{path}", wait_until="commit")
        return self.frame()

    def frame(self) -> Frame:
        """Our page inside Airflow's."""
        handle = self.page.wait_for_selector("iframe")
        found = handle.content_frame()
        assert found is not None
        found.locator("h1").first.wait_for()
        return found

    def shot(self, path: Path) -> None:
        """A picture of it."""
        self.page.wait_for_timeout(500)  # charts and fonts
        self.page.screenshot(path=path)


def cells(frame: Frame, row: str) -> list[str]:
    """The texts of a table's row."""
    found = frame.locator(row).first
    found.wait_for()  # unlike what follows, that outlasts the change of pages which a click has begun
    return [" ".join(text.split()) for text in found.locator("th, td").all_inner_texts()]
