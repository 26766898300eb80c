"""A message as JSON to an HTTP address that a connection of Airflow names, such as a chat's incoming webhook."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from airflow.sdk import Connection

_TIMEOUT = 20.0


class WebhookError(Exception):
    """It was not delivered. Names the connection and what went wrong, never the address: that may be the secret."""


@dataclass(frozen=True)
class Webhook:
    """Where to post. Secrets are left out of its repr.

    From a connection: host (with or without scheme; https unless `schema` says http), port, extras `endpoint` (a path)
    and `headers`. A password alone is the last part of the address, as chats give it out; with a login it is for HTTP
    basic authentication.
    """

    conn_id: str
    url: str = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)

    @classmethod
    def read(cls, conn: Connection) -> Webhook:
        """From a connection. Raises WebhookError when it names no host."""
        if not conn.host:
            raise WebhookError(f"connection {conn.conn_id!r} has no host")
        extra = conn.extra_dejson if conn.extra else {}
        scheme = conn.schema if conn.schema in ("http", "https") else "https"
        base = conn.host if "://" in conn.host else f"{scheme}://{conn.host}"
        base += f":{conn.port}" if conn.port else ""
        parts = [extra.get("endpoint"), conn.password if conn.password and not conn.login else None]
        url = "/".join([base.rstrip("/"), *(str(part).lstrip("/") for part in parts if part)])
        headers = extra.get("headers") or {}
        auth = (conn.login, conn.password or "") if conn.login else None
        return cls(str(conn.conn_id), url, {str(key): str(value) for key, value in headers.items()}, auth)

    def post(self, message: dict[str, Any]) -> None:
        """Send it; 20 s at most. Raises WebhookError."""
        self._quiet()
        try:
            with httpx.Client(timeout=_TIMEOUT, auth=self.auth, headers=self.headers) as client:
                client.post(self.url, json=message).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            raise self._error(err) from None

    async def apost(self, message: dict[str, Any]) -> None:
        """As `post`, for an event loop."""
        self._quiet()
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT, auth=self.auth, headers=self.headers) as client:
                (await client.post(self.url, json=message)).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as err:
            raise self._error(err) from None

    @staticmethod
    def _quiet() -> None:
        """httpx writes every address it asks into the log."""
        logger = logging.getLogger("httpx")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)

    def _error(self, err: Exception) -> WebhookError:
        what = f"HTTP {err.response.status_code}" if isinstance(err, httpx.HTTPStatusError) else type(err).__name__
        return WebhookError(f"the webhook of connection {self.conn_id!r} did not take it: {what}")
