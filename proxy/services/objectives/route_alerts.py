"""Reports failing routes: metrics for Prometheus, and alerts to people."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.configuration import Snapshot
from slo.alert import Alert, Severity, resolve_alert, stable_id
from slo.breaker import BreakerState

#: Seconds between two looks.
_CHECK_INTERVAL_S: Final = 5.0
#: Seconds for which a route has to have been well again before people are told so.
_RECOVERED_AFTER_S: Final = 60.0
#: Routes or models that an alert names.
_MAX_NAMES: Final = 5


class RouteHealthMetrics(Collector):
    """Which routes are left alone just now, and how many calls those take that adapt.

    Args:
        lanes: Of all routes.
        ticks: Seconds of the clock that lanes are timed by.
    """

    def __init__(self, lanes: RouteHealthRegistry, ticks: Callable[[], float]) -> None:
        self._lanes = lanes
        self._ticks = ticks

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' own types."""
        now, by = self._ticks(), ["route"]
        opened = GaugeMetricFamily("thriftgate_route_open", "1 while its breaker is", labels=by)
        limit = GaugeMetricFamily("thriftgate_route_limit", "Calls it takes at once", labels=by)
        flying = GaugeMetricFamily("thriftgate_route_in_flight", "Calls it has now", labels=by)
        for name, lane in self._lanes.states():
            opened.add_metric([name], float(lane.breaker.state(now) is not BreakerState.CLOSED))
            if lane.limit is not None:
                limit.add_metric([name], lane.limit.limit)
                flying.add_metric([name], lane.limit.in_flight)
        yield from (opened, limit, flying)


class RouteAlerts:
    """Tells people which routes are left alone, and once they have been well for a while.

    Args:
        lanes: Of all routes.
        ticks: Seconds of the clock that lanes are timed by.
        now: Seconds since the epoch.
        say: Takes alerts.
        catalog: Says where else calls go.
    """

    def __init__(
        self,
        lanes: RouteHealthRegistry,
        ticks: Callable[[], float],
        now: Callable[[], float],
        say: Callable[[Alert], object],
        catalog: Catalog,
    ) -> None:
        self._lanes = lanes
        self._catalog = catalog
        self._ticks = ticks
        self._now = now
        self._say = say
        self._open: dict[str, Alert] = {}
        self._well: dict[str, float] = {}

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Returns what applies another catalog; nothing has to be got ready."""

        def commit() -> None:
            self._catalog = snapshot.catalog

        return commit

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            self.check()
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def check(self) -> None:
        """Tell what has changed since the last time."""
        now, ticks = self._now(), self._ticks()
        for name, lane in self._lanes.states():
            is_closed = lane.breaker.state(ticks) is BreakerState.CLOSED
            if not is_closed:
                self._well.pop(name, None)
                if name not in self._open:
                    self._open[name] = alert = _failing(name, self._catalog, now)
                    self._say(alert)
            elif (
                name in self._open and now - self._well.setdefault(name, now) >= _RECOVERED_AFTER_S
            ):
                ended = self._well.pop(name)
                self._say(resolve_alert(self._open.pop(name), ended))


def _failing(name: str, catalog: Catalog, now: float) -> Alert:
    """The alert of a route whose breaker opened, with what becomes of its calls."""
    model = next((m for m in catalog.models.values() if name in {r.name for r in m.routes}), None)
    others = [] if model is None else [r.name for r in model.routes if r.name != name]
    fallbacks = () if model is None else model.fallbacks
    mend = "The log says what it answered. The breaker closes by itself once a call succeeds."
    if others:
        so = ", and is tried last"
        action = f"Calls go first to {_joined_names(others)}; one at a time tries it again."
    elif fallbacks:
        so = ", and its model has no other"
        action = (
            f"Each call is still sent there first. What fails goes to {_joined_names(fallbacks)}."
        )
    else:
        so = ", and its model has no other"
        action = "All calls are still sent there, and each fails as long as the route does."
        mend = f"{mend} Another route, or `fallbacks` in the catalog, would answer meanwhile."
    return Alert(
        id=stable_id("route", name, f"{now:.0f}"),
        kind="move",
        subject=f"route {name}",
        severity=Severity.TICKET,
        title=f"The route {name} fails{so}",
        action=action,
        mend=mend,
        began=now,
    )


def _joined_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"
