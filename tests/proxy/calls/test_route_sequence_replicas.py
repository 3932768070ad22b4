"""Replicas of an engine are tried in the order of their port."""

import asyncio
from dataclasses import replace

import msgspec

from proxy.calls.ports import ReplicaOrder
from proxy.calls.route_choice import RouteChoice
from proxy.catalog.entries import Route
from proxy.records.call import Call
from tests.fakes.call_dependencies import catalog, route
from tests.fakes.upstream import broken_connection
from tests.proxy.calls.sequenced_routes import course, line


class PlayedReplicas:
    """Puts replicas into reverse order, but for those that are not ready."""

    def __init__(self, *unready: str) -> None:
        self.asked: list[list[str]] = []
        self._unready = unready

    async def order(self, call: Call, choices: tuple[RouteChoice, ...]) -> ReplicaOrder:
        self.asked.append([choice.route.name for choice in choices])
        ready = [choice for choice in reversed(choices) if choice.route.name not in self._unready]
        unready = [choice for choice in choices if choice.route.name in self._unready]
        return ReplicaOrder(tuple(ready), tuple(unready))


def replica(name: str, model: str = "m") -> Route:
    base = route(name)
    return replace(base, model=model, upstream=replace(base.upstream, engine="house"))


def tried_with(port: PlayedReplicas, *routes: Route, failing: str = "") -> list[str]:
    """The routes in the order in which they are tried."""
    on = line(catalog=catalog(*routes))
    on = msgspec.structs.replace(on, deps=replace(on.deps, replicas=port))
    for replica_route in routes:
        if replica_route.name == failing:
            for _ in range(20):
                on.deps.route_health.record_outcome(
                    replica_route, broken_connection(), 999.0, 1000.0
                )
    way, names = course(on), []

    async def story() -> None:
        for _ in routes:
            await way.order_replicas()
            attempt = way.next_attempt()
            names.append(attempt.choice.route.name)
            way.pause_after_failure(attempt, broken_connection())

    asyncio.run(story())
    return names


def test_replicas_of_an_engine_are_tried_in_the_order_of_the_port_before_other_routes():
    port = PlayedReplicas()

    assert tried_with(port, replica("a"), replica("b"), replica("c"), route("provider")) == [
        "c/m",
        "b/m",
        "a/m",
        "provider/m",
    ]
    assert port.asked == [["a/m", "b/m", "c/m"]]


def test_replicas_that_cannot_serve_come_after_every_other_route():
    port = PlayedReplicas("b/m")

    assert tried_with(port, replica("a"), replica("b"), route("provider")) == [
        "a/m",
        "provider/m",
        "b/m",
    ]


def test_where_no_replica_can_serve_the_next_route_is_tried_first():
    port = PlayedReplicas("a/m", "b/m")

    assert tried_with(port, replica("a"), replica("b"), route("provider"))[0] == "provider/m"


def test_a_replica_whose_breaker_is_open_is_not_put_before_others():
    port = PlayedReplicas()
    tried = tried_with(port, replica("a"), replica("b"), replica("c"), failing="c/m")

    assert tried == ["b/m", "a/m", "c/m"]


def test_replicas_of_different_models_are_ordered_apart():
    port = PlayedReplicas()
    tried_with(port, replica("a"), replica("b"), replica("c", "other"), replica("d", "other"))

    assert port.asked == [["a/m", "b/m"], ["c/m", "d/m"]]


def test_without_a_port_replicas_stay_in_the_order_of_the_catalog():
    on = line(catalog=catalog(replica("a"), replica("b")))
    way = course(on)
    asyncio.run(way.order_replicas())

    assert way.next_attempt().choice.route.name == "a/m"
