"""Telling one sink what is due, until it took it.

A sink that fails is left alone, with all that is due, for ever longer; what it refuses for what it
says is sent by itself, and given up in the end, so that one message never stands in others' way.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from proxy.services.alerts.breaker import Breaker, pause
from proxy.services.alerts.configured_sinks import Outlet
from proxy.services.alerts.http_sender import DEADLINE, NotTaken, Post
from proxy.store.sql.outbox import OutboxMessage
from proxy.store.store import Store
from slo.alerting import MAX_ALERTS_PER_MESSAGE, AlertGroup, group_alerts

_log = logging.getLogger("thriftgate.alerts")

#: Seconds between two looks at what is due.
EVERY: Final = 1.0
#: Seconds after which letters that nobody confirmed are due again.
LEASE: Final = 60.0
#: How often a sink may refuse a letter for what it says before nobody sends it any more.
TRIES: Final = 8


class Teller:
    """Tells one sink.

    Args:
        outlet: Which.
        opened: The store, with the outbox.
        now: Seconds since the epoch.
        post: Posts messages.
        salt: Differs by process.
    """

    def __init__(
        self, outlet: Outlet, opened: Store, now: Callable[[], float], post: Post, salt: str
    ) -> None:
        self._outlet = outlet
        self._opened = opened
        self._outbox = opened.outbox
        self._now = now
        self._post = post
        self._salt = f"{salt}/{outlet.sink.name}"
        self._breaker = Breaker(self._salt)

    async def run(self) -> None:
        """Tell the sink what is due, for ever."""
        while True:
            try:
                await self.tell()
            except SQLAlchemyError as error:
                name = self._outlet.sink.name
                until = self._breaker.failed(self._now())
                pauses = until - self._now()
                _log.warning("The sink `%s` is not told for %.0f s: %s", name, pauses, cause(error))
            await asyncio.sleep(EVERY)

    async def tell(self) -> None:
        """Tell the sink what is due now, unless it is being left alone."""
        began = self._now()
        if not self._breaker.admits(began):
            return
        name = self._outlet.sink.name
        letters = await self._opened.ask(
            self._outbox.claim_due, name, began, MAX_ALERTS_PER_MESSAGE, LEASE
        )
        left = {letter.alert.id: letter for letter in letters}
        for group in _groups(letters, self._outlet.most):
            if self._now() > began + LEASE - 2 * DEADLINE:
                return  # the lease ends, and what is left is due again
            told = [left[alert.id] for alert in group.alerts]
            try:
                await self._sent(group, told)
            except NotTaken as why:
                if not why.is_refused:
                    await self._leave_alone(list(left.values()), why)
                    return
                await self._refused(told, why)
            for letter in told:
                del left[letter.alert.id]

    async def _sent(self, group: AlertGroup, letters: Sequence[OutboxMessage]) -> None:
        """Tell the sink of a group.

        Raises:
            NotTaken: If it did not take it.
        """
        outlet, ask = self._outlet, self._opened.ask
        message = await ask(outlet.message, group, letters, self._now())
        await self._post.send(outlet.url, message)
        self._breaker.succeeded()
        await ask(self._outbox.mark_sent, letters, self._now(), outlet.again)

    async def _leave_alone(self, letters: Sequence[OutboxMessage], why: NotTaken) -> None:
        """Try again later, with all that is left: it is the sink's fault."""
        until = self._breaker.failed(self._now(), why.retry_after)
        if self._breaker.failures == 1:
            _log.warning("The sink `%s` is left alone for a while: %s", self._outlet.sink.name, why)
        await self._opened.ask(self._outbox.mark_failed, letters, str(why), until)

    async def _refused(self, letters: Sequence[OutboxMessage], why: NotTaken) -> None:
        """Try again with each letter by itself, not for ever: it is the fault of what one says."""
        self._breaker.succeeded()
        now, name = self._now(), self._outlet.sink.name
        for letter in letters:
            tries = letter.tries + 1
            due = None if tries >= TRIES else now + pause(tries, f"{self._salt}/{letter.alert.id}")
            if due is None:
                _log.error("The sink `%s` will not have %r: %s", name, letter.alert.title, why)
            await self._opened.ask(
                self._outbox.mark_failed, [letter], str(why), due, is_refused=True
            )


def _groups(letters: Sequence[OutboxMessage], most: int) -> list[AlertGroup]:
    """The messages to send; what was refused before is sent by itself: it may be one's fault."""
    fresh = [letter.alert for letter in letters if not letter.tries]
    refused = [letter.alert for letter in letters if letter.tries]
    return [*group_alerts(fresh, most), *(AlertGroup((alert,)) for alert in refused)]


def cause(error: Exception) -> str:
    """What an error says, in a line; a database's says also all that was to be written."""
    return str(error.__cause__ or error).strip().partition("\n")[0] or type(error).__name__
