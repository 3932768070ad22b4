"""The cost of replicas that are paid by the hour: a share for each call, and prices per token.

::

    send ─► begin ─► ReplicaUse ─► settle: the call's share, and what it says of prices
                                └► release: nothing was served, so it is idle time

Only upstreams of the catalog with ``gpus`` or ``price_per_gpu_hour`` are counted. Pure: the time is
an argument, and it is the clock of timelines.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proxy.catalog.entries import Route, Upstream
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.timeline import Timeline
from slo.measured_rates import MeasuredRates
from slo.price import Tariff, TokenRates
from slo.replica_cost import CallInFlight, CostShare, ReplicaTimeTotals, SharedReplica
from slo.usage import Usage


class ReplicaCostReport(NamedTuple):
    """A replica's cost so far.

    Attributes:
        is_priced: True if its price is known.
        gpus: Its GPUs, or 1 without any.
        rates: Its measured price per token; None while too little was measured.
    """

    upstream: str
    is_priced: bool
    gpus: int
    totals: ReplicaTimeTotals
    rates: TokenRates | None


class ReplicaUse:
    """A call's use of a replica, until it is settled or released."""

    __slots__ = ("_call", "_meter")

    def __init__(self, meter: "_ReplicaMeter", now: float) -> None:
        self._meter = meter
        self._call: CallInFlight | None = meter.shared.begin(now)

    def settle(
        self,
        timeline: Timeline,
        sent_at: float | None,
        usage: Usage | None,
        timings: EngineTimings | None,
    ) -> CostShare | None:
        """The call's share of the replica, now that it ended; None if it was settled before.

        Args:
            sent_at: Its clock when the call was sent.
            usage: Tokens that the upstream reported; None where it reported none.
        """
        call, self._call = self._call, None
        if call is None:
            return None
        now, split = timeline.now(), _reported_split(timings)
        self._meter.served_at = now
        share = self._meter.shared.settle(call, now, sum(split) if split else None)
        split = split or _seen_split(timeline, sent_at)
        if share.nanos is not None and usage is not None and split:
            self._meter.rates.learn(share.nanos, usage, *split, now)
        return share

    def release(self, now: float) -> None:
        """End a use that nothing came of; does nothing where it was settled."""
        call, self._call = self._call, None
        if call is not None:
            self._meter.shared.release(call, now)


class ReplicaCosts:
    """The replicas of one process that are paid by the hour."""

    def __init__(self) -> None:
        self._meters: dict[str, _ReplicaMeter] = {}

    def update(self, upstreams: Iterable[Upstream], now: float) -> None:
        """Count these from now on; those that stay keep what was counted."""
        meters = {}
        for upstream in upstreams:
            if upstream.replica_price is not None:
                meter = self._meters.get(upstream.name) or _ReplicaMeter(upstream, now)
                meter.shared.change_price(upstream.replica_price, now)
                meters[upstream.name] = meter
        self._meters = meters

    def begin(self, upstream: Upstream, now: float) -> ReplicaUse | None:
        """A call that is sent to this upstream; None where it is not paid by the hour."""
        meter = self._meters.get(upstream.name)
        return None if meter is None else ReplicaUse(meter, now)

    def names(self) -> list[str]:
        """The upstreams that are counted."""
        return list(self._meters)

    def served_at(self, name: str) -> float | None:
        """The end of the last call that this upstream served; None for none."""
        return self._meters[name].served_at

    def set_running(self, name: str, *, is_running: bool, now: float) -> None:
        """Pay for idle time of this upstream from now on only if it runs; at first none is paid."""
        self._meters[name].shared.set_running(is_running=is_running, now=now)

    def tariff(self, route: Route) -> Tariff | None:
        """The route's prices, or what its replica's tokens cost of late; None where unknown."""
        if route.tariff is not None:
            return route.tariff
        meter = self._meters.get(route.upstream.name)
        return None if meter is None else meter.rates.tariff()

    def reports(self, now: float) -> Iterator[ReplicaCostReport]:
        """Each replica's cost so far."""
        for name, meter in self._meters.items():
            price = meter.shared.price
            yield ReplicaCostReport(
                upstream=name,
                is_priced=price.hour_nanos is not None,
                gpus=price.units,
                totals=meter.shared.totals(now),
                rates=meter.rates.rates(),
            )


class _ReplicaMeter:
    """One replica's shared time and measured prices."""

    __slots__ = ("rates", "served_at", "shared")

    def __init__(self, upstream: Upstream, now: float) -> None:
        assert upstream.replica_price is not None  # noqa: S101 - the only ones that are counted
        self.shared = SharedReplica(upstream.replica_price, now, is_running=False)
        self.served_at: float | None = None
        self.rates = MeasuredRates(now)


def _reported_split(timings: EngineTimings | None) -> tuple[float, float] | None:
    """Seconds of prefill and decode by the engine's report."""
    if timings is None or timings.prefill is None or timings.decode is None:
        return None
    return timings.prefill, timings.decode


def _seen_split(timeline: Timeline, sent_at: float | None) -> tuple[float, float] | None:
    """Seconds to the first content and from then on; None where all came at once."""
    if sent_at is None or timeline.ttft is None:
        return None
    first = timeline.started + timeline.ttft
    before, after = first - sent_at, timeline.now() - first
    return (before, after) if before > 0 and after > 0 else None
