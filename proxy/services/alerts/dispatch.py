"""The dispatcher: writes alerts to the outbox, and sends each sink its own until it took them.

::

    say ─ queue (memory) ─ writer ─ outbox (the database) ─┬─ one notifier per sink ─ post
                                                           └─ …

A post without an answer is sent again, by this process or another: delivery is at least once, and
twice only where a process died between post and note. An alert queued for less than a second is
lost if the process is killed; raised again, it is written again.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.records.amounts import quantity
from proxy.services.alerts.configured_sinks import ConfiguredSink
from proxy.services.alerts.http_sender import HttpSender
from proxy.services.alerts.notifier import POLL_INTERVAL_S, Notifier
from proxy.store.errors import StoreError
from proxy.store.sql.outbox import RESOLVED
from proxy.store.store import Store
from slo.alert import Alert, Severity
from slo.alerting import group_alerts, grouping_time

_log = logging.getLogger("thriftgate.alerts")

#: Alerts that wait to be written down; of more, the newest are not taken.
MAX_QUEUED_ALERTS: Final = 2_000
_BATCH_ALERTS: Final = 200
_EXPIRE_INTERVAL_S: Final = 30.0
_RETAIN_INTERVAL_S: Final = 3_600.0
#: Seconds for which alerts are kept after they ended.
_RETENTION_S: Final = 90 * 86_400.0
_MAX_REMEMBERED: Final = 20_000
_SHUTDOWN_TIMEOUT_S: Final = 2.0
#: Alerts of one batch that are logged.
_MAX_LOGGED: Final = 10


class AlertDispatcher(Collector):
    """Takes alerts and tells sinks of them.

    Args:
        post: Posts messages; it is closed by its opener.
        salt: Differs by process.
        remembered: Number of sent alerts that are remembered, so that none is sent twice.

    Attributes:
        dropped: Number of alerts dropped because too many were waiting.
    """

    def __init__(
        self,
        outlets: Sequence[ConfiguredSink],
        opened: Store,
        now: Callable[[], float],
        *,
        post: HttpSender,
        salt: str = "",
        remembered: int = _MAX_REMEMBERED,
    ) -> None:
        self._remembered = remembered
        self._opened = opened
        self._outbox = opened.outbox
        self._now = now
        self._post = post
        self._salt = salt
        self._least: dict[str, Severity] = {}
        self._tellers: dict[ConfiguredSink, Notifier] = {}
        self._running: dict[ConfiguredSink, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.update(outlets)
        self._waiting: deque[Alert] = deque()
        self._said: OrderedDict[tuple[str, bool], None] = OrderedDict()
        self._tended = {"expire": float("-inf"), "retain": float("-inf")}
        self._is_away = False
        self._is_dropping = False
        self.dropped = 0

    def say(self, alert: Alert) -> bool:
        """Have everybody told of an alert; False if too many wait already.

        It takes a microsecond, on the event loop, and saying the same thing again does nothing: an
        alert that ended stays ended, and what begins anew is another alert.
        """
        key = (alert.id, alert.is_open)
        if key in self._said:
            return True
        if len(self._waiting) >= MAX_QUEUED_ALERTS:
            if not self._is_dropping:
                _log.error("Alerts are dropped: %d wait for the database", MAX_QUEUED_ALERTS)
            self._is_dropping = True
            self.dropped += 1
            return False
        self._waiting.append(alert)
        self._said[key] = None
        if len(self._said) > self._remembered:
            self._said.popitem(last=False)
        return True

    def collect(self) -> Iterator[Metric]:
        """The count of dropped alerts, as Prometheus' own type."""
        yield CounterMetricFamily(
            "thriftgate_alerts_dropped",
            "Alerts dropped because too many waited for the database",
            value=self.dropped,
        )

    def update(self, outlets: Sequence[ConfiguredSink]) -> None:
        """Tell these sinks from now on; one that stays as it is goes on as it is."""
        self._least = {outlet.sink.name: outlet.sink.at_least for outlet in outlets}
        before = self._tellers
        self._tellers = {
            outlet: before.get(outlet)
            or Notifier(outlet, self._opened, self._now, self._post, self._salt)
            for outlet in outlets
        }
        self._run_notifiers()

    def _run_notifiers(self) -> None:
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
                self._run_notifiers()
                while True:
                    await self.maintain()
                    await asyncio.sleep(POLL_INTERVAL_S)
        finally:
            self._group = None
            await self._store_rest()

    async def maintain(self) -> None:
        """Write down what is queued, end what has come to its end, and forget what is old."""
        now = self._now()
        try:
            while self._waiting:
                await self._store_queued()
            self._is_dropping = False  # once the queue is empty, the next overflow is news
            if now >= self._tended["expire"] + _EXPIRE_INTERVAL_S:
                for alert in await self._opened.ask(self._outbox.expire, now):
                    self.say(alert)
                self._tended["expire"] = now
            if now >= self._tended["retain"] + _RETAIN_INTERVAL_S:
                await self._opened.ask(self._outbox.retain, now - _RETENTION_S)
                self._tended["retain"] = now
        except StoreError as error:
            if not self._is_away:
                _log.warning(
                    "Database unavailable, %d alerts kept in memory: %s",
                    len(self._waiting),
                    error,
                )
            self._is_away = True
        else:
            self._is_away = False

    async def notify_all(self) -> None:
        """Tell every sink what is due now, one after the other."""
        for teller in self._tellers.values():
            await teller.notify()

    async def _store_queued(self) -> None:
        """Write down what was queued first; it stays queued if it cannot be."""
        batch = [self._waiting[n] for n in range(min(len(self._waiting), _BATCH_ALERTS))]
        due = grouping_time(self._now())
        _log_alerts(await self._opened.ask(self._outbox.add, batch, self._least, due))
        for _ in batch:
            self._waiting.popleft()

    async def _store_rest(self) -> None:
        try:
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                while self._waiting:
                    await self._store_queued()
        except (StoreError, TimeoutError) as error:
            lost = quantity(len(self._waiting), "alert")
            _log.warning("Alerts could not be stored and are lost: %s (%r)", lost, error)


def _log_alerts(news: Sequence[Alert]) -> None:
    """Say in the log what is new, the most urgent first; of many alerts not each."""
    alerts = [alert for group in group_alerts(news) for alert in group.alerts]
    for alert in alerts[:_MAX_LOGGED]:
        is_mild = alert.severity is Severity.NOTE or not alert.is_open
        level = logging.INFO if is_mild else logging.WARNING
        phase = alert.severity.value if alert.is_open else RESOLVED
        _log.log(level, "Alert, %s: %s", phase, alert.title)
    if len(alerts) > _MAX_LOGGED:
        _log.warning(
            "%d more alerts; list them with `thriftgate alerts`", len(alerts) - _MAX_LOGGED
        )
