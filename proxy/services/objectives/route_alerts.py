"""Reports failing routes: metrics for Prometheus, and alerts to people."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.configuration import Snapshot
from proxy.services.alerts.setup import alerts_left_open
from slo.alert import Alert, Severity, resolve_alert, stable_id
from slo.breaker import FAILURE_WINDOW_S, BreakerState

#: Seconds between two checks.
_CHECK_INTERVAL_S: Final = 5.0
#: Seconds for which a route's breaker must stay closed before its alert ends.
_RECOVERED_AFTER_S: Final = 60.0
#: Seconds after which an alert of an earlier process ends if this process has not used its route.
_UNUSED_AFTER_S: Final = 3600.0
#: Kind of these alerts, and what their subjects begin with.
_KIND: Final = "route"
_SUBJECT: Final = "route "
#: Routes or models that an alert names.
_MAX_NAMES: Final = 5


def watch_routes(context: AppContext, ticks: Callable[[], float]) -> asyncio.Task[None]:
    """Publish the health of routes, and begin the task that alerts people to it.

    Args:
        ticks: Seconds of the monotonic clock that breakers use.
    """
    registry = context.route_health
    context.publish(RouteHealthMetrics(registry, ticks))
    alerts = RouteAlerts(registry, ticks, context.now, context.alert, context.catalog)
    context.follow(alerts.prepare)
    return context.tasks.keep(partial(alerts.run, partial(alerts_left_open, context.opened)))


class RouteHealthMetrics(Collector):
    """Metrics of open breakers and concurrency limits, by route.

    Args:
        monotonic_now: Seconds of the monotonic clock that breakers use.
    """

    def __init__(self, health: RouteHealthRegistry, monotonic_now: Callable[[], float]) -> None:
        self._health = health
        self._monotonic_now = monotonic_now

    def collect(self) -> Iterator[Metric]:
        """The gauges of each route, as Prometheus' own types."""
        now, labels = self._monotonic_now(), ["route"]
        opened = GaugeMetricFamily(
            "thriftgate_route_open", "1 unless the route's circuit breaker is closed", labels=labels
        )
        limit = GaugeMetricFamily(
            "thriftgate_route_limit", "Most concurrent calls on the route", labels=labels
        )
        in_flight = GaugeMetricFamily(
            "thriftgate_route_in_flight", "Calls in flight on the route", labels=labels
        )
        for name, route_health in self._health.states():
            opened.add_metric(
                [name], float(route_health.breaker.state(now) is not BreakerState.CLOSED)
            )
            if route_health.limit is not None:
                limit.add_metric([name], route_health.limit.limit)
                in_flight.add_metric([name], route_health.limit.in_flight)
        yield from (opened, limit, in_flight)


class RouteAlerts:
    """Sends an alert when a route's breaker opens, and ends it once the route works again.

    Args:
        monotonic_now: Seconds of the monotonic clock that breakers use.
        catalog: Names the other routes and fallbacks of models.
    """

    def __init__(
        self,
        health: RouteHealthRegistry,
        monotonic_now: Callable[[], float],
        now: Callable[[], float],
        send_alert: Callable[[Alert], object],
        catalog: Catalog,
    ) -> None:
        self._health = health
        self._catalog = catalog
        self._monotonic_now = monotonic_now
        self._now = now
        self._send_alert = send_alert
        self._open: dict[str, Alert] = {}
        self._recovered_at: dict[str, float] = {}
        self._resumed_at = now()

    def resume(self, left_open: Iterable[Alert]) -> None:
        """Continue with the alerts that an earlier process left open."""
        self._resumed_at = self._now()
        for alert in left_open:
            if alert.kind == _KIND:
                self._open.setdefault(alert.subject.removeprefix(_SUBJECT), alert)

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Return the step that applies a new catalog; no preparation is needed."""

        def commit() -> None:
            self._catalog = snapshot.catalog

        return commit

    async def run(self, read_open: Callable[[], Awaitable[Iterable[Alert]]]) -> None:
        """Check at regular intervals, without end."""
        self.resume(await read_open())
        while True:
            self.check()
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def check(self) -> None:
        """Send an alert for each route that has failed or recovered since the last check."""
        now, monotonic_now = self._now(), self._monotonic_now()
        breakers = {
            name: route_health.breaker.state(monotonic_now)
            for name, route_health in self._health.states()
        }
        for name, state in breakers.items():
            if state is not BreakerState.CLOSED:
                self._recovered_at.pop(name, None)
                if name not in self._open:
                    self._open[name] = alert = _failing_route_alert(name, self._catalog, now)
                    self._send_alert(alert)
        for name in list(self._open):
            if (ended := self._ended_at(name, breakers.get(name), now)) is not None:
                self._recovered_at.pop(name, None)
                self._send_alert(resolve_alert(self._open.pop(name), ended))

    def _ended_at(self, name: str, state: BreakerState | None, now: float) -> float | None:
        """Time at which an alert ended; None while it is active.

        Args:
            state: State of the route's breaker; None if this process sent no call to the route.
        """
        if state is None:
            is_over = now - self._resumed_at >= _UNUSED_AFTER_S
            return self._resumed_at if is_over else None
        if state is not BreakerState.CLOSED:
            return None
        recovered_at = self._recovered_at.setdefault(name, now)
        return recovered_at if now - recovered_at >= _RECOVERED_AFTER_S else None


def _failing_route_alert(name: str, catalog: Catalog, now: float) -> Alert:
    """The alert for a route whose breaker opened; names the routes that get its calls."""
    model = next((m for m in catalog.models.values() if name in {r.name for r in m.routes}), None)
    other_routes = [] if model is None else [r.name for r in model.routes if r.name != name]
    fallbacks = () if model is None else model.fallbacks
    fix = "See its errors. The circuit breaker closes by itself once a call succeeds."
    if other_routes:
        effect = "is tried last"
        first = _joined_names(other_routes)
        action = f"Calls go to {first} first; one call at a time probes this route."
    elif fallbacks:
        effect = "its model has no other route"
        action = (
            f"Calls are still sent there first; those that fail go to {_joined_names(fallbacks)}."
        )
    else:
        effect = "its model has no other route"
        action = "All calls are still sent there and fail until the route recovers."
        fix = f"{fix} Another route or fallbacks in the catalog would answer calls meanwhile."
    return Alert(
        id=stable_id("route", name, f"{now:.0f}"),
        kind=_KIND,
        subject=f"{_SUBJECT}{name}",
        severity=Severity.TICKET,
        title=f"Route {name} is failing and {effect}",
        action=action,
        fix=fix,
        since=now - FAILURE_WINDOW_S,
        began=now,
    )


def _joined_names(names: Sequence[str]) -> str:
    """The first names, and the number of further ones."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"
