"""Self-hosted engines as metrics: phases of calls, draft tokens, and what replicas cost.

Series are bounded by the upstreams of the catalog that report phases or are paid by the hour.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.configuration import Snapshot
from proxy.records.receipt import Receipt
from proxy.services.telemetry.bucket_counts import BucketCounts
from slo.replica_cost import NS_PER_S

PHASES: Final = ("gateway", "queue", "prefill", "decode", "transfer")
_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
_MAX_UPSTREAMS: Final = 256
_OTHER: Final = "other"


class _UpstreamPhases:
    """The calls of one upstream that reported phases or draft tokens."""

    __slots__ = ("accepted", "drafted", "phases")

    def __init__(self) -> None:
        self.phases = {phase: BucketCounts(_SECONDS) for phase in PHASES}
        self.drafted = self.accepted = 0


class PhaseMetrics(Collector):
    """Histograms of each phase, and draft tokens, by upstream."""

    def __init__(self) -> None:
        self._upstreams: dict[str, _UpstreamPhases] = {}

    def observe(self, receipt: Receipt) -> None:
        """Count an attempt whose engine reported something."""
        if receipt.prefill is None and receipt.draft_tokens is None:
            return
        name = receipt.upstream
        if name not in self._upstreams and len(self._upstreams) >= _MAX_UPSTREAMS:
            name = _OTHER
        phases = self._upstreams.setdefault(name, _UpstreamPhases())
        phases.drafted += receipt.draft_tokens or 0
        phases.accepted += receipt.accepted_tokens or 0
        if receipt.prefill is not None:
            phases.phases["gateway"].add(receipt.overhead)
            for phase in PHASES[1:]:
                phases.phases[phase].add(getattr(receipt, phase) or 0.0)

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        spread = HistogramMetricFamily(
            "thriftgate_phase_seconds",
            "Seconds of engine calls, by phase",
            labels=["upstream", "phase"],
        )
        drafted = CounterMetricFamily(
            "thriftgate_draft_tokens", "Tokens that speculation proposed", labels=["upstream"]
        )
        accepted = CounterMetricFamily(
            "thriftgate_accepted_tokens", "Draft tokens that models accepted", labels=["upstream"]
        )
        for name, upstream in list(self._upstreams.items()):
            for phase, counts in upstream.phases.items():
                spread.add_metric([name, phase], counts.buckets(), counts.total)
            drafted.add_metric([name], upstream.drafted)
            accepted.add_metric([name], upstream.accepted)
        yield from (spread, drafted, accepted)


class ReplicaCostMetrics(Collector):
    """GPU seconds and money of replicas that are paid by the hour, used and idle."""

    def __init__(self, costs: ReplicaCosts, ticks: Callable[[], float]) -> None:
        self._costs = costs
        self._ticks = ticks

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        by = ["upstream", "state"]
        seconds = CounterMetricFamily(
            "thriftgate_replica_gpu_seconds", "GPU seconds paid, by use", labels=by
        )
        money = CounterMetricFamily(
            "thriftgate_replica_cost_usd", "Their price, where it is known", labels=by
        )
        price = GaugeMetricFamily(
            "thriftgate_replica_usd_per_million_tokens",
            "Measured cost of a million tokens at the present load",
            labels=["upstream", "tokens"],
        )
        for report in self._costs.reports(self._ticks()):
            totals = report.totals
            for state, ns in (("used", totals.used_ns), ("idle", totals.idle_ns)):
                seconds.add_metric([report.upstream, state], ns * report.gpus / NS_PER_S)
            if report.is_priced:
                for state, nanos in (("used", totals.used_nanos), ("idle", totals.idle_nanos)):
                    money.add_metric([report.upstream, state], nanos / 1e9)
            if (rates := report.rates) is not None:
                for tokens, rate in (("prompt", rates.input), ("output", rates.output)):
                    price.add_metric([report.upstream, tokens], (rate or 0) / 1e9)
        yield from (seconds, money, price)


def count_replica_costs(context: AppContext, ticks: Callable[[], float]) -> None:
    """Count the catalog's replicas from now on, and those of each later catalog."""
    costs = context.replica_costs
    costs.update(context.catalog.upstreams.values(), ticks())

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        return lambda: costs.update(snapshot.catalog.upstreams.values(), ticks())

    context.follow(prepare)
    context.publish(ReplicaCostMetrics(costs, ticks))
