"""Metrics of objectives for Prometheus; labels are names from the policies file."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.services.objectives.router import ObjectiveRouter
from slo.controller.state import ControllerState


class ObjectiveMetrics(Collector):
    """Counts of good and bad events, and each objective's state and fallback level."""

    def __init__(self, router: ObjectiveRouter) -> None:
        self._router = router

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        router = self._router
        by = ["objective"]
        good = CounterMetricFamily("thriftgate_objective_good", "Events that kept it", labels=by)
        bad = CounterMetricFamily("thriftgate_objective_bad", "Events that missed it", labels=by)
        for name in router.tracks:  # also those without a call so far
            kept, missed = router.totals.get(name, (0, 0))
            good.add_metric([name], kept)
            bad.add_metric([name], missed)
        level = GaugeMetricFamily(
            "thriftgate_objective_level", "Fallback level of new conversations", labels=by
        )
        state = GaugeMetricFamily(
            "thriftgate_objective_state", "1 for the state it is in", labels=[*by, "state"]
        )
        for name in router.tracks:
            standing = router.standings.get(name)
            here = standing.state if standing is not None else ControllerState.HEALTHY
            level.add_metric([name], standing.level if standing is not None else 0)
            for each in ControllerState:
                state.add_metric([name, each.value], float(each is here))
        fallback = CounterMetricFamily(
            "thriftgate_fallback_calls", "Calls that fell back to a level", labels=[*by, "level"]
        )
        unenforced = CounterMetricFamily(
            "thriftgate_unenforced_fallback_calls",
            "Calls that would have fallen back, were the objective enforced",
            labels=[*by, "level"],
        )
        for family, counts in ((fallback, router.rerouted), (unenforced, router.not_enforced)):
            for (name, entry), count in list(counts.items()):
                family.add_metric([name, entry], count)
        yield from (good, bad, level, state, fallback, unenforced)
