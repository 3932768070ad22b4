"""Tests of which routes a call takes while objectives are missed, and what became of it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.route_choice import RouteChoice, RoutingDecision, requested_routes
from slo.objectives.objective import Enforce, Metric, RequestKind
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.call_dependencies import RATES, call, route
from tests.fakes.objective_calls import (
    CATALOG,
    USER,
    chat,
    counts_by_arm,
    decide,
    degraded_snapshot,
    objective_router,
    receipt,
)
from tests.fakes.objective_replicas import START, objective, tracks
from tests.fakes.refusals import refusing

ANSWER = {"role": "assistant", "content": "Hi"}


def names(decision: RoutingDecision) -> list[str]:
    return [choice.route.name for choice in decision.choices]


def test_while_all_is_well_a_call_takes_what_it_asks_for_and_the_ladder_follows():
    decision = decide(objective_router())

    assert names(decision) == ["one/m", "two/m", "small/m"]
    assert [choice.reroute_reason for choice in decision.choices] == [
        "",
        "",
        "chat-ttft: in its place",
    ]
    assert (decision.level, decision.deadline) == (0, 0.5)


@pytest.mark.parametrize(
    ("level", "first"), [(1, ["two/m", "one/m"]), (2, ["small/m", "one/m", "two/m"])]
)
def test_a_missed_objective_moves_new_conversations_down_its_ladder(level, first):
    router = objective_router()
    router.snapshots = {"chat-ttft": degraded_snapshot(level)}
    decision = decide(router)

    assert names(decision) == first
    assert decision.level == level
    assert decision.choices[0].reroute_reason == f"chat-ttft: fallback level {level}"


def test_a_share_of_conversations_tries_the_requested_model():
    router = objective_router()
    router.snapshots = {"chat-ttft": degraded_snapshot(2, share=0.2)}
    levels = [decide(router, chat({**USER, "content": str(n)})).level for n in range(1000)]

    assert levels.count(0) == pytest.approx(200, abs=60)


def test_a_conversation_keeps_the_level_it_began_on():
    router = objective_router()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    assert decide(router).level == 2
    router.snapshots = {}
    assert decide(router, chat(USER, ANSWER, USER)).level == 2
    other = {**USER, "content": "Other"}
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    assert decide(router, chat(other, ANSWER, USER)).level == 0


def test_a_first_message_that_is_always_the_same_keeps_no_conversation_down():
    router = objective_router()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    decide(router)
    router.snapshots = {}
    assert decide(router, chat(USER)).level == 0

    assert decide(router, chat(USER, ANSWER, USER)).level == 0
    assert not router._levels


def test_levels_of_silent_conversations_are_forgotten():
    router = objective_router()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    decide(router)
    router.forget(START + 3599)
    assert len(router._levels) == 1
    router.forget(START + 3601)
    assert not router._levels


def test_conversations_on_a_failing_route_are_rerouted_midway_and_stay_there():
    router = objective_router(objective(metric=Metric.ERRORS, under=None))
    follow = chat(USER, ANSWER, USER)
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    assert decide(router, follow).level == 2
    router.snapshots = {}
    assert decide(router, chat(USER, ANSWER, USER)).level == 2


def test_a_conversation_keeps_to_the_ladder_that_moved_it():
    router = objective_router(objective(name="a", ladder=("elsewhere",)), objective(name="b"))
    router.snapshots = {"b": degraded_snapshot(2), "a": degraded_snapshot(1)}
    assert names(decide(router))[0] == "small/m"
    assert names(decide(router, chat(USER, ANSWER, USER)))[0] == "small/m"


def test_the_highest_level_counts():
    router = objective_router(objective(name="a"), objective(name="b"))
    router.snapshots = {"a": degraded_snapshot(1), "b": degraded_snapshot(2)}

    assert decide(router).choices[0].reroute_reason == "b: fallback level 2"


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function"}]},
        {"response_format": {"type": "json_schema"}},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"max_tokens": 50_000},
        {"user": "x" * 500_000},
    ],
)
def test_a_call_that_the_fallback_cannot_answer_keeps_its_model(fields):
    router = objective_router(objective(ladder=("small",)))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    decision = decide(router, chat(**fields))

    assert names(decision) == ["one/m", "two/m"]
    assert decision.level == 0
    assert not router._levels


@pytest.mark.parametrize("level", [0, 1])
def test_a_model_that_cannot_take_a_call_is_named_with_the_reason(level):
    router = objective_router(objective(ladder=("small",)))
    router.snapshots = {"chat-ttft": degraded_snapshot(level)} if level else {}

    assert decide(router, chat(web_search_options={})).skipped == {
        "small": "It cannot search the web by itself (web_search_options)."
    }
    assert decide(router, chat(max_tokens=5)).skipped == {}


def test_a_call_bound_to_a_region_stays_in_it():
    here = route("eu")
    bound = replace(here, upstream=replace(here.upstream, region="eu"))
    eu_catalog = replace(
        CATALOG, models={**CATALOG.models, "m": replace(CATALOG.models["m"], routes=(bound,))}
    )
    router = objective_router(objective(ladder=("small",)), keys=eu_catalog)
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}

    assert names(decide(router, keys=eu_catalog)) == ["eu/m"]


def test_a_call_that_continues_provider_state_is_not_rerouted():
    router = objective_router(objective(metric=Metric.ERRORS, under=None))
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    body = b'{"model":"m","input":"x","stream":true,"previous_response_id":"resp_1"}'
    continued = call(body, "responses", id="kept")

    assert decide(router, continued) == RoutingDecision(
        choices=requested_routes(continued, CATALOG)
    )
    router.record_receipt(receipt(continued))
    assert counts_by_arm(router) == {"chat-ttft#0": (1, 0)}


def test_a_fallback_level_that_the_catalog_does_not_know_is_skipped():
    router = objective_router(objective(ladder=("elsewhere", "gone")))
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}

    assert decide(router).level == 1
    assert names(decide(objective_router(objective(ladder=("gone",))))) == ["one/m", "two/m"]


def test_level_elsewhere_needs_another_route():
    one = replace(CATALOG.models["m"], routes=CATALOG.models["m"].routes[:1])
    one_route_catalog = replace(CATALOG, models={**CATALOG.models, "m": one})
    router = objective_router(objective(ladder=("elsewhere",)), keys=one_route_catalog)
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}

    assert decide(router, keys=one_route_catalog).level == 0


def test_a_call_that_asks_for_the_fallback_model_gets_it():
    router = objective_router(objective(ladder=("small",)))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}

    decision = decide(router, chat(model="small"))

    assert decision.choices == requested_routes(chat(model="small"), CATALOG)
    assert decision.level == 0


@pytest.mark.parametrize("ladder", [("shed",), ("cache-only",)])
def test_a_shed_call_is_refused_with_a_retry_after(ladder):
    router = objective_router(objective(ladder=ladder, enforce=Enforce.SHED))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    with refusing(429) as caught:
        decide(router)

    assert (caught.value.status, caught.value.code) == (429, "objective_shed")
    assert caught.value.retry_after == 30.0
    assert router.rerouted == {("chat-ttft", ladder[0]): 1}
    assert router._open == {}


def test_conversations_under_way_are_served_while_new_ones_are_shed():
    router = objective_router(objective(ladder=("shed",), enforce=Enforce.SHED))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}

    assert names(decide(router, chat(USER, ANSWER, USER))) == ["one/m", "two/m"]


def test_a_conversation_under_way_goes_to_another_model_only_where_its_own_fails():
    decision = decide(objective_router(), chat(USER, ANSWER, USER))

    assert [choice.is_last_resort for choice in decision.choices] == [False, False, True]


def test_an_unenforced_objective_counts_and_reroutes_no_call():
    router = objective_router(objective(enforce=Enforce.ALERT))
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}

    assert decide(router) == RoutingDecision(choices=requested_routes(chat(), CATALOG))
    assert router.not_enforced == {("chat-ttft", "small"): 1}
    assert not router._levels


def test_the_strictest_deadline_of_streams_holds():
    router = objective_router(objective(name="a", under=2.0), objective(name="b", under=1.0))

    assert decide(router).deadline == 1.0
    assert decide(router, chat(stream=False)).deadline is None


def test_a_call_that_no_objective_matches_is_not_rerouted():
    router = objective_router(
        objective(feature="other"), objective(name="whole", calls=RequestKind.WHOLE)
    )

    assert decide(router) == RoutingDecision(choices=requested_routes(chat(), CATALOG))
    assert router._open == {}
    router.record_receipt(receipt(chat()))
    assert counts_by_arm(router) == {}


def test_a_call_that_generates_nothing_is_not_rerouted():
    router, listed = objective_router(), call(b"{}", "models", id="listed")

    assert decide(router, listed) == RoutingDecision(choices=requested_routes(listed, CATALOG))
    assert router._open == {}


def test_an_answer_that_is_kept_already_needs_no_other_route():
    router = objective_router(objective(metric=Metric.ERRORS, under=None, ladder=("cache-only",)))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    decision = decide(router, chat(USER, ANSWER, USER))

    assert (names(decision), decision.level) == (["one/m", "two/m"], 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),  # what is said first
            st.booleans(),  # whether something was answered before
            st.integers(0, 3),
            st.integers(0, 3),
            st.sampled_from([0.0, 0.3, 1.0]),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_a_rerouted_call_is_on_the_ladder_and_counted_once(steps):
    router = objective_router(
        objective(name="a"), objective(name="b", metric=Metric.ERRORS, under=None)
    )
    for first, goes_on, one, two, share, ends in steps:
        router.snapshots = {"a": degraded_snapshot(one, share), "b": degraded_snapshot(two, share)}
        message = {"role": "user", "content": first}
        asking = chat(message, *((ANSWER, USER) if goes_on else ()))
        decision = decide(router, asking)
        assert 0 <= decision.level <= 2
        assert len({choice.route.name for choice in decision.choices}) == len(decision.choices)
        assert {"one/m", "two/m"} <= {choice.route.name for choice in decision.choices}
        assert isinstance(decision.choices[0], RouteChoice)
        if ends:
            before = sum(map(sum, router.totals.values()))
            router.record_receipt(receipt(asking))
            assert sum(map(sum, router.totals.values())) == before + 2
    assert len(router._open) == sum(not ends for *_, ends in steps)
    assert len(router._levels) <= 3


def at_a_part_of_the_price(part: int) -> Any:
    """The catalog, where the small model's prices are so many times lower."""
    read, asked_, output = RATES.cache_read or 0, RATES.input or 0, RATES.output or 0
    rates = TokenRates(input=asked_ // part, cache_read=read // part, output=output // part)
    tariff = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))
    small = CATALOG.models["small"]
    routes = tuple(replace(small_route, tariff=tariff) for small_route in small.routes)
    return replace(CATALOG, models={**CATALOG.models, "small": replace(small, routes=routes)})


