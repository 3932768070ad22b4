from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.records.receipt import Outcome
from proxy.store.sql.views.savings_sums import SavingsReader
from proxy.store.sql.views.spend_series import SpendSeries, SpendSplit
from slo.usage import Usage
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

DAY = 86_400
FIRST = int(START) // DAY * DAY
ONE_TEAM = SpendFilter(teams=frozenset({"a"}))


@pytest.fixture(params=MERGED_PARTS)
def reader(engine: Engine, request: pytest.FixtureRequest) -> SavingsReader:
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
    return SavingsReader(engine)


def test_places_are_summed_apart_and_only_of_teams_that_may_be_seen(
    reader: SavingsReader,
) -> None:
    every = reader.sums_by_place(FIRST, FIRST + DAY, ALL_CALLS).places
    mine = reader.sums_by_place(FIRST, FIRST + DAY, ONE_TEAM).places

    assert {place[:2] for place in every} == {("a", "x"), ("b", "y")}
    assert mine == {place: sums for place, sums in every.items() if place[0] == "a"}
    assert sorted((each.planning_nanos, each.planned_cost_nanos) for each in mine.values()) == [
        (0, 0),
        (5, 9),
    ]


def test_replies_of_another_model_are_found_by_the_model_asked_for(reader: SavingsReader) -> None:
    (found,) = reader.sums_by_place(FIRST, FIRST + DAY, ONE_TEAM).rerouted

    assert found.place == ("a", "x", "big", "lab/small")
    assert (found.calls, found.list_nanos) == (1, 2)
    assert found.usage == Usage(input=4)


@pytest.mark.parametrize(
    ("changes", "usage", "routing_nanos"),
    [
        ({"outcome": Outcome.FAILED, "final": False}, Usage(), -7),
        ({"outcome": Outcome.FAILED}, Usage(), 0),
        ({"outcome": Outcome.HUNG_UP, "ttft": None}, Usage(), 0),
        ({"outcome": Outcome.HUNG_UP, "ttft": 0.1}, Usage(input=9), 0),
        ({"outcome": Outcome.BROKEN}, Usage(), 0),
        ({"outcome": Outcome.FAILED, "final": False, "compaction_why": "notes"}, Usage(input=9), 0),
    ],
)
def test_only_attempts_that_answered_count_as_replies_of_another_model(
    engine: Engine, changes: dict[str, Any], usage: Usage, routing_nanos: int
) -> None:
    rerouted: dict[str, Any] = {"team": "a", "feature": "x", "model": "big", "route": "lab/small"}
    book(engine, [a_receipt(1, **rerouted, usage=Usage(input=9), list_nanos=7, **changes)], 0.5)
    sums = SavingsReader(engine).sums_by_place(FIRST, FIRST + DAY, ONE_TEAM)

    assert [each.usage for each in sums.rerouted] == [usage] * (usage != Usage())
    assert [each.routing_nanos for each in sums.places.values()] == [routing_nanos]


def test_a_lost_attempt_of_the_model_asked_for_costs_extra(engine: Engine) -> None:
    lost = {"outcome": Outcome.FAILED, "final": False, "attempt": 0, "list_nanos": 7}
    answered = {"attempt": 1, "list_nanos": 9}
    same = {"team": "a", "feature": "x", "model": "small", "route": "lab/small"}
    book(engine, [a_receipt(1, **(same | each)) for each in (lost, answered)], 0.5)
    (sums,) = SavingsReader(engine).sums_by_place(FIRST, FIRST + DAY, ONE_TEAM).places.values()
    later = SavingsReader(engine).sums_by_place(FIRST + DAY, FIRST + 2 * DAY, ONE_TEAM)

    assert (sums.routing_nanos, sums.list_nanos) == (-7, 16)
    assert later.places == {}


def test_calls_are_counted_by_the_model_asked_for_and_the_route(reader: SavingsReader) -> None:
    places = reader.sums_by_place(FIRST, FIRST + DAY, ONE_TEAM).places

    assert sorted(each.calls for each in places.values()) == [1, 1]
    assert places["a", "x", "big", "lab/small"].calls == 1


def test_misses_are_those_of_the_days_and_teams(reader: SavingsReader) -> None:
    every = reader.misses(FIRST, FIRST + DAY, ALL_CALLS, limit=9)

    assert [(each.team, each.tokens, each.nanos) for each in every] == [("a", 7, 3), ("b", 1, 0)]
    assert [each.team for each in reader.misses(FIRST, FIRST + 1, ONE_TEAM, limit=9)] == ["a"]
    assert reader.misses(FIRST + DAY, FIRST + 2 * DAY, ALL_CALLS, limit=9) == []


def test_misses_are_the_dearest_of_the_reasons_that_count(reader: SavingsReader) -> None:
    every = reader.misses(FIRST, FIRST + DAY, ALL_CALLS, limit=1, reasons=["expired"])

    assert [each.team for each in every] == ["a"]
    assert reader.misses(FIRST, FIRST + DAY, ALL_CALLS, limit=9, reasons=["diverged"]) == []


def test_reasons_for_misses_are_summed_over_all_features(reader: SavingsReader) -> None:
    (every,) = reader.misses_by_reason(FIRST, FIRST + DAY, ALL_CALLS)
    (mine,) = reader.misses_by_reason(FIRST, FIRST + DAY, ONE_TEAM)

    assert (every.reason, every.attempts, every.tokens, every.nanos) == ("expired", 2, 8, 3)
    assert (mine.attempts, mine.tokens, mine.team, mine.feature) == (1, 7, "", "")


def test_places_add_up_to_what_was_spent(reader: SavingsReader, engine: Engine) -> None:
    (spent,) = SpendSeries(engine).spend_by_bucket((FIRST, FIRST + DAY), SpendSplit())
    places = reader.sums_by_place(FIRST, FIRST + DAY, ALL_CALLS).places

    assert sum(each.cost_nanos for each in places.values()) == spent.sums.priced_nanos > 0
