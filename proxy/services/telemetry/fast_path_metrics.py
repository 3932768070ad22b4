"""The fast path as metrics: calls by what served them, and what that saved and cost.

Callers choose features freely, so only those with most calls have series of their own.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.records.receipt import Receipt, ServedBy
from proxy.services.telemetry.top_series import TopSeries

#: Teams' features that have series of their own.
_MAX_SERIES: Final = 100
_OTHER: Final = "other"
#: The part of the gateway's own calls, which compare answers.
_CHECKS: Final = "checks"
_LABELS: Final = ("team", "feature", "part")


class _FeatureParts:
    """Counts of one team's feature by the part of the fast path."""

    __slots__ = ("calls", "gained", "paid")

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.gained: Counter[str] = Counter()
        self.paid: Counter[str] = Counter()


class FastPathMetrics(Collector):
    """Counts of one process.

    Args:
        team_name: Returns the name of the team with an id.
    """

    def __init__(self, team_name: Callable[[str], str]) -> None:
        self._team_name = team_name
        self._features = TopSeries(_FeatureParts, _MAX_SERIES)

    def observe(self, receipt: Receipt) -> None:
        """Count an attempt that the fast path had a part in."""
        nanos = receipt.fast_path_nanos
        if not receipt.served_by and nanos is None:
            return
        part = receipt.served_by.value or _CHECKS
        counts = self._features.series_of((receipt.team, receipt.feature))
        # A draft is never its call's last attempt.
        counts.calls[part] += receipt.final or receipt.served_by is ServedBy.DRAFT
        counts.gained[part] += max(nanos or 0, 0)
        counts.paid[part] += max(-(nanos or 0), 0)

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        calls = CounterMetricFamily(
            "thriftgate_fast_path_calls", "Calls by what served them", labels=_LABELS
        )
        gained = CounterMetricFamily(
            "thriftgate_fast_path_gained_usd",
            "Savings of attempts that the fast path made cheaper",
            labels=_LABELS,
        )
        paid = CounterMetricFamily(
            "thriftgate_fast_path_paid_usd",
            "Extra cost of the fast path, such as comparisons and answers that failed a check",
            labels=_LABELS,
        )
        for names, counts in self._by_feature():
            for part, number in counts.calls.items():
                calls.add_metric([*names, part], number)
                gained.add_metric([*names, part], counts.gained[part] / 1e9)
                paid.add_metric([*names, part], counts.paid[part] / 1e9)
        yield from (calls, gained, paid)

    def _by_feature(self) -> Iterator[tuple[list[str], _FeatureParts]]:
        """The series by the names of team and feature, and that of all others."""
        for (team, feature), counts in self._features.items():
            yield [self._team_name(team), feature], counts
        if self._features.has_other:
            yield [_OTHER, _OTHER], self._features.other