@pytest.mark.parametrize(("part", "level"), [(1, 0), (2, 0), (20, 1)])
def test_a_conversation_that_costs_too_much_moves_midway_only_where_that_saves_money(part, level):
    priced = at_a_part_of_the_price(part)
    router = objective_router(
        objective(metric=Metric.COST, under=None, under_nanos=1000, ladder=("small",)), keys=priced
    )
    router.snapshots["chat-ttft"] = degraded_snapshot(1)
    long = {"role": "user", "content": "word " * 10_000}

    assert decide(router, chat(long, ANSWER, USER), priced).level == level
    assert decide(router, chat(), priced).level == 1


@pytest.mark.parametrize("ladder", [("small",), ("elsewhere",)])
def test_a_call_that_fell_back_returns_where_its_level_fails_or_what_it_left_recovered(ladder):
    router = objective_router(objective(ladder=ladder))
    router.snapshots["chat-ttft"] = degraded_snapshot(1)
    decision = decide(router)

    assert [choice.is_suspect for choice in decision.choices if not choice.reroute_reason]
    assert all(choice.is_suspect for choice in decision.choices if not choice.reroute_reason)
    assert not decision.choices[0].is_suspect


def test_a_conversation_on_a_fallback_model_returns_only_where_that_fails():
    router = objective_router(objective(metric=Metric.ERRORS, under=None, ladder=("small",)))
    router.snapshots["chat-ttft"] = degraded_snapshot(1)
    decision = decide(router, chat(USER, ANSWER, USER))

    assert decision.level == 1
    assert [choice.is_last_resort for choice in decision.choices if not choice.reroute_reason]
    assert all(choice.is_last_resort for choice in decision.choices if not choice.reroute_reason)


