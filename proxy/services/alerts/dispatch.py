"""The dispatcher: writes down what is said, and tells each sink until it took it.

::

    say ─ queue (memory) ─ writer ─ outbox (the database) ─┬─ one teller per sink ─ post
                                                           └─ …

A post that nobody confirmed is sent again, by this process or another: sinks are told at least
once, and twice only where a process died between the two. What was queued for less than a second is
lost with a process that is killed; whoever says the same thing again is heard.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from proxy.records.amounts import quantity
from proxy.services.alerts.configured_sinks import Outlet
from proxy.services.alerts.http_sender import Post
from proxy.services.alerts.notifier import EVERY, Teller, cause
from proxy.store.sql.outbox import RESOLVED
from proxy.store.store import Store
from slo.alert import Alert, Severity
from slo.alerting import group_alerts, grouping_time

_log = logging.getLogger("thriftgate.alerts")

#: Alerts that wait to be written down; of more, the newest are not taken.
QUEUED: Final = 2_000
_BATCH: Final = 200
_EXPIRE_EVERY: Final = 30.0
_RETAIN_EVERY: Final = 3_600.0
#: Seconds for which alerts are kept after they ended.
_KEPT: Final = 90 * 86_400.0
_REMEMBERED: Final = 20_000
_LAST_WORDS: Final = 2.0
#: Alerts of one batch that are logged.
_LOGGED: Final = 10


class Alerts:
    """Takes alerts and tells sinks of them.

    Args:
        outlets: The sinks.
        opened: The store, with the outbox.
        now: Seconds since the epoch.
        post: Posts messages; it is closed by whoever opened it.
        salt: Differs by process.
        remembered: How many alerts that were said are not heard a second time.

    Attributes:
        dropped: How many alerts were not taken because too many were waiting.
    """

    def __init__(
        self,
        outlets: Sequence[Outlet],
        opened: Store,
        now: Callable[[], float],
        *,
        post: Post,
        salt: str = "",
        remembered: int = _REMEMBERED,
    ) -> None:
        self._remembered = remembered
        self._opened = opened
        self._outbox = opened.outbox
        self._now = now
        self._post = post
        self._salt = salt
        self._least: dict[str, Severity] = {}
        self._tellers: dict[Outlet, Teller] = {}
        self._running: dict[Outlet, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.update(outlets)
        self._waiting: deque[Alert] = deque()
        self._said: OrderedDict[tuple[str, bool], None] = OrderedDict()
        self._tended = {"expire": float("-inf"), "retain": float("-inf")}
        self._is_away = False
        self.dropped = 0

    def say(self, alert: Alert) -> bool:
        """Have everybody told of an alert; False if too many wait already.

        It takes a microsecond, on the event loop, and saying the same thing again does nothing: an
        alert that ended stays ended, and what begins anew is another alert.
        """
        key = (alert.id, alert.is_open)
        if key in self._said:
            return True
        if len(self._waiting) >= QUEUED:
            if not self.dropped:
                _log.error("Alerts are dropped: %d wait to be written down", QUEUED)
            self.dropped += 1
            return False
        self._waiting.append(alert)
        self._said[key] = None
        if len(self._said) > self._remembered:
            self._said.popitem(last=False)
        return True

    def update(self, outlets: Sequence[Outlet]) -> None:
        """Tell these sinks from now on; one that stays as it is goes on as it is."""
        self._least = {outlet.sink.name: outlet.sink.at_least for outlet in outlets}
        before = self._tellers
        self._tellers = {
            outlet: before.get(outlet)
            or Teller(outlet, self._opened, self._now, self._post, self._salt)
            for outlet in outlets
        }
        self._run_tellers()

    def _run_tellers(self) -> None:
        """Let a task run for each sink, and for no other, while the dispatcher runs."""
        if self._group is None:
            return
        for outlet in self._running.keys() - self._tellers.keys():
            self._running.pop(outlet).cancel()
        for outlet in self._tellers.keys() - self._running.keys():
            self._running[outlet] = self._group.create_task(self._tellers[outlet].run())

    async def run(self) -> None:
        """Write down and tell, until it is cancelled; what is queued by then is written down."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group, self._running = group, {}
                self._run_tellers()
                while True:
                    await self.tend()
                    await asyncio.sleep(EVERY)
        finally:
            self._group = None
            await self._last_words()

    async def tend(self) -> None:
        """Write down what is queued, end what has come to its end, and forget what is old."""
        now = self._now()
        try:
            while self._waiting:
                await self._written()
            if now >= self._tended["expire"] + _EXPIRE_EVERY:
                for alert in await self._opened.ask(self._outbox.expire, now):
                    self.say(alert)
                self._tended["expire"] = now
            if now >= self._tended["retain"] + _RETAIN_EVERY:
                await self._opened.ask(self._outbox.retain, now - _KEPT)
                self._tended["retain"] = now
        except SQLAlchemyError as error:
            if not self._is_away:
                _log.warning(
                    "Alerts wait in memory, %d of them: %s", len(self._waiting), cause(error)
                )
            self._is_away = True
        else:
            self._is_away = False

    async def tell(self) -> None:
        """Tell every sink what is due now, one after the other."""
        for teller in self._tellers.values():
            await teller.tell()

    async def _written(self) -> None:
        """Write down what was queued first; it stays queued if it cannot be."""
        batch = [self._waiting[n] for n in range(min(len(self._waiting), _BATCH))]
        due = grouping_time(self._now())
        _logged(await self._opened.ask(self._outbox.add, batch, self._least, due))
        for _ in batch:
            self._waiting.popleft()

    async def _last_words(self) -> None:
        try:
            async with asyncio.timeout(_LAST_WORDS):
                while self._waiting:
                    await self._written()
        except (SQLAlchemyError, TimeoutError) as error:
            lost = quantity(len(self._waiting), "alert")
            _log.warning("Not written down: %s (%s)", lost, cause(error))


def _logged(news: Sequence[Alert]) -> None:
    """Say in the log what is new, the most urgent first; of many alerts not each."""
    told = [alert for group in group_alerts(news) for alert in group.alerts]
    for alert in told[:_LOGGED]:
        level = logging.INFO if alert.severity is Severity.NOTE else logging.WARNING
        phase = alert.severity.value if alert.is_open else RESOLVED
        _log.log(level, "Alert, %s: %s", phase, alert.title)
    if len(told) > _LOGGED:
        _log.warning("And %d more alerts: `thriftgate alerts`", len(told) - _LOGGED)
