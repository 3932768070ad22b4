"""Metrics of the answer cache: calls by result, what they saved, and the entries it holds."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.calls.answer_cache_port import CacheResult
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.services.telemetry.top_series import TopSeries

#: Teams' features that have series of their own.
_MAX_SERIES: Final = 100
_OTHER: Final = "other"


class FeatureCounts:
    """Counts of one team's feature."""

    __slots__ = ("results", "saved_nanos")

    def __init__(self) -> None:
        self.results: Counter[CacheResult] = Counter()
        self.saved_nanos = 0


class AnswerMetrics(Collector):
    """Counts of one process.

    Args:
        memory: The answers that it keeps.
        team_name: Returns the name of the team with an id.
    """

    def __init__(self, memory: AnswerMemory, team_name: Callable[[str], str]) -> None:
        self._memory = memory
        self._team_name = team_name
        self._features = TopSeries(FeatureCounts, _MAX_SERIES)
        self._not_kept: Counter[str] = Counter()

    def count(self, feature: tuple[str, str], result: CacheResult, saved_nanos: int | None) -> None:
        """Count a call.

        Args:
            feature: The team's id and its feature.
        """
        counts = self._features.series_of(feature)
        counts.results[result] += 1
        counts.saved_nanos += saved_nanos or 0

    def note_kept(self, why_not: str) -> None:
        """Count an answer that was not kept, by the reason; "" for one that was."""
        if why_not:
            self._not_kept[why_not] += 1

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        labels = ["team", "feature"]
        calls = CounterMetricFamily(
            "thriftgate_answer_cache_calls",
            "Calls that the cache of answers could answer, by its part in them",
            labels=[*labels, "result"],
        )
        saved = CounterMetricFamily(
            "thriftgate_answer_cache_saved_usd",
            "Cost of the answers when they were given first",
            labels=labels,
        )
        for names, counts in self._by_feature():
            for result, number in counts.results.items():
                calls.add_metric([*names, result.value], number)
            saved.add_metric(names, counts.saved_nanos / 1e9)
        not_kept = CounterMetricFamily(
            "thriftgate_answer_cache_not_kept",
            "Answers that may not be given again, by reason",
            labels=["reason"],
        )
        for reason, number in self._not_kept.items():
            not_kept.add_metric([reason], number)
        answers = GaugeMetricFamily("thriftgate_answer_cache_answers", "Answers in memory")
        answers.add_metric([], len(self._memory))
        size = GaugeMetricFamily("thriftgate_answer_cache_bytes", "Bytes of answers in memory")
        size.add_metric([], self._memory.size_bytes)
        yield from (calls, saved, not_kept, answers, size)

    def _by_feature(self) -> Iterator[tuple[list[str], FeatureCounts]]:
        """The series by the names of team and feature, and that of all others."""
        for (team, feature), counts in self._features.items():
            yield [self._team_name(team), feature], counts
        if self._features.has_other:
            yield [_OTHER, _OTHER], self._features.other
