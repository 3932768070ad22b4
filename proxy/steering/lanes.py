"""What Prometheus reads of routes; their names are the catalog's."""

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.lanes import Lanes
from slo.breaker import State


class LaneFigures(Collector):
    """Which routes are left alone just now, and how many calls those take that adapt.

    Args:
        lanes: Of all routes.
        ticks: Seconds of the clock that lanes are timed by.
    """

    def __init__(self, lanes: Lanes, ticks: Callable[[], float]) -> None:
        self._lanes = lanes
        self._ticks = ticks

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        now, by = self._ticks(), ["route"]
        opened = GaugeMetricFamily("thriftgate_route_open", "1 while its breaker is", labels=by)
        limit = GaugeMetricFamily("thriftgate_route_limit", "Calls it takes at once", labels=by)
        flying = GaugeMetricFamily("thriftgate_route_in_flight", "Calls it has now", labels=by)
        for name, lane in self._lanes.states():
            opened.add_metric([name], float(lane.breaker.state(now) is not State.CLOSED))
            if lane.limit is not None:
                limit.add_metric([name], lane.limit.limit)
                flying.add_metric([name], lane.limit.in_flight)
        yield from (opened, limit, flying)
