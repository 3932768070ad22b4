from typing import Any

import msgspec
import pytest

from proxy.records.receipt import Outcome
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.spendings import NamedSpendings, Spending, Spendings, ended_at
from proxy.store.sql.rollups.pending_sums import PendingSums
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt

DAY = START // 86_400 * 86_400
BEFORE = id_floor(START - 86_400)


@pytest.fixture
def spendings(engine):
    teams = [Teams(engine).create(name, now=START).id for name in ("acme", "other")]
    fields = {"usage": Usage(input=1, cache_read=2, write_5m=3, output=4, reasoning=5)}
    inserter(engine)(
        [
            a_receipt(
                n, team=teams[n % 2], feature="ab"[n // 2], key_id="k", cost_nanos=n, **fields
            )
            for n in range(4)
        ]
        + [a_receipt(9, team=teams[0], call_id=BEFORE, started=START - 86_400, **fields)]
    )
    return Spendings(engine)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("organization", {"*": Spending(6, 60)}),
        ("team", {"acme": Spending(2, 30), "other": Spending(4, 30)}),
        ("feature", {"a": Spending(1, 30), "b": Spending(5, 30)}),
        ("key", {"k": Spending(6, 60)}),
        ("user", {}),
    ],
)
def test_usage_in_a_window_is_reported_by_subject(spendings, scope, found):
    assert spendings.from_rollups(scope, DAY, DAY + 86_400) == found


def test_attempts_of_days_are_counted_before_and_after_their_sums_are_merged(spendings, engine):
    days = [(DAY, DAY + 86_400), (DAY - 86_400, DAY), (DAY - 86_400, DAY + 86_400), (0, DAY // 2)]
    counts = [spendings.attempts_of_days(start, end) for start, end in days]
    PendingSums(engine).merge(5)

    assert counts == [spendings.attempts_of_days(start, end) for start, end in days] == [4, 1, 5, 0]


def test_where_nothing_was_used_nothing_is_reported(spendings):
    assert spendings.from_rollups("team", DAY + 86_400, DAY + 2 * 86_400) == {}
    assert spendings.from_rollups("organization", DAY + 86_400, DAY + 2 * 86_400) == {}


def test_calls_without_a_known_price_add_no_cost(engine):
    team = Teams(engine).create("acme", now=START).id
    inserter(engine)([a_receipt(0, team=team, cost_nanos=None, list_nanos=None)])

    assert Spendings(engine).from_rollups("key", DAY, DAY + 86_400)["key_0"].nanos == 0
    assert Spendings(engine).from_receipts("user", DAY, DAY + 86_400).by["5f" * 16].nanos == 0


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("organization", {"*": Spending(6, 60, 4)}),
        ("team", {"acme": Spending(2, 30, 2), "other": Spending(4, 30, 2)}),
        ("feature", {"a": Spending(1, 30, 2), "b": Spending(5, 30, 2)}),
        ("key", {"k": Spending(6, 60, 4)}),
        ("user", {"5f" * 16: Spending(6, 60, 4)}),
        ("label:project", {}),
    ],
)
def test_receipts_know_requests_and_users_too(spendings, scope, found):
    assert spendings.from_receipts(scope, DAY, DAY + 86_400) == NamedSpendings(found, is_whole=True)


def test_receipts_are_reported_to_the_millisecond(spendings):
    assert spendings.from_receipts("key", START, START + 0.999).by["k"].requests == 1
    assert spendings.from_receipts("key", START + 1, START + 3).by == {"k": Spending(3, 30, 2)}
    assert spendings.from_receipts("key", START + 60, START + 120) == NamedSpendings(
        {}, is_whole=True
    )


def test_a_request_is_a_call_that_was_sent_however_many_attempts_it_took(engine):
    first = a_receipt(0)
    inserter(engine)(
        [
            msgspec.structs.replace(first, final=False, outcome=Outcome.FAILED, usage=None),
            msgspec.structs.replace(first, attempt=1, key_id=first.key_id),
            a_receipt(3, outcome=Outcome.REFUSED, usage=None, cost_nanos=None),
            a_receipt(6, outcome=Outcome.HUNG_UP),
        ]
    )

    assert Spendings(engine).from_receipts("key", DAY, DAY + 86_400).by["key_0"].requests == 2


def test_of_more_receipts_than_one_question_reads_the_first_are_reported_and_that_there_are_more(
    spendings, engine
):
    few = Spendings(engine, most_calls=3).from_receipts("key", DAY, DAY + 86_400)

    assert few == NamedSpendings({"k": Spending(3, 45, 3)}, is_whole=False)


@pytest.mark.parametrize(("before", "nanos"), [(START + 2.5, 1), (START + 2.500001, 1 + 2)])
def test_attempts_that_ended_at_a_time_or_later_are_left_out_in_each_query(
    spendings, engine, before, nanos
):
    """The receipts end a second and a half after they began, START + n."""
    for receipts in (
        spendings.from_rollups("organization", DAY, DAY + 86_400, before + 1)["*"],
        spendings.from_receipts("organization", DAY, DAY + 86_400, before + 1).by["*"],
    ):
        assert receipts.nanos == nanos
        assert receipts.tokens == 15 * (2 + (nanos > 1))


def test_a_receipts_end_is_reported_as_the_ledger_has_it():
    receipt = a_receipt(0, started=START + 0.9999996, duration=1.0000004)

    assert ended_at(receipt) == START + 2


def test_usage_before_an_end_is_reported_of_one_snapshot(engine):
    """Calls inserted between the two queries that this takes are in neither."""

    class OvertakenSpendings(Spendings):
        def _calls(self, *args: Any) -> Any:
            inserter(engine)([a_receipt(3, team=team, cost_nanos=7)])
            return super()._calls(*args)

    team = Teams(engine).create("acme", now=START).id
    inserter(engine)([a_receipt(0, team=team, cost_nanos=5)])

    assert (
        OvertakenSpendings(engine).from_rollups("key", DAY, DAY + 86_400, START + 2)["key_0"].nanos
        == 5
    )
    assert Spendings(engine).from_rollups("key", DAY, DAY + 86_400)["key_0"].nanos == 12
