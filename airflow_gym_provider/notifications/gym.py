"""GymNotifier: say that an evaluation was resumed, stopped or regressed, through whatever notifier there is."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, BaseNotifier

from airflow_gym_provider.notifications._message import GymEvent, GymMessage, compose

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["GymEvent", "GymMessage", "GymNotifier"]


class GymNotifier(BaseNotifier):
    """Composes what happened to an evaluation and hands it on. For any callback of `GymEvalOperator` or of a gate.

    ============  ==========================  ==================================================================
    event         callback                    when
    ============  ==========================  ==================================================================
    `resumed`     on_retry_callback           a job ended and the chain goes on; the reason says how far it is
    `stopped`     on_failure_callback         the chain is over and red
    `regressed`   any, of a gate task         its XCom `gym_verdict` says "regressed", whatever it does then
    ============  ==========================  ==================================================================

    Other callbacks and other endings send nothing: a try that waits for a login node is no news. One notifier may stand
    in all three callbacks; only `events` are sent. What cannot be sent is in the task's log and changes nothing else.

    Each notifier in `to` renders its templates with one more variable, `gym` (a `GymMessage`): ::

        GymNotifier(
            SmtpNotifier(to="me@example.edu", subject="{{ gym.title }}", html_content="<pre>{{ gym.text | e }}</pre>")
        )

    :param to: another notifier of Airflow, or several.
    :param webhook_conn_id: connection of an HTTP address that takes JSON: the message's fields, `text` among them.
    :param events: which to send; all unless given.
    """

    def __init__(
        self,
        to: BaseNotifier | Sequence[BaseNotifier] = (),
        *,
        webhook_conn_id: str | None = None,
        events: Collection[str] = tuple(GymEvent),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = [to] if isinstance(to, BaseNotifier) else list(to)
        self.webhook_conn_id = webhook_conn_id
        self.events = frozenset(GymEvent(event) for event in ([events] if isinstance(events, str) else events))
        if not self.to and not webhook_conn_id:
            raise ValueError("GymNotifier has nobody to tell: give another notifier, or webhook_conn_id")

    def notify(self, context: Context) -> None:
        """Send what happened, if it is asked for. Never raises."""
        message = self._message(context)
        if message is None:
            return
        for notifier in self.to:
            try:
                copy.copy(notifier)(_with(context, message))
            except Exception as err:
                self._not_sent(type(notifier).__name__, err)
        if self.webhook_conn_id:
            try:
                self._webhook().post(message.as_dict())
            except Exception as err:
                self._not_sent("webhook", err)

    async def async_notify(self, context: Context) -> None:
        """As `notify`, for the triggerer. Notifiers that are not asynchronous run in a thread."""
        message = await asyncio.to_thread(self._message, context)
        if message is None:
            return
        for notifier in self.to:
            try:
                await _await_one(copy.copy(notifier), _with(context, message))
            except Exception as err:
                self._not_sent(type(notifier).__name__, err)
        if self.webhook_conn_id:
            try:
                webhook = await asyncio.to_thread(self._webhook)
                await webhook.apost(message.as_dict())
            except Exception as err:
                self._not_sent("webhook", err)

    def _message(self, context: Context) -> GymMessage | None:
        try:
            message = compose(context)
        except Exception as err:
            self._not_sent("message", err)
            return None
        return message if message is not None and message.event in self.events else None

    def _webhook(self) -> Any:
        from airflow_gym_provider.notifications._webhook import Webhook

        return Webhook.read(BaseHook.get_connection(str(self.webhook_conn_id)))

    def _not_sent(self, what: str, err: Exception) -> None:
        """An error of a library may quote an address, and that may be the secret: only its class is told."""
        from airflow_gym_provider.notifications._webhook import WebhookError

        why = str(err) if isinstance(err, WebhookError) else type(err).__name__
        self.log.error("the notification was not sent (%s): %s", what, why)


def _with(context: Context, message: GymMessage) -> Any:
    return {**context, "gym": message}


async def _await_one(notifier: BaseNotifier, context: Any) -> None:
    if type(notifier).async_notify is BaseNotifier.async_notify:
        await asyncio.to_thread(notifier, context)
        return
    notifier.context = context
    await notifier
