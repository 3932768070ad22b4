"""Writes receipts as metrics and log lines.

Calls, tokens, cost and times have the labels team, feature, model and route. Callers choose
features and models freely, so only the ``TOP_SERIES`` combinations with most calls have series of
their own; all others share one, labelled ``other``. Attempts, cache misses, compaction and recalls
have the labels team and route. Some of these metrics add an outcome, a bucket or a reason. Overhead
has no labels.

Counting is plain arithmetic on the event loop; Prometheus' own types are made at a scrape.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from proxy.records.compaction_result import recalls_without_end
from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.services.telemetry.bucket_counts import BucketCounts
from proxy.services.telemetry.engine_metrics import PhaseMetrics
from proxy.services.telemetry.fast_path_metrics import FastPathMetrics
from proxy.services.telemetry.top_series import Labels, TopSeries

_log = logging.getLogger("thriftgate.calls")

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_OVERHEAD: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1)
_MOST_SERIES: Final = 4096
TOP_SERIES: Final = 100
"""Combinations of team, feature, model and route that have series of their own."""
_OTHER: Final = "other"
#: Outcome of recalls that did not end in an answer.
_ENDLESS: Final = "endless"
_BY_TRAFFIC: Final = ("team", "feature", "model", "route")
#: Reasons for which conversations went unmodified that are told apart; the rest is one.
_REASONS: Final = 32


class TrafficCounts:
    """The calls of one team's feature that one model answered on one route.

    Attributes:
        calls: Calls by how they ended.
        ttft: Seconds from the call's arrival to the first content byte, one sample per attempt.
        duration: Seconds from the call's arrival to the attempt's end, one sample per attempt.
    """

    __slots__ = (
        "cache_read", "cache_write", "calls", "duration", "input", "nanos", "output",
        "reasoning", "ttft",
    )  # fmt: skip

    def __init__(self) -> None:
        self.calls: dict[Outcome, int] = {}
        self.input = self.cache_read = self.cache_write = self.output = self.reasoning = 0
        self.nanos = 0
        self.ttft = BucketCounts(_SECONDS)
        self.duration = BucketCounts(_SECONDS)

    def add(self, receipt: Receipt) -> None:
        """Count one attempt."""
        if receipt.final:
            self.calls[receipt.outcome] = self.calls.get(receipt.outcome, 0) + 1
        self.duration.add(receipt.duration)
        if receipt.ttft is not None:
            self.ttft.add(receipt.ttft)
        self.nanos += receipt.cost_nanos or 0
        usage = receipt.usage
        if usage is not None:
            self.input += usage.input
            self.cache_read += usage.cache_read
            self.cache_write += usage.cache_write_tokens
            self.output += usage.output
            self.reasoning += usage.reasoning


class AttemptCounts:
    """Counts of one team on one route."""

    __slots__ = (
        "attempts",
        "compaction",
        "estimated",
        "missed",
        "recalled_tokens",
        "recalls",
        "uncompacted",
        "unpriced",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempts = dict.fromkeys(Outcome, 0)
        self.unpriced = self.estimated = 0
        self.missed: dict[str, int] = {}
        self.compaction = CompactionCounts()
        self.uncompacted: dict[str, int] = {}
        self.recalls: dict[str, int] = {}
        self.recalled_tokens = 0

    def add(self, receipt: Receipt) -> None:
        """Count one attempt."""
        self.attempts[receipt.outcome] += 1
        if receipt.miss and receipt.miss_tokens:
            missed = self.missed.get(receipt.miss, 0)
            self.missed[receipt.miss] = missed + receipt.miss_tokens
        if receipt.compaction:
            self._count_compaction(receipt)
        if receipt.recalls:
            is_endless = recalls_without_end(receipt.error, receipt.recalls)
            outcome = _ENDLESS if is_endless else receipt.outcome.value
            self.recalls[outcome] = self.recalls.get(outcome, 0) + receipt.recalls
            self.recalled_tokens += receipt.recalled_tokens
        is_used = receipt.usage is not None
        if receipt.cost_nanos is None and (is_used or receipt.outcome is Outcome.ANSWERED):
            self.unpriced += 1
        self.estimated += is_used and receipt.estimated

    def _count_compaction(self, receipt: Receipt) -> None:
        """Count what compaction made of it; of what no upstream took it made nothing."""
        if receipt.outcome is Outcome.FAILED:
            return
        if receipt.compacted:
            self.compaction.add(receipt)
            return
        why = receipt.compaction_why
        if why not in self.uncompacted and len(self.uncompacted) >= _REASONS:
            why = _OTHER
        self.uncompacted[why] = self.uncompacted.get(why, 0) + 1


class CompactionCounts:
    """Counts of compaction on one route."""

    __slots__ = (
        "attempts", "gained", "lost", "needed", "paid", "resets", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempts = self.resets = self.tokens = self.needed = self.lost = 0
        self.gained = self.paid = 0

    def add(self, receipt: Receipt) -> None:
        """Count one compacted attempt."""
        self.attempts += 1
        self.resets += receipt.reset
        self.tokens += (receipt.tokens_before or 0) - (receipt.tokens_after or 0)
        nanos = receipt.compaction_nanos or 0
        self.gained += max(nanos, 0)
        self.paid += max(-nanos, 0)
        self.needed += receipt.needed
        self.lost += receipt.lost


class Telemetry(Collector):
    """Metrics for Prometheus; holds its own registry."""

    def __init__(
        self, *, log_calls: bool, team_name: Callable[[str], str] = lambda team: team
    ) -> None:
        """Count from zero.

        Args:
            log_calls: True to write a log line for answered calls too; failed ones always do.
        """
        self._log_calls = log_calls
        self._team_name = team_name
        self._traffic = TopSeries(TrafficCounts, TOP_SERIES)
        self._series: dict[tuple[str, str], AttemptCounts] = {}
        self._overhead = BucketCounts(_OVERHEAD)
        self._phases = PhaseMetrics()
        self._registry = CollectorRegistry()
        self._fast_path = FastPathMetrics(team_name)
        self.register(self, self._phases, self._fast_path)

    def observe(self, receipt: Receipt) -> None:
        """Count one attempt."""
        labels = (receipt.team, receipt.route)
        series = self._series.get(labels) or self._new_series(labels)
        series.add(receipt)
        model = answering_model(receipt.route, receipt.model)
        self._traffic.series_of((receipt.team, receipt.feature, model, receipt.route)).add(receipt)
        self._overhead.add(receipt.overhead)
        self._phases.observe(receipt)
        self._fast_path.observe(receipt)
        if self._log_calls or receipt.outcome is not Outcome.ANSWERED:
            _log.info("%s", msgspec.json.encode(_loggable(receipt)).decode())

    def register(self, *collectors: Collector) -> None:
        """Let Prometheus read these, too."""
        for collector in collectors:
            self._registry.register(collector)

    def prometheus_text(self) -> bytes:
        """Everything, as Prometheus text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        yield from self._counters()
        yield from self._compaction_metrics()
        yield from self._traffic_counters()
        yield from self._traffic_times()
        overhead = HistogramMetricFamily(
            "thriftgate_overhead_seconds",
            "Seconds in the gateway itself, without waits for upstream or caller",
        )
        overhead.add_metric([], self._overhead.buckets(), self._overhead.total)
        yield overhead

    def _by_route(self) -> Iterator[tuple[Labels, AttemptCounts]]:
        """The series by the names of their teams and routes."""
        for (team, route), series in self._series.items():
            yield (self._team_name(team), route), series

    def _by_traffic(self) -> Iterator[tuple[Labels, TrafficCounts]]:
        """The series by team name, feature, model and route, and that of all others."""
        for (team, *rest), traffic in self._traffic.items():
            yield (self._team_name(team), *rest), traffic
        if self._traffic.has_other:
            yield (_OTHER,) * len(_BY_TRAFFIC), self._traffic.other

    def _traffic_counters(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "thriftgate_calls", "Calls by outcome", labels=[*_BY_TRAFFIC, "outcome"]
        )
        tokens = CounterMetricFamily(
            "thriftgate_tokens", "Tokens by bucket", labels=[*_BY_TRAFFIC, "bucket"]
        )
        cost = CounterMetricFamily("thriftgate_cost_usd", "Effective cost", labels=_BY_TRAFFIC)
        for labels, traffic in self._by_traffic():
            for outcome, count in traffic.calls.items():
                calls.add_metric([*labels, outcome.value], count)
            for bucket in ("input", "cache_read", "cache_write", "output", "reasoning"):
                tokens.add_metric([*labels, bucket], getattr(traffic, bucket))
            cost.add_metric(labels, traffic.nanos / 1e9)
        yield from (calls, tokens, cost)

    def _traffic_times(self) -> Iterator[Metric]:
        for name, description in (
            ("ttft", "Seconds from a call's arrival to an attempt's first content byte"),
            ("duration", "Seconds from a call's arrival to an attempt's end"),
        ):
            spread = HistogramMetricFamily(
                f"thriftgate_{name}_seconds", description, labels=_BY_TRAFFIC
            )
            for labels, traffic in self._by_traffic():
                counts: BucketCounts = getattr(traffic, name)
                spread.add_metric(labels, counts.buckets(), counts.total)
            yield spread

    def _counters(self) -> Iterator[Metric]:
        by_route = ["team", "route"]
        attempts = CounterMetricFamily(
            "thriftgate_attempts", "Attempts by outcome", labels=[*by_route, "outcome"]
        )
        unpriced = CounterMetricFamily(
            "thriftgate_unpriced", "Attempts whose price is unknown", labels=by_route
        )
        estimated = CounterMetricFamily(
            "thriftgate_estimated",
            "Attempts whose tokens the gateway estimated, as the provider gave none",
            labels=by_route,
        )
        missed = CounterMetricFamily(
            "thriftgate_missed_tokens",
            "Tokens expected in a prompt cache and not read from it, by reason",
            labels=[*by_route, "reason"],
        )
        for labels, series in self._by_route():
            for reason, count in series.missed.items():
                missed.add_metric([*labels, reason], count)
            for outcome, count in series.attempts.items():
                attempts.add_metric([*labels, outcome.value], count)
            unpriced.add_metric(labels, series.unpriced)
            estimated.add_metric(labels, series.estimated)
        yield from (attempts, unpriced, estimated, missed)

    def _compaction_metrics(self) -> Iterator[Metric]:
        by_route = ["team", "route"]
        counters = (
            ("compacted_attempts", "attempts", "Attempts sent with a compacted prompt"),
            ("compaction_removed_tokens", "tokens", "Estimated tokens that compaction removed"),
            (
                "compaction_resets",
                "resets",
                "First prompts after a compaction, whose cached prefix is lost",
            ),
            (
                "compaction_needed_values",
                "needed",
                "Values from compacted turns that later tool calls used",
            ),
            ("compaction_lost_values", "lost", "Needed values missing from the compacted prompt"),
        )
        for name, attribute, text in counters:
            counter = CounterMetricFamily(f"thriftgate_{name}", text, labels=by_route)
            for labels, series in self._by_route():
                counter.add_metric(labels, getattr(series.compaction, attribute))
            yield counter
        yield from self._compaction_money_metrics()
        yield from self._recall_metrics()
        uncompacted = CounterMetricFamily(
            "thriftgate_uncompacted_attempts",
            "Attempts that compaction left unmodified, by reason",
            labels=[*by_route, "reason"],
        )
        for labels, series in self._by_route():
            for reason, count in series.uncompacted.items():
                uncompacted.add_metric([*labels, reason], count)
        yield uncompacted

    def _recall_metrics(self) -> Iterator[Metric]:
        by_route = ["team", "route"]
        recalls = CounterMetricFamily(
            "thriftgate_recalls",
            "Times a model asked for compacted text, by the attempt's outcome",
            labels=[*by_route, "outcome"],
        )
        tokens = CounterMetricFamily(
            "thriftgate_recalled_tokens",
            "Tokens of compacted text returned to models",
            labels=by_route,
        )
        for labels, series in self._by_route():
            for outcome, count in series.recalls.items():
                recalls.add_metric([*labels, outcome], count)
            tokens.add_metric(labels, series.recalled_tokens)
        yield from (recalls, tokens)

    def _compaction_money_metrics(self) -> Iterator[Metric]:
        by_route = ["team", "route"]
        # It falls where compaction costs more than it saves, so it is no counter, unlike its parts.
        saved = GaugeMetricFamily(
            "thriftgate_compaction_saved_usd",
            "Net savings of compaction since the start",
            labels=by_route,
        )
        for labels, series in self._by_route():
            saved.add_metric(labels, (series.compaction.gained - series.compaction.paid) / 1e9)
        yield saved
        for name, text in (
            ("gained", "Savings on attempts that compaction made cheaper"),
            ("paid", "Extra cost of attempts that compaction made more expensive, such as resets"),
        ):
            counter = CounterMetricFamily(
                f"thriftgate_compaction_{name}_usd", text, labels=by_route
            )
            for labels, series in self._by_route():
                counter.add_metric(labels, getattr(series.compaction, name) / 1e9)
            yield counter

    def _new_series(self, labels: tuple[str, str]) -> AttemptCounts:
        """The series that begins with this team and route; a common one where there are many."""
        if len(self._series) >= _MOST_SERIES:
            labels = (_OTHER, _OTHER)
        return self._series.setdefault(labels, AttemptCounts())


def _loggable(receipt: Receipt) -> Receipt:
    """The receipt without its prompt, its times to the microsecond."""
    return msgspec.structs.replace(
        receipt,
        prompt=None,
        started=round(receipt.started, 6),
        duration=round(receipt.duration, 6),
        overhead=round(receipt.overhead, 6),
        ttft=None if receipt.ttft is None else round(receipt.ttft, 6),
    )
