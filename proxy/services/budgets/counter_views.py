"""Levels of budget counters as they were last reported, and alerts of thresholds they passed."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from slo.alert import Alert
from slo.alerting import ThresholdWatch
from slo.budgets.counter import CounterLevel
from slo.budgets.reservation_sizing import CounterView

#: Counters whose levels are remembered.
_MAX_COUNTERS: Final = 20_000
#: Seconds for which what was held then says what is held now.
_FRESH_S: Final = 3.0


class _Report(msgspec.Struct, frozen=True):
    """The last reported state of a counter, and when it was reported."""

    level: CounterLevel
    running: int
    at: float


class CounterViews:
    """The counters that one process has heard of, those heard of last kept longest.

    Attributes:
        say: Takes alerts; None for no alerts.
    """

    def __init__(self) -> None:
        self.say: Callable[[Alert], object] | None = None
        self._thresholds = ThresholdWatch()
        self._reports: OrderedDict[str, _Report] = OrderedDict()

    def remember(
        self, counted: CountedBudget, level: CounterLevel, running: int, now: float
    ) -> None:
        """Remember a counter's level, and report a threshold that it passed."""
        self._reports[counted.counter] = _Report(level, running, now)
        self._reports.move_to_end(counted.counter)
        if len(self._reports) > _MAX_COUNTERS:
            self._reports.popitem(last=False)
        alert = self._thresholds.crossed_threshold_alert(
            counted.budget, counted.whose, counted.counter, level, counted.ends, now
        )
        if alert is not None and self.say is not None:
            self.say(alert)

    def last_level(self, counter: str) -> CounterLevel | None:
        """The level last reported, however long ago; None for none."""
        report = self._reports.get(counter)
        return None if report is None else report.level

    def estimate(self, counter: str, now: float) -> CounterView:
        """Estimates the counter's state now; of an old report only what was spent still holds."""
        report = self._reports.get(counter)
        if report is None:
            return CounterView()
        if now - report.at > _FRESH_S:
            return CounterView(spent=report.level.spent)
        return CounterView(spent=report.level.spent, held=report.level.held, running=report.running)
