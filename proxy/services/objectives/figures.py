"""Metrics of objectives for Prometheus; their names, which an operator chose, are the labels."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.services.objectives.router import ObjectiveRouter
from slo.controller.state import ControllerState


class ObjectiveMetrics(Collector):
    """Counts of good and bad events, and where each objective stands."""

    def __init__(self, wheel: ObjectiveRouter) -> None:
        self._wheel = wheel

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        wheel = self._wheel
        by = ["objective"]
        good = CounterMetricFamily("thriftgate_objective_good", "Events that kept it", labels=by)
        bad = CounterMetricFamily("thriftgate_objective_bad", "Events that missed it", labels=by)
        for name in wheel.tracks:  # also those that nothing has happened to yet
            kept, missed = wheel.totals.get(name, (0, 0))
            good.add_metric([name], kept)
            bad.add_metric([name], missed)
        level = GaugeMetricFamily("thriftgate_objective_level", "Rung it is on", labels=by)
        state = GaugeMetricFamily(
            "thriftgate_objective_state", "1 for the state it is in", labels=[*by, "state"]
        )
        for name in wheel.tracks:
            standing = wheel.standings.get(name)
            here = standing.state if standing is not None else ControllerState.HEALTHY
            level.add_metric([name], standing.level if standing is not None else 0)
            for each in ControllerState:
                state.add_metric([name, each.value], float(each is here))
        moved = CounterMetricFamily(
            "thriftgate_moved", "Calls that went to another rung", labels=[*by, "rung"]
        )
        spared = CounterMetricFamily(
            "thriftgate_would_move", "Calls that would have, were it enforced", labels=[*by, "rung"]
        )
        for family, counts in ((moved, wheel.rerouted), (spared, wheel.not_enforced)):
            for (name, rung), count in list(counts.items()):
                family.add_metric([name, rung], count)
        yield from (good, bad, level, state, moved, spared)
