from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter
from dashboards.savings_headline import SavingsSums
from proxy.records.receipt import Outcome, ServedBy
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.spend_sums import costs_by_bucket
from proxy.store.sql.views.savings_sums import ReroutedUsage, SavingsPlace, sums_by_place
from slo.usage import Usage
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

DAY = 86_400
FIRST = int(START) // DAY * DAY
ONE_TEAM = SpendFilter(teams=frozenset({"a"}))


@pytest.fixture(params=MERGED_PARTS)
def ledger(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    missed = {"conversation": "ab", "miss": "expired"}
    book(
        engine,
        [
            a_receipt(1, team="a", feature="x", planning_nanos=5, cost_nanos=9, **missed,
                      miss_tokens=7, miss_nanos=3),
            a_receipt(2, team="a", feature="x", model="big", route="lab/small",
                      usage=Usage(input=4), list_nanos=2),
            a_receipt(3, team="b", feature="y", **missed, miss_tokens=1),
            a_receipt(4, team="b", feature="y", model="big", route="lab/small", list_nanos=None),
        ],
        request.param,
    )  # fmt: skip
    return engine


def sums(
    engine: Engine, first: int = FIRST, only: SpendFilter = ALL_CALLS
) -> tuple[dict[SavingsPlace, SavingsSums], list[ReroutedUsage]]:
    """The sums of a day by place, and usage that another model answered."""
    with read_transaction(engine, is_snapshot=True) as connection:
        return sums_by_place(connection, (first, first + DAY), only)


def test_places_are_summed_apart_and_only_of_teams_that_may_be_seen(ledger: Engine) -> None:
    every, _ = sums(ledger)
    mine, _ = sums(ledger, only=ONE_TEAM)

    assert {place[:2] for place in every} == {("a", "x"), ("b", "y")}
    assert mine == {place: one for place, one in every.items() if place[0] == "a"}
    assert sorted(
        (saving.planning_nanos, saving.planned_cost_nanos) for saving in mine.values()
    ) == [
        (0, 0),
        (5, 9),
    ]


def test_replies_of_another_model_are_found_by_the_model_asked_for(ledger: Engine) -> None:
    _, (rerouted,) = sums(ledger, only=ONE_TEAM)

    assert rerouted.place == ("a", "x", "big", "lab/small")
    assert (rerouted.calls, rerouted.list_nanos) == (1, 2)
    assert rerouted.usage == Usage(input=4)


@pytest.mark.parametrize(
    ("changes", "usage", "routing_nanos"),
    [
        ({"outcome": Outcome.FAILED, "final": False}, Usage(), -7),
        ({"outcome": Outcome.FAILED}, Usage(), 0),
        ({"outcome": Outcome.HUNG_UP, "ttft": None}, Usage(), 0),
        ({"outcome": Outcome.HUNG_UP, "ttft": 0.1}, Usage(input=9), 0),
        ({"outcome": Outcome.BROKEN}, Usage(), 0),
    ],
)
def test_only_attempts_that_answered_count_as_replies_of_another_model(
    engine: Engine, changes: dict[str, Any], usage: Usage, routing_nanos: int
) -> None:
    place: dict[str, Any] = {"team": "a", "feature": "x", "model": "big", "route": "lab/small"}
    book(engine, [a_receipt(1, **place, usage=Usage(input=9), list_nanos=7, **changes)], 0.5)
    places, rerouted = sums(engine)

    assert [one.usage for one in rerouted] == [usage] * (usage != Usage())
    assert [one.routing_nanos for one in places.values()] == [routing_nanos]


def test_a_lost_attempt_of_the_model_asked_for_costs_extra(engine: Engine) -> None:
    lost = {"outcome": Outcome.FAILED, "final": False, "attempt": 0, "list_nanos": 7}
    answered = {"attempt": 1, "list_nanos": 9}
    same = {"team": "a", "feature": "x", "model": "small", "route": "lab/small"}
    book(engine, [a_receipt(1, **(same | attempt)) for attempt in (lost, answered)], 0.5)
    (place,) = sums(engine)[0].values()

    assert (place.routing_nanos, place.list_nanos) == (-7, 16)
    assert sums(engine, FIRST + DAY) == ({}, [])


PLACE: dict[str, Any] = {"team": "a", "feature": "x", "model": "big", "route": "lab/small"}


def test_a_small_models_answer_counts_as_fast_path_alone(engine: Engine) -> None:
    fast = a_receipt(
        1, **PLACE, usage=Usage(input=9), list_nanos=8, cost_nanos=6,
        served_by=ServedBy.SMALL, fast_path_nanos=50,
    )  # fmt: skip
    other = a_receipt(2, **PLACE, usage=Usage(input=4), list_nanos=2)
    book(engine, [fast, other], 0.5)
    places, (rerouted,) = sums(engine)
    (place,) = places.values()

    assert (place.small_nanos, place.routing_nanos, place.fast_path_discount_nanos) == (50, 0, 2)
    assert (rerouted.calls, rerouted.list_nanos, rerouted.usage) == (1, 2, Usage(input=4))


def test_a_small_answer_that_failed_a_check_is_subtracted_once(engine: Engine) -> None:
    rejected = a_receipt(
        1, **PLACE, final=False, outcome=Outcome.FAILED, list_nanos=7, cost_nanos=7,
        served_by=ServedBy.SMALL, fast_path_nanos=-7,
    )  # fmt: skip
    large = {"route": "lab/big", "attempt": 1, "list_nanos": 9, "cost_nanos": 9}
    answer = a_receipt(1, **PLACE | large, served_by=ServedBy.LARGE)
    book(engine, [rejected, answer], 0.5)
    places, rerouted = sums(engine)
    total = sum_of(places)

    assert (total.small_nanos, total.routing_nanos, rerouted) == (-7, 0, [])
    assert (total.saved_nanos, total.direct_nanos) == (-7, 9)


def test_comparisons_and_cached_answers_are_told_apart_and_signed(engine: Engine) -> None:
    hit = a_receipt(
        1, **PLACE | {"route": ""}, usage=None, list_nanos=0, cost_nanos=0,
        served_by=ServedBy.CACHE, fast_path_nanos=30,
    )  # fmt: skip
    comparison = a_receipt(2, **PLACE, list_nanos=4, cost_nanos=3, fast_path_nanos=-3)
    book(engine, [hit, comparison], 0.5)
    places, rerouted = sums(engine)
    total = sum_of(places)

    assert (total.cache_nanos, total.checks_nanos, total.saved_nanos) == (30, -3, 27)
    assert (total.direct_nanos, rerouted) == (30, [])
    assert sums(engine, only=SpendFilter(teams=frozenset({"b"}))) == ({}, [])


def test_an_answer_of_unknown_saving_stays_a_reply_of_another_model(engine: Engine) -> None:
    answer = a_receipt(1, **PLACE, usage=Usage(input=9), list_nanos=8, served_by=ServedBy.SMALL)
    book(engine, [answer], 1.0)
    places, (rerouted,) = sums(engine)

    assert sum_of(places).small_nanos == 0
    assert (rerouted.calls, rerouted.list_nanos) == (1, 8)


def sum_of(places: Mapping[SavingsPlace, SavingsSums]) -> SavingsSums:
    """The sum of all places."""
    total = SavingsSums()
    for one in places.values():
        total = total.plus(one)
    return total


def test_calls_are_counted_by_the_model_asked_for_and_the_route(ledger: Engine) -> None:
    places, _ = sums(ledger, only=ONE_TEAM)

    assert sorted(place.calls for place in places.values()) == [1, 1]
    assert places["a", "x", "big", "lab/small"].calls == 1


def test_places_add_up_to_what_was_spent(ledger: Engine) -> None:
    with read_transaction(ledger, is_snapshot=True) as connection:
        (spent,) = costs_by_bucket(connection, (FIRST, FIRST + DAY), ALL_CALLS)

    assert spent
    assert sum(one.cost_nanos for one in sums(ledger)[0].values()) == spent


@pytest.mark.parametrize(
    ("reason", "is_fallback"),
    [
        ("fallback: server_error", True),
        ("chat-ttft: fallback level 1", True),
        ("the ceiling answers of $0.1 a call, and it may cost $0.2", False),
        ("", False),
    ],
)
def test_replies_after_a_failure_or_a_missed_objective_are_fallbacks_and_those_of_ceilings_not(
    engine: Engine, *, reason: str, is_fallback: bool
) -> None:
    usage = Usage(input=9)
    book(engine, [a_receipt(1, **PLACE, usage=usage, list_nanos=8, reroute_reason=reason)], 0.5)
    _, (rerouted,) = sums(engine)

    assert (rerouted.calls, rerouted.usage, rerouted.list_nanos) == (1, usage, 8)
    assert rerouted.is_fallback is is_fallback


def test_a_small_models_answer_is_no_fallback_whatever_its_saving(engine: Engine) -> None:
    small: dict[str, Any] = {
        "reroute_reason": "small: small first", "served_by": ServedBy.SMALL, "list_nanos": 8,
    }  # fmt: skip
    calls = [a_receipt(n, **PLACE | small, fast_path_nanos=(None, 5)[n - 1]) for n in (1, 2)]
    book(engine, calls, 0.5)
    places, (rerouted,) = sums(engine)

    assert (rerouted.calls, rerouted.is_fallback) == (1, False)
    assert sum_of(places).small_nanos == 5
