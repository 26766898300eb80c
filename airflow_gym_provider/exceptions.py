"""Exceptions of the Airflow rooms. Each says by its class whether trying again can help."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException


class SlurmTransportError(AirflowException):
    """The login node could not be asked. Messages name host and connection, never the script that was sent."""


class SlurmSettingsError(SlurmTransportError):
    """The connection or its settings are wrong: nothing was tried, and trying again cannot help."""


class SlurmAuthenticationError(SlurmTransportError):
    """The login node refused us, or its host key is not the trusted one: people must act, so do not try again soon."""


class SlurmUnreachableError(SlurmTransportError):
    """No connection, or it ended before the script was sent: nothing ran there, trying again is safe."""


class SlurmUnknownHostError(SlurmUnreachableError):
    """Name resolution knows no such host. It may be wrong about that for a while, but not for long."""


class SlurmSessionRefusedError(SlurmUnreachableError):
    """The connection is there, but its server opens no further session on it (MaxSessions)."""


class SlurmAnswerCutError(SlurmTransportError):
    """The connection or the time ended after the script was sent: it may have run, look before doing it again."""


class SlurmShellError(SlurmAnswerCutError):
    """The shell ended before it had begun with the script: nothing ran there. Bash may be missing, or the account be
    one that may run no commands.
    """


class ChainRetry(AirflowException):
    """This try is over and the chain goes on: `ChainRetryPolicy` makes Airflow's retry of it.

    `reason` is shown in Airflow's UI; `delay` is in seconds, None for the task's own retry_delay. `passing`: refused
    for now (a submit limit, a busy lock), so the delays grow with every time in a row and nothing is counted.
    """

    def __init__(self, reason: str, delay: float | None = None, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay
        self.passing = passing


class ChainStopped(AirflowException):
    """The chain is over and not green: no further try until somebody clears the task."""
