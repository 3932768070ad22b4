from dataclasses import replace

import pytest

from proxy.calls.route_choice import RouteChoice
from proxy.services.objectives.route_misses import RouteMisses
from tests.fakes.call_dependencies import route
from tests.fakes.objective_replicas import objective

NOW = 1_000_000.0
OBJECTIVE = objective(name="o", ladder=("elsewhere",))


def choices(names: str, engine: str = "") -> tuple[RouteChoice, ...]:
    routes = [route(name) for name in names]
    return tuple(
        RouteChoice(replace(one_route, upstream=replace(one_route.upstream, engine=engine)), "m")
        for one_route in routes
    )


def split(misses: RouteMisses, requested: tuple[RouteChoice, ...], now: float = NOW) -> list[str]:
    """The names of the routes that may answer, then `|`, then of those left out."""
    elsewhere, late = misses.split(OBJECTIVE, requested, now)
    return [choice.route.upstream.name for choice in (*elsewhere,)] + [
        "|",
        *(choice.route.upstream.name for choice in late),
    ]


def noted_calls(bad_by_route: dict[str, str], time: float = NOW) -> RouteMisses:
    misses = RouteMisses()
    for name, calls in bad_by_route.items():
        for mark in calls:
            misses.note("o", f"{name}/m", time, is_bad=mark == "x")
    return misses


@pytest.mark.parametrize("engine", ["", "house"])
def test_the_route_whose_calls_broke_the_objective_is_left_out_wherever_it_stands(engine):
    misses = noted_calls({"a": ".....x....", "b": "xxxxxxxx..", "c": ".........."})

    assert split(misses, choices("abc", engine)) == ["a", "c", "|", "b"]


@pytest.mark.parametrize("engine", ["", "house"])
def test_one_bad_call_leaves_no_route_out_beside_one_that_broke_the_objective(engine):
    misses = noted_calls({"a": "x", "b": "x" * 9 + "." * 11})

    assert split(misses, choices("ab", engine)) == ["a", "|", "b"]


def test_few_bad_calls_leave_a_route_out_where_the_others_keep_the_objective():
    misses = noted_calls({"a": "." * 20, "b": "xx"})

    assert split(misses, choices("ab")) == ["a", "|", "b"]


def test_without_any_knowledge_the_first_is_left_out_but_no_replica_of_an_engine():
    assert split(RouteMisses(), choices("ab")) == ["b", "|", "a"]
    assert split(RouteMisses(), choices("ab", "house")) == ["a", "b", "|"]


def test_of_routes_that_all_broke_the_objective_the_worst_alone_is_left_out():
    assert split(noted_calls({"a": "xxx", "b": "xxx"}), choices("ab")) == ["b", "|", "a"]
    assert split(noted_calls({"a": "xx.", "b": "xxx"}), choices("ab")) == ["a", "|", "b"]
    assert split(noted_calls({"a": "xxx"}), choices("a")) == ["|", "a"]


def test_calls_that_are_long_past_do_not_count():
    misses = noted_calls({"b": "xxxx"}, time=NOW - 400)

    assert split(misses, choices("ab", "house")) == ["a", "b", "|"]


def test_the_newest_calls_of_a_route_count():
    misses = noted_calls({"b": "x" * 20 + "." * 20, "a": "."})

    assert split(misses, choices("ab", "house")) == ["a", "b", "|"]


def test_routes_beyond_the_limit_are_forgotten():
    misses = RouteMisses()
    for number in range(10_100):
        misses.note("o", f"{number}/m", NOW, is_bad=True)

    assert len(misses._calls) == 10_000
