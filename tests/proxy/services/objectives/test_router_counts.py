"""Calls that count in objectives, once and at the level that answered."""

import msgspec
import pytest

from proxy.calls.route_choice import requested_routes
from proxy.records.receipt import Outcome, ServedBy
from slo.objectives.objective import Enforce, Metric, Objective
from slo.usage import Usage
from tests.fakes.objective_calls import (
    CATALOG,
    chat,
    counts_by_arm,
    decide,
    degraded_snapshot,
    objective_router,
    receipt,
)
from tests.fakes.objective_replicas import objective


def test_a_call_counts_once_when_its_last_attempt_ended():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, final=False, outcome=Outcome.FAILED))
    assert counts_by_arm(router) == {}
    router.record_receipt(receipt(asking, attempt=1))
    router.record_receipt(receipt(asking, attempt=1))

    assert counts_by_arm(router) == {"chat-ttft#0": (1, 0)}
    assert router.totals == {"chat-ttft": (1, 0)}
    assert router._open == {}


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"ttft": 0.4}, {"chat-ttft#2": (1, 0)}),
        ({"ttft": 0.6}, {"chat-ttft#2": (0, 1)}),
        ({"outcome": Outcome.REFUSED, "ttft": None}, {}),
        ({"outcome": Outcome.FAILED, "ttft": None, "duration": 0.1}, {}),
    ],
)
def test_a_moved_call_counts_among_those_of_its_level(fields, counts):
    router, asking = objective_router(), chat()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    decision = decide(router, asking)
    first = decision.choices[0]
    router.record_receipt(
        receipt(asking, route=first.route.name, reroute_reason=first.reroute_reason, **fields)
    )

    assert counts_by_arm(router) == counts


def test_a_call_that_its_level_could_not_answer_counts_where_it_was_answered():
    router, asking = objective_router(), chat()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    decide(router, asking)
    router.record_receipt(receipt(asking, attempt=1))

    assert counts_by_arm(router) == {"chat-ttft#0": (1, 0)}
    assert router.rerouted == {}


def test_a_call_that_another_model_answered_in_its_place_counts_there():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(
        receipt(asking, route="small/m", reroute_reason="chat-ttft: in its place", attempt=2)
    )

    assert counts_by_arm(router) == {"chat-ttft#2": (1, 0)}
    assert router.rerouted == {("chat-ttft", "small"): 1}


def test_a_late_call_that_another_model_answered_counts_where_it_was_late():
    router, asking = objective_router(), chat()
    decide(router, asking)
    moved = "chat-ttft: in its place"
    router.record_receipt(
        receipt(asking, route="small/m", reroute_reason=moved, attempt=1, ttft=0.9)
    )

    assert counts_by_arm(router) == {"chat-ttft#0": (0, 1)}


def test_a_late_call_that_left_out_its_silent_level_counts_for_that_level():
    router, asking = objective_router(), chat()
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    decide(router, asking)
    router.record_receipt(receipt(asking, ttft=0.9))

    assert counts_by_arm(router) == {"chat-ttft#2": (0, 1)}


def test_all_attempts_of_a_call_cost_it():
    router, asking = objective_router(dear(150)), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, final=False))
    router.record_receipt(receipt(asking, attempt=1))

    assert router.totals == {"cost": (0, 1)}
    assert router.costs == {"cost": 200}


def dear(max_nanos: int) -> Objective:
    return objective(
        name="cost", metric=Metric.COST, under=None, under_nanos=max_nanos, ladder=(),
        enforce=Enforce.ALERT,
    )  # fmt: skip


@pytest.mark.parametrize("usage", [Usage(input=10, output=2), None])
def test_a_call_of_unknown_cost_says_nothing_of_costs(usage):
    router, asking = objective_router(dear(1)), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, usage=usage, cost_nanos=None))

    assert router.totals == {}


def test_a_level_that_moves_while_a_call_is_open_is_not_the_calls():
    router, asking = objective_router(), chat()
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    first = decide(router, asking).choices[0]
    router.snapshots = {"chat-ttft": degraded_snapshot(2)}
    router.record_receipt(
        receipt(asking, route=first.route.name, reroute_reason=first.reroute_reason)
    )

    assert counts_by_arm(router) == {"chat-ttft#1": (1, 0)}


def test_calls_that_left_no_receipt_are_forgotten_in_the_end():
    router, asking = objective_router(), chat()
    routes = requested_routes(asking, CATALOG)
    router.decide(asking, routes)
    (first,) = router._open.values()
    router._open = {f"c{n}": first for n in range(100_000)}
    router.decide(asking, routes)

    assert len(router._open) == 100_000
    assert "c0" not in router._open
    assert asking.id in router._open


def test_no_more_conversations_are_remembered_than_there_may_be():
    router, asking = objective_router(), chat()
    routes = requested_routes(asking, CATALOG)
    router.snapshots = {"chat-ttft": degraded_snapshot(1)}
    for n in range(50_010):
        router.decide(msgspec.structs.replace(asking, id="c", conversation=f"c{n}"), routes)

    assert len(router._levels) == 50_000


def test_an_answer_given_before_counts_for_the_objective_and_for_no_level_or_route():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(
        receipt(asking, route="", served_by=ServedBy.CACHE, ttft=0.001, cost_nanos=0)
    )

    assert counts_by_arm(router) == {"chat-ttft#kept": (1, 0)}
    assert router.totals == {"chat-ttft": (1, 0)}
    assert router._route_misses._calls == {}


def test_a_shared_answer_that_came_late_is_bad_for_the_objective_alone():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, route="", served_by=ServedBy.CACHE, ttft=0.9))

    assert counts_by_arm(router) == {"chat-ttft#kept": (0, 1)}
    assert router.totals == {"chat-ttft": (0, 1)}


def test_a_small_model_that_is_tried_first_answers_on_level_0_though_the_ladder_names_it():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(
        receipt(
            asking,
            route="small/m",
            served_by=ServedBy.SMALL,
            reroute_reason="chat-ttft: small model first",
        )
    )

    assert counts_by_arm(router) == {"chat-ttft#0": (1, 0)}
    assert router.rerouted == {}


COST = objective(name="cheap", metric=Metric.COST, under_nanos=150, ladder=())


@pytest.mark.parametrize(
    ("first", "counts"),
    [
        ({"served_by": ServedBy.SMALL, "outcome": Outcome.FAILED}, {"cheap#0": (0, 1)}),
        ({"served_by": ServedBy.DRAFT}, {"cheap#0": (0, 1)}),
        ({"served_by": ServedBy.SMALL, "cost_nanos": 20}, {"cheap#0": (1, 0)}),
    ],
)
def test_both_calls_of_a_cascade_or_a_draft_count_in_an_objective_for_costs(first, counts):
    router, asking = objective_router(COST), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, final=False, **first))
    router.record_receipt(receipt(asking, attempt=1, served_by=ServedBy.LARGE))

    assert counts_by_arm(router) == counts


def test_a_late_answer_behind_a_draft_is_blamed_on_the_route_that_answers():
    router, asking = objective_router(), chat()
    decide(router, asking)
    router.record_receipt(receipt(asking, final=False, served_by=ServedBy.DRAFT, route="small/m"))
    router.record_receipt(receipt(asking, ttft=0.9))

    assert list(router._route_misses._calls) == [("chat-ttft", "one/m")]
