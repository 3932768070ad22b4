import asyncio
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from proxy.calls.route_health import RouteHealthRegistry
from proxy.configuration import Snapshot
from proxy.services.objectives.route_alerts import RouteAlerts, RouteHealthMetrics, watch_routes
from proxy.settings import Settings
from slo.alert import Alert
from slo.policies.file import Policies
from tests.fakes.alerts import an_alert
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import catalog, route
from tests.fakes.upstream import broken_connection


def read(lanes):
    registry = CollectorRegistry()
    registry.register(RouteHealthMetrics(lanes, lambda: 100.0))
    return generate_latest(registry).decode()


def test_a_route_that_fails_is_shown_open():
    lanes, one = RouteHealthRegistry(), route("one")
    lanes.health_of(one)
    before = read(lanes)
    for _ in range(5):
        lanes.record_outcome(one, broken_connection(), 99.0, 100.0)

    assert 'thriftgate_route_open{route="one/m"} 0.0' in before
    assert 'thriftgate_route_open{route="one/m"} 1.0' in read(lanes)


def test_limits_are_shown_of_routes_that_adapt_alone():
    lanes, plain, engine = RouteHealthRegistry(), route("one"), route("gpu")
    lanes.health_of(plain)
    lanes.health_of(replace(engine, upstream=replace(engine.upstream, adapts=True)))
    text = read(lanes)

    assert 'thriftgate_route_limit{route="gpu/m"} 100.0' in text
    assert 'thriftgate_route_in_flight{route="gpu/m"} 0.0' in text
    assert 'thriftgate_route_limit{route="one/m"}' not in text


class WatchedRoute:
    """A route whose breaker people hear of."""

    def __init__(self, *other_routes, fallbacks=()):
        self.now = 100.0
        self.told: list[Alert] = []
        self.lanes, self.one = RouteHealthRegistry(), route("one")
        base_catalog = catalog(self.one, *other_routes)
        model = replace(base_catalog.models["m"], fallbacks=fallbacks)
        self.news = RouteAlerts(
            self.lanes,
            lambda: self.now,
            lambda: self.now,
            self.told.append,
            replace(base_catalog, models={"m": model}),
        )

    def after(self, seconds, *ended):
        self.now += seconds
        for failure in ended:
            self.lanes.record_outcome(self.one, failure, self.now, self.now)
        self.news.check()


def test_people_hear_once_that_a_route_fails_and_once_that_it_has_been_well_for_a_minute():
    watched = WatchedRoute(route("two"))
    watched.after(5, *[broken_connection()] * 5)
    watched.after(5)
    watched.after(30, None)
    watched.after(30)
    assert [alert.is_open for alert in watched.told] == [True]
    watched.after(31)
    watched.after(5)

    assert [alert.is_open for alert in watched.told] == [True, False]
    assert watched.told[0].title == "Route one/m is failing and is tried last"
    assert (watched.told[0].kind, watched.told[0].subject) == ("route", "route one/m")
    assert watched.told[1].ended == 140.0


def failed_route_alert(*other_routes, fallbacks=()):
    """The alert of a route that fails, beside others of its model."""
    watched = WatchedRoute(*other_routes, fallbacks=fallbacks)
    watched.after(5, *[broken_connection()] * 5)
    (alert,) = watched.told
    return alert


def test_of_a_route_with_others_the_alert_names_where_calls_go():
    alert = failed_route_alert(route("two"), route("three"))

    assert alert.title == "Route one/m is failing and is tried last"
    assert alert.action == "Calls go to two/m, three/m first; one call at a time probes this route."


def test_of_an_only_route_the_alert_says_that_calls_still_go_there():
    alert = failed_route_alert()

    assert alert.title == "Route one/m is failing and its model has no other route"
    assert alert.action.startswith("All calls are still sent there and fail")
    assert "fallbacks in the catalog" in alert.fix


def test_of_an_only_route_with_fallbacks_the_alert_says_who_answers():
    alert = failed_route_alert(fallbacks=("spare", "small"))

    assert alert.title == "Route one/m is failing and its model has no other route"
    assert alert.action == "Calls are still sent there first; those that fail go to spare, small."


def test_later_route_alerts_go_by_a_changed_catalog():
    watched = WatchedRoute()
    new = Snapshot(catalog(watched.one, route("two")), Policies())
    asyncio.run(watched.news.prepare(new))()
    watched.after(5, *[broken_connection()] * 5)

    assert watched.told[0].title.endswith("is tried last")


def test_a_relapse_is_the_same_trouble():
    watched = WatchedRoute()
    watched.after(5, *[broken_connection()] * 5)
    watched.after(35, None)
    watched.after(5, *[broken_connection()] * 5)

    assert len(watched.told) == 1


def test_alert_of_an_earlier_process_ends_once_its_route_works_for_a_minute():
    alert, watched = failed_route_alert(), WatchedRoute()
    watched.news.resume([alert])
    watched.after(5, None)
    watched.after(59, None)
    assert watched.told == []
    watched.after(2, None)

    assert [(alert.id, alert.ended) for alert in watched.told] == [(alert.id, 105.0)]


def test_alert_of_an_earlier_process_goes_on_while_its_route_fails():
    alert, watched = failed_route_alert(), WatchedRoute()
    watched.news.resume([alert])
    watched.after(5, *[broken_connection()] * 5)
    watched.after(20)

    assert watched.told == []


def test_alert_of_an_earlier_process_ends_after_an_hour_without_a_call_to_its_route():
    alert, watched = failed_route_alert(), WatchedRoute()
    watched.news.resume([alert])
    watched.after(3_500)
    assert watched.told == []
    watched.after(100)

    assert [(alert.id, alert.ended) for alert in watched.told] == [(alert.id, alert.began)]


def test_other_alerts_of_an_earlier_process_stay_open():
    watched = WatchedRoute()
    watched.news.resume([an_alert(kind="move")])
    watched.after(4_000)

    assert watched.told == []


async def test_alerts_left_open_are_read_once_it_runs():
    watched, alert = WatchedRoute(), failed_route_alert()

    async def left_open():
        return [alert]

    with suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await watched.news.run(left_open)
    watched.after(3_600)

    assert [alert.id for alert in watched.told] == [alert.id]


async def test_watched_routes_are_published_and_follow_the_catalog():
    calls = AppContextCalls()
    opened: Any = SimpleNamespace()
    context = fake_app_context(Settings(), opened, calls)

    task = watch_routes(context, lambda: 100.0)
    task.cancel()

    assert [type(metrics) for metrics in calls.published] == [RouteHealthMetrics]
    assert len(calls.followed) == 1
