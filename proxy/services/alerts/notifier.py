"""Sends one sink its due alerts, until it takes them.

A sink that fails is left alone with all that is due, in growing pauses. An alert that it refuses
for its content is sent by itself and given up in the end, so that it does not hold others up.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from proxy.services.alerts.configured_sinks import ConfiguredSink
from proxy.services.alerts.http_sender import DEADLINE_S, DeliveryFailure, HttpSender
from proxy.store.errors import StoreError
from proxy.store.sql.outbox import OutboxMessage
from proxy.store.store import Store
from slo.alerting import MAX_ALERTS_PER_MESSAGE, AlertGroup, group_alerts

_log = logging.getLogger("thriftgate.alerts")

#: Seconds between two looks at what is due.
POLL_INTERVAL_S: Final = 1.0
#: Seconds after which unconfirmed letters are due again.
LEASE_S: Final = 60.0
#: Number of times a sink may refuse a message for its content before it is given up.
MAX_REFUSALS: Final = 8
_FIRST_PAUSE_S: Final = 2.0
_MAX_PAUSE_S: Final = 300.0
_DOUBLINGS: Final = 10


class Notifier:
    """Tells one sink.

    Args:
        salt: Differs by process.
    """

    def __init__(
        self,
        outlet: ConfiguredSink,
        opened: Store,
        now: Callable[[], float],
        post: HttpSender,
        salt: str,
    ) -> None:
        self._outlet = outlet
        self._opened = opened
        self._outbox = opened.outbox
        self._now = now
        self._post = post
        self._salt = f"{salt}/{outlet.sink.name}"
        self._breaker = SinkBreaker(self._salt)

    async def run(self) -> None:
        """Tell the sink what is due, without end."""
        while True:
            try:
                await self.notify()
            except StoreError as error:
                name = self._outlet.sink.name
                until = self._breaker.record_failure(self._now())
                pauses = until - self._now()
                _log.warning(
                    "The sink `%s` is not notified for %.0f s: %s",
                    name,
                    pauses,
                    error,
                )
            await asyncio.sleep(POLL_INTERVAL_S)

    async def notify(self) -> None:
        """Tell the sink what is due now, unless it is being left alone."""
        began = self._now()
        if not self._breaker.admits(began):
            return
        name = self._outlet.sink.name
        letters = await self._opened.ask(
            self._outbox.claim_due, name, began, MAX_ALERTS_PER_MESSAGE, LEASE_S
        )
        left = {letter.alert.id: letter for letter in letters}
        for group in _groups(letters, self._outlet.max_alerts):
            if self._now() > began + LEASE_S - 2 * DEADLINE_S:
                return  # the lease ends, and what is left is due again
            due_letters = [left[alert.id] for alert in group.alerts]
            failure = await self._send(group, due_letters)
            if failure is not None and not failure.is_refused:
                await self._back_off(list(left.values()), failure)
                return
            if failure is not None:
                await self._retry_separately(due_letters, failure)
            for letter in due_letters:
                del left[letter.alert.id]

    async def _send(
        self, group: AlertGroup, letters: Sequence[OutboxMessage]
    ) -> DeliveryFailure | None:
        """Tell the sink of a group: None, or why it did not take it."""
        outlet, ask = self._outlet, self._opened.ask
        message = await ask(outlet.message, group, letters, self._now())
        failure = await self._post.send(outlet.url, message)
        if failure is None:
            self._breaker.record_success()
            await ask(self._outbox.mark_sent, letters, self._now(), outlet.repeat_after_s)
        return failure

    async def _back_off(self, letters: Sequence[OutboxMessage], failure: DeliveryFailure) -> None:
        """Try again later, with all that is left: it is the sink's fault."""
        until = self._breaker.record_failure(self._now(), failure.retry_after)
        if self._breaker.failures == 1:
            _log.warning(
                "The sink `%s` fails and is tried again later: %s",
                self._outlet.sink.name,
                failure.reason,
            )
        await self._opened.ask(self._outbox.mark_failed, letters, failure.reason, until)

    async def _retry_separately(
        self, letters: Sequence[OutboxMessage], failure: DeliveryFailure
    ) -> None:
        """Try again with each letter by itself, a few times: one of them is at fault."""
        self._breaker.record_success()
        now, name = self._now(), self._outlet.sink.name
        for letter in letters:
            tries = letter.tries + 1
            due = (
                None
                if tries >= MAX_REFUSALS
                else now + retry_delay(tries, f"{self._salt}/{letter.alert.id}")
            )
            if due is None:
                _log.error(
                    "The sink `%s` refuses %r, which is given up: %s",
                    name,
                    letter.alert.title,
                    failure.reason,
                )
            await self._opened.ask(
                self._outbox.mark_failed, [letter], failure.reason, due, is_refused=True
            )


def _groups(letters: Sequence[OutboxMessage], max_alerts: int) -> list[AlertGroup]:
    """The messages to send; what was refused before is sent by itself: it may be one's fault."""
    fresh = [letter.alert for letter in letters if not letter.tries]
    refused = [letter.alert for letter in letters if letter.tries]
    return [*group_alerts(fresh, max_alerts), *(AlertGroup((alert,)) for alert in refused)]


class SinkBreaker:
    """One sink's: it admits one post after another until one fails, then none for a while.

    Args:
        salt: Differs by sink and process, so that those who wait do not come back together.

    Attributes:
        failures: In a row.
    """

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._until = float("-inf")
        self.failures = 0

    def admits(self, now: float) -> bool:
        """True if a post may go now, in seconds since the epoch."""
        return now >= self._until

    def record_success(self) -> None:
        """The sink took a post."""
        self.failures = 0

    def record_failure(self, now: float, retry_after: float | None = None) -> float:
        """The sink did not; until when it is left alone.

        Args:
            retry_after: Seconds that it asks for; they are its due, up to five minutes.
        """
        self.failures += 1
        waits = retry_delay(self.failures, self._salt)
        self._until = now + max(waits, min(retry_after or 0.0, _MAX_PAUSE_S))
        return self._until


def retry_delay(tries: int, salt: str) -> float:
    """Seconds to wait after so many tries: twice as long each time, up to five minutes.

    A part of it, a fourth at most, is left off by the salt's hash: who waits for the same does not
    come back at the same time, and tests know when.
    """
    whole = min(_FIRST_PAUSE_S * (1 << min(tries - 1, _DOUBLINGS)), _MAX_PAUSE_S)
    part = int.from_bytes(sha256(f"{salt}/{tries}".encode()).digest()[:4], "big") / 2**32
    return whole * (1 - part / 4)
