"""Notification of alerts: once per threshold, several in one message, repeated while open."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from slo.alert import Alert, Severity, budget_alert, reached_threshold
from slo.budgets.budget import Budget
from slo.budgets.counter import CounterLevel
from slo.window import Window

#: Seconds in which alerts that come together are sent in one message.
GROUPING_SLOT_S: Final = 30.0
_HOUR_S: Final = 3_600.0
_REPEAT_INTERVAL_S: Final = 4 * _HOUR_S
_DAILY_REPEAT_S: Final = 24 * _HOUR_S
#: Alerts in one message.
MAX_ALERTS_PER_MESSAGE: Final = 200
#: Counters whose thresholds are remembered.
_MAX_REMEMBERED_COUNTERS: Final = 20_000
_ORDER: Final = list(Severity)
_NEVER: Final = 2**63


class AlertGroup(msgspec.Struct, frozen=True):
    """The alerts of one message: all of one kind, all open or all ended.

    Attributes:
        alerts: The most urgent first, of those the oldest; at least one.
    """

    alerts: tuple[Alert, ...]

    @property
    def severity(self) -> Severity:
        """That of the most urgent."""
        return self.alerts[0].severity

    @property
    def is_open(self) -> bool:
        """True if they go on."""
        return self.alerts[0].is_open


def grouping_time(now: float) -> float:
    """The time at which alerts of now are sent: the end of their slot, alike in all processes."""
    return now // GROUPING_SLOT_S * GROUPING_SLOT_S + GROUPING_SLOT_S


def group_alerts(
    alerts: Iterable[Alert], max_size: int = MAX_ALERTS_PER_MESSAGE
) -> list[AlertGroup]:
    """The alerts in messages, the most urgent first; duplicates are sent once."""
    parts: dict[tuple[str, bool], dict[str, Alert]] = {}
    for alert in alerts:
        parts.setdefault((alert.kind, alert.is_open), {})[alert.id] = alert
    groups = []
    for part in parts.values():
        ordered = sorted(part.values(), key=_urgency)
        groups += [
            AlertGroup(tuple(ordered[n : n + max_size])) for n in range(0, len(ordered), max_size)
        ]
    return sorted(groups, key=lambda group: _urgency(group.alerts[0]))


def repeat_interval_s(alert: Alert) -> float | None:
    """Seconds after which an alert that stays open is sent again; None for never.

    A page about a budget, which may stay open for weeks, is sent daily, and a note only once.
    """
    if not alert.is_open or alert.severity is Severity.NOTE:
        return None
    if alert.kind != "budget":
        return _REPEAT_INTERVAL_S
    return _DAILY_REPEAT_S if alert.severity is Severity.PAGE else None


class _NotifiedCounter(msgspec.Struct):
    """The amount spent at the last alert about a counter, and the next threshold."""

    limit: int
    spent: int
    next: int


class ThresholdWatch:
    """Watches the spending of budgets; each threshold is reported once in a window.

    What is forgotten, here or with the process, is sent again with the same id. Budgets of a
    minute are rates, which have no alerts: they are over before anybody reads it.
    """

    def __init__(self, max_counters: int = _MAX_REMEMBERED_COUNTERS) -> None:
        self._most = max_counters
        self._notified: OrderedDict[str, _NotifiedCounter] = OrderedDict()

    def crossed_threshold_alert(
        self, budget: Budget, whose: str, counter: str, level: CounterLevel, ends: float, now: float
    ) -> Alert | None:
        """The alert of a threshold that a counter has just crossed; None in nearly all cases.

        Of thresholds that are passed at once only the highest is reported.

        Args:
            counter: Its name, which says the window, too.
        """
        if budget.window is Window.MINUTE or not budget.alerts:
            return None
        counted = self._notified.get(counter)
        if counted is None or counted.limit != budget.limit:
            counted = self._remember(
                counter, _NotifiedCounter(budget.limit, 0, _next_threshold(budget, 0))
            )
        spent = level.spent
        if spent < counted.next:
            return None
        percent = reached_threshold(budget, counted.spent, spent)
        counted.spent, counted.next = spent, _next_threshold(budget, spent)
        self._notified.move_to_end(counter)
        return None if percent is None else budget_alert(budget, whose, percent, spent, now, ends)

    def _remember(self, counter: str, counted: _NotifiedCounter) -> _NotifiedCounter:
        self._notified[counter] = counted
        if len(self._notified) > self._most:
            self._notified.popitem(last=False)
        return counted


def _next_threshold(budget: Budget, spent: int) -> int:
    """The amount that reaches the next threshold; an unreachable one after the last."""
    ahead = (-(-percent * budget.limit // 100) for percent in budget.alerts)
    return next((amount for amount in ahead if amount > spent), _NEVER)


def _urgency(alert: Alert) -> tuple[int, float, str]:
    return _ORDER.index(alert.severity), alert.began, alert.id