def test_a_call_under_way_is_judged_by_the_objective_as_it_is_when_it_ends():
    router, asking = objective_router(objective(), objective(name="gone")), chat()
    decide(router, asking)
    router.update(tracks(objective(under=0.001, ladder=())), CATALOG)
    router.record_receipt(receipt(asking))

    assert router.totals == {"chat-ttft": (0, 1)}


def test_the_latency_target_of_a_call_is_that_of_the_objectives_that_it_counts_in() -> None:
    router = objective_router(
        objective(name="fast", team="acme"),
        objective(name="other", under=0.1, team="someone-else"),
    )
    target = router.latency_target(chat())

    assert target is not None
    assert (target.objective, target.ttft) == ("fast", 0.5)
    elsewhere = objective_router(objective(team="someone-else"))
    assert elsewhere.latency_target(chat()) is None


def test_elsewhere_leaves_out_the_replica_whose_calls_were_late_and_not_the_first():
    routes = [
        replace(model_route, upstream=replace(model_route.upstream, engine="house"))
        for model_route in CATALOG.models["m"].routes
    ]
    model = replace(CATALOG.models["m"], routes=tuple(routes))
    engine_catalog = replace(CATALOG, models={**CATALOG.models, "m": model})
    router = objective_router(objective(ladder=("elsewhere",)), keys=engine_catalog)
    for _ in range(10):
        for name, ttft in (("one/m", 0.1), ("two/m", 5.0)):
            asking = chat()
            decide(router, asking, engine_catalog)
            router.record_receipt(receipt(asking, route=name, ttft=ttft))
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}

    decision = decide(router, chat(), engine_catalog)

    assert names(decision) == ["one/m", "two/m"]
    assert [choice.is_suspect for choice in decision.choices] == [False, True]
    assert decision.level == 1
