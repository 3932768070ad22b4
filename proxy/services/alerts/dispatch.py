"""The dispatcher: stores alerts in the outbox, and posts each sink's alerts until it accepts them.

::

    enqueue ─ queue (memory) ─ writer ─ outbox (the database) ─┬─ one notifier per sink ─ post
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

#: Alerts that wait for the database at most; further ones are dropped.
MAX_QUEUED_ALERTS: Final = 2_000
_BATCH_ALERTS: Final = 200
_EXPIRE_INTERVAL_S: Final = 30.0
_RETAIN_INTERVAL_S: Final = 3_600.0
#: Seconds for which the database keeps alerts after they ended.
_RETENTION_S: Final = 90 * 86_400.0
_MAX_REMEMBERED: Final = 20_000
_SHUTDOWN_TIMEOUT_S: Final = 2.0
#: Alerts of one batch that are logged.
_MAX_LOGGED: Final = 10


class AlertDispatcher(Collector):
    """Queues alerts, stores them and notifies sinks.

    Args:
        post: Posts messages; its opener closes it.
        salt: Differs by process.
        remembered: Number of alerts that are remembered, so that none is enqueued twice.

    Attributes:
        dropped: Number of alerts dropped because too many were waiting.
    """

    def __init__(
        self,
        sinks: Sequence[ConfiguredSink],
        store: Store,
        now: Callable[[], float],
        *,
        post: HttpSender,
        salt: str = "",
        remembered: int = _MAX_REMEMBERED,
    ) -> None:
        self._remembered = remembered
        self._store = store
        self._outbox = store.outbox
        self._now = now
        self._post = post
        self._salt = salt
        self._minimum_severity: dict[str, Severity] = {}
        self._notifiers: dict[ConfiguredSink, Notifier] = {}
        self._running: dict[ConfiguredSink, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.update(sinks)
        self._waiting: deque[Alert] = deque()
        self._seen: OrderedDict[tuple[str, bool], None] = OrderedDict()
        self._last_run = {"expire": float("-inf"), "retain": float("-inf")}
        self._store_is_down = False
        self._is_dropping = False
        self.dropped = 0

    def enqueue(self, alert: Alert) -> bool:
        """Queue an alert for the database and all sinks; False if the queue is full.

        It takes a microsecond, on the event loop. An alert that was queued before is ignored: an
        alert that ended stays ended, and one that begins again has another id.
        """
        key = (alert.id, alert.is_open)
        if key in self._seen:
            return True
        if len(self._waiting) >= MAX_QUEUED_ALERTS:
            if not self._is_dropping:
                _log.error("Alerts are dropped: %d wait for the database", MAX_QUEUED_ALERTS)
            self._is_dropping = True
            self.dropped += 1
            return False
        self._waiting.append(alert)
        self._seen[key] = None
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)
        return True

    def collect(self) -> Iterator[Metric]:
        """The count of dropped alerts, as Prometheus' own type."""
        yield CounterMetricFamily(
            "thriftgate_alerts_dropped",
            "Alerts dropped because too many waited for the database",
            value=self.dropped,
        )

    def update(self, sinks: Sequence[ConfiguredSink]) -> None:
        """Notify these sinks from now on; an unchanged sink keeps its notifier."""
        self._minimum_severity = {
            configured.sink.name: configured.sink.at_least for configured in sinks
        }
        before = self._notifiers
        self._notifiers = {
            sink: before.get(sink) or Notifier(sink, self._store, self._now, self._post, self._salt)
            for sink in sinks
        }
        self._run_notifiers()

    def _run_notifiers(self) -> None:
        """Run one task for each sink while the dispatcher runs; cancel those of removed sinks."""
        if self._group is None:
            return
        for sink in self._running.keys() - self._notifiers.keys():
            self._running.pop(sink).cancel()
        for sink in self._notifiers.keys() - self._running.keys():
            self._running[sink] = self._group.create_task(self._notifiers[sink].run())

    async def run(self) -> None:
        """Store alerts and notify sinks until cancelled; alerts queued by then are stored."""
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
        """Store queued alerts, end expired ones, and delete old ones."""
        now = self._now()
        try:
            while self._waiting:
                await self._store_queued()
            self._is_dropping = False  # the queue is empty: the next overflow is logged again
            if now >= self._last_run["expire"] + _EXPIRE_INTERVAL_S:
                for alert in await self._store.ask(self._outbox.expire, now):
                    self.enqueue(alert)
                self._last_run["expire"] = now
            if now >= self._last_run["retain"] + _RETAIN_INTERVAL_S:
                await self._store.ask(self._outbox.retain, now - _RETENTION_S)
                self._last_run["retain"] = now
        except StoreError as error:
            if not self._store_is_down:
                _log.warning(
                    "Database unavailable, %d alerts kept in memory: %s",
                    len(self._waiting),
                    error,
                )
            self._store_is_down = True
        else:
            self._store_is_down = False

    async def notify_all(self) -> None:
        """Notify every sink of its due alerts, one sink after the other."""
        for notifier in self._notifiers.values():
            await notifier.notify()

    async def _store_queued(self) -> None:
        """Store the oldest queued alerts; if the database fails, they stay queued."""
        batch = [self._waiting[n] for n in range(min(len(self._waiting), _BATCH_ALERTS))]
        due = grouping_time(self._now())
        _log_alerts(await self._store.ask(self._outbox.add, batch, self._minimum_severity, due))
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


def _log_alerts(new_alerts: Sequence[Alert]) -> None:
    """Log new alerts, the most urgent first, up to a maximum number."""
    alerts = [alert for group in group_alerts(new_alerts) for alert in group.alerts]
    for alert in alerts[:_MAX_LOGGED]:
        is_mild = alert.severity is Severity.NOTE or not alert.is_open
        level = logging.INFO if is_mild else logging.WARNING
        phase = alert.severity.value if alert.is_open else RESOLVED
        _log.log(level, "Alert, %s: %s", phase, alert.title)
    if len(alerts) > _MAX_LOGGED:
        _log.warning(
            "%d more alerts; list them with `thriftgate alerts`", len(alerts) - _MAX_LOGGED
        )
