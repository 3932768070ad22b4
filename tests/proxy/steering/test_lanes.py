from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from proxy.lanes import Lanes
from proxy.steering.lanes import LaneFigures
from tests.fakes.desk import route
from tests.fakes.upstream import broken


def read(lanes):
    registry = CollectorRegistry()
    registry.register(LaneFigures(lanes, lambda: 100.0))
    return generate_latest(registry).decode()


def test_a_route_that_fails_is_shown_open():
    lanes, one = Lanes(), route("one")
    lanes.lane(one)
    before = read(lanes)
    for _ in range(5):
        lanes.ended(one, broken(), 99.0, 100.0)

    assert 'thriftgate_route_open{route="one/m"} 0.0' in before
    assert 'thriftgate_route_open{route="one/m"} 1.0' in read(lanes)


def test_limits_are_shown_of_routes_that_adapt_alone():
    lanes, plain, engine = Lanes(), route("one"), route("gpu")
    lanes.lane(plain)
    lanes.lane(replace(engine, upstream=replace(engine.upstream, adapts=True)))
    text = read(lanes)

    assert 'thriftgate_route_limit{route="gpu/m"} 100.0' in text
    assert 'thriftgate_route_in_flight{route="gpu/m"} 0.0' in text
    assert 'thriftgate_route_limit{route="one/m"}' not in text
