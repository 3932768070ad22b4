from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.reports import SpendFilter, tag_part
from dashboards.views.calls import CallSort, CallsView
from proxy.records.receipt import IDLE_TEAM, Outcome, Receipt, ServedBy, total_nanos
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.calls import (
    _STEPS,
    _TEXT_STEPS,
    CallSearch,
    call_row,
    calls_count,
    calls_view,
)
from proxy.store.sql.views.readers import Readers
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt

UNTIL = START + 10**6
UNPAID = {"cost_nanos": None, "usage": None, "ttft": None, "outcome": Outcome.FAILED}
TAGS = (("customer", "a'c"), ("a-b.c", "é"))


def a_call(n: int, **changes) -> Receipt:
    return a_receipt(n, call_id=f"{id_floor(START + n)[:-6]}{n:06x}", **changes)


def search(**changes) -> CallSearch:
    return CallSearch(**({"since": START - 10, "until": UNTIL} | changes))


def call_ids(page: CallsView) -> list[str]:
    return [row.call_id for row in page.calls]


def test_pages_follow_each_other_without_gap_or_repetition(engine: Engine) -> None:
    calls = [a_call(n) for n in range(25)]
    inserter(engine)(calls)
    readers, ids, after = Readers(engine), list[str](), ""
    for _ in range(4):
        page = calls_view(readers, search(after=after, limit=8))
        ids += call_ids(page)
        after = page.next or ""
    assert ids == [call.call_id for call in reversed(calls)]
    assert after == ""


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"outcome": "refused"}, [2]),
        ({"miss": "*"}, [4, 3]),
        ({"miss": "expired"}, [3]),
        ({"is_rerouted": True}, [1]),
        ({"min_cost_nanos": 900}, [5]),
        ({"is_unpriced": True}, [6]),
        ({"error": "upstream_timeout"}, [7]),
        ({"status": 504}, [7]),
        ({"served_by": "cache"}, [4]),
        ({"min_duration": 30.0}, [5]),
        ({"min_ttft": 2.0}, [3]),
        ({"only": SpendFilter(values={"model": frozenset({"m"})})}, [1]),
        ({"only": SpendFilter(values={"user": frozenset({"u"}), "key": frozenset({"k"})})}, [5]),
        ({"only": SpendFilter(values={tag_part("customer"): frozenset({"a'c"})})}, [2]),
        ({"only": SpendFilter(values={tag_part("a-b.c"): frozenset({"é"})})}, [2]),
        ({"only": SpendFilter(values={tag_part("customer"): frozenset({""})})}, [7, 6, 5, 4, 3, 1]),
        ({"since": START + 5}, [7, 6, 5]),
        ({"until": START + 2, "since": START}, [1]),
    ],
)
def test_a_filter_leaves_the_calls_that_are_wanted(engine: Engine, wanted, numbers) -> None:
    calls = {
        1: a_call(1, cost_nanos=1, route="lab/m", reroute_reason="why"),
        2: a_call(2, cost_nanos=1, outcome=Outcome.REFUSED, tags=TAGS),
        3: a_call(3, cost_nanos=1, miss="expired", conversation="ab", ttft=2.0),
        4: a_call(4, cost_nanos=1, miss="diverged", conversation="ab", served_by=ServedBy.CACHE),
        5: a_call(5, cost_nanos=900, user="u", key_id="k", duration=30.0),
        6: a_call(6, cost_nanos=None, started=START - 20),
        7: a_call(
            7,
            cost_nanos=None,
            usage=None,
            outcome=Outcome.FAILED,
            error="upstream_timeout",
            status=504,
            started=START - 20,
        ),
    }
    inserter(engine)(list(calls.values()))

    page = calls_view(Readers(engine), search(**wanted))
    assert call_ids(page) == [calls[n].call_id for n in numbers]


def test_attempts_and_idle_time_are_no_calls_and_other_teams_are_not_seen(engine: Engine) -> None:
    mine = a_call(1, team="a")
    inserter(engine)(
        [
            mine,
            a_call(2, team="a", final=False),
            a_call(3, team=IDLE_TEAM),
            a_call(4, team="b"),
        ]
    )
    readers, only = Readers(engine), SpendFilter(teams=frozenset({"a", IDLE_TEAM}))

    assert call_ids(calls_view(readers, search(only=only))) == [mine.call_id]
    assert calls_view(readers, search(only=SpendFilter(teams=frozenset()))).calls == []


def test_a_page_looks_at_so_many_calls_and_goes_on_from_there(sqlite_engine: Engine) -> None:
    rare = a_call(0, feature="rare")
    others = (a_call(n, feature="x") for n in range(1, sum(_STEPS) + 10))
    inserter(sqlite_engine)([rare, *others])
    only = SpendFilter(values={"feature": frozenset({"rare"})})
    readers = Readers(sqlite_engine)
    first = calls_view(readers, search(only=only))
    second = calls_view(readers, search(only=only, after=first.next or ""))

    assert (first.calls, first.searched_from) == ([], START + 10)
    assert (call_ids(second), second.next) == ([rare.call_id], None)


def test_a_row_says_who_asked_for_what_and_who_answered() -> None:
    receipt = a_receipt(1, team="t", model="big", route="lab/small", attempt=2)
    row = call_row(receipt, 7, {"t": "Team"})

    assert (row.team, row.team_name, row.attempts) == ("t", "Team", 3)
    assert (row.requested, row.model, row.cost_nanos) == ("big", "small", 7)


@pytest.mark.parametrize(
    ("attempts", "total"),
    [
        ([{"cost_nanos": 7}, {"cost_nanos": 2}], 9),
        ([UNPAID, {"cost_nanos": 2}], 2),
        ([UNPAID], 0),
        ([{"cost_nanos": None}, {"cost_nanos": 2}], None),
    ],
)
def test_the_cost_of_a_call_is_that_of_all_its_attempts(
    engine: Engine, attempts: list[dict[str, Any]], total: int | None
) -> None:
    last = len(attempts) - 1
    receipts = [a_call(1, attempt=n, final=n == last, **each) for n, each in enumerate(attempts)]
    inserter(engine)(receipts)
    readers = Readers(engine)

    for sort in ("time", "cost"):
        assert [row.cost_nanos for row in calls_view(readers, search(sort=sort)).calls] == [total]
    assert total == total_nanos(receipt.spent_nanos for receipt in receipts)
    dear = calls_view(readers, search(min_cost_nanos=9)).calls
    assert len(dear) == (total == 9)
    assert len(calls_view(readers, search(is_unpriced=True)).calls) == (total is None)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"status": 429}, [1]),
        ({"error": "rate_limit_exceeded"}, [1]),
        ({"error": "rate_limit_exceeded", "failed_route": "lab/big"}, [1]),
        ({"error": "rate_limit_exceeded", "failed_route": "lab/small"}, []),
        ({"failed_route": "lab/small"}, [2]),
        ({"ended_with": "rate_limit_exceeded"}, []),
        ({"ended_with": "failed"}, [2]),
        ({"error": "failed"}, [2]),
        ({"outcome": "error"}, [3, 2]),
        ({"outcome": "error", "ended_with": "cut"}, [3]),
        ({"outcome": "refused"}, [4]),
    ],
)
def test_calls_are_found_by_an_error_that_any_attempt_met_and_by_the_one_they_ended_with(
    engine: Engine, wanted: dict[str, Any], numbers: list[int]
) -> None:
    limited = {"outcome": Outcome.FAILED, "error": "rate_limit_exceeded", "status": 429}
    inserter(engine)(
        [
            a_call(1, route="lab/big", final=False, **limited),
            a_call(1, route="lab/small", attempt=1),
            a_call(2, route="lab/small", outcome=Outcome.FAILED, status=502),
            a_call(3, outcome=Outcome.BROKEN, error="cut"),
            a_call(4, outcome=Outcome.REFUSED, error="budget_exceeded"),
        ]
    )

    page = calls_view(Readers(engine), search(**wanted))
    assert [int(call_id[-6:], 16) for call_id in call_ids(page)] == numbers
    with read_transaction(engine) as connection:
        assert calls_count(connection, search(**wanted)) == len(numbers)


def test_calls_are_sorted_by_what_they_have_most_of_and_the_unknown_comes_last(
    engine: Engine,
) -> None:
    few, much = Usage(input=1, output=9), Usage(cache_read=5, write_1h=5, output=1, reasoning=1)
    calls = [
        a_call(1, cost_nanos=5, duration=1.0, ttft=0.1, usage=few),
        a_call(2, cost_nanos=None, duration=2.0, ttft=None, usage=None),
        a_call(3, cost_nanos=9, duration=0.5, ttft=0.2, usage=much),
    ]
    inserter(engine)(calls)
    orders: dict[CallSort, list[int]] = {
        "cost": [3, 1, 2], "duration": [2, 1, 3], "ttft": [3, 1, 2], "prompt": [3, 1, 2],
        "answer": [1, 3, 2],
    }  # fmt: skip
    for sort, numbers in orders.items():
        page = calls_view(Readers(engine), search(sort=sort))
        assert call_ids(page) == [calls[n - 1].call_id for n in numbers], sort
        assert (page.next, page.is_cut) == (None, False)
    assert len(calls_view(Readers(engine), search(sort="cost", limit=2)).calls) == 2


def test_a_call_is_found_by_the_beginning_of_its_id_in_any_period(engine: Engine) -> None:
    mine, other = a_call(1, team="a"), a_call(2, team="b")
    inserter(engine)([mine, other])
    readers, only = Readers(engine), SpendFilter(teams=frozenset({"a"}))
    by_start = search(since=0.0, until=1.0, id_start=mine.call_id[:17], only=only)

    assert call_ids(calls_view(readers, by_start)) == [mine.call_id]
    assert calls_view(readers, search(id_start=other.call_id, only=only)).calls == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Refund", [2, 1]),
        ("été", [1]),
        ("100 %", [1]),
        ("100_%", []),
        ('"quoted"', [2]),
        ("req_1", [3]),
        ("chatcmpl-4", [4]),
        ("chatcmpl", []),
        ("secret of b", []),
    ],
)
def test_a_text_is_looked_for_in_kept_prompts_and_in_providers_ids(
    engine: Engine, text: str, numbers: list[int]
) -> None:
    named = {"team": "a"}
    calls = {
        1: a_call(
            1, **named, prompt='{"content":"a REFUND of 100 %, l\\u00e9t\\u00e9: \\u00e9t\\u00e9"}'
        ),
        2: a_call(2, **named, prompt='{"content":"no refund: \\"quoted\\""}'),
        3: a_call(3, **named),
        4: a_call(4, **named, upstream_id="chatcmpl-4"),
    }
    failed = a_call(3, **named, attempt=1, final=False, upstream_request_id="req_1")
    inserter(engine)([*calls.values(), failed, a_call(5, team="b", prompt="secret of b, refund")])
    only = SpendFilter(teams=frozenset({"a"}))
    page = calls_view(Readers(engine), search(text=text, only=only))

    assert call_ids(page) == [calls[n].call_id for n in numbers]
    assert (page.searched_prompts, page.is_cut) == (2, False)


def test_a_search_for_a_text_goes_on_where_the_page_before_ended(sqlite_engine: Engine) -> None:
    old = a_call(0, prompt="needle")
    inserter(sqlite_engine)(
        [old, *(a_call(n, prompt="hay") for n in range(1, sum(_TEXT_STEPS) + 5))]
    )
    readers, page, pages = Readers(sqlite_engine), None, 0
    while page is None or not page.calls:
        page = calls_view(readers, search(text="needle", after=(page and page.next) or ""))
        pages += 1
        assert page.searched_prompts

    assert pages > 1
    assert call_ids(page) == [old.call_id]


def test_the_calls_that_a_text_finds_are_sorted_over_all_steps(engine: Engine) -> None:
    costs = {0: 7, 30: None, 60: 9, 130: 8, 140: 1}
    inserter(engine)(
        [
            a_call(n, prompt="needle" if n in costs else "hay", cost_nanos=costs.get(n, 99))
            for n in range(150)
        ]
    )
    page = calls_view(Readers(engine), search(text="needle", sort="cost", limit=4))

    assert [row.cost_nanos for row in page.calls] == [9, 8, 7, 1]
    assert (page.searched_prompts, page.is_cut, page.next) == (150, False, None)


def test_a_sorted_search_for_a_text_has_the_bounds_of_one_by_time(sqlite_engine: Engine) -> None:
    inserter(sqlite_engine)([a_call(n, prompt="hay") for n in range(sum(_TEXT_STEPS) + 5)])
    page = calls_view(Readers(sqlite_engine), search(text="needle", sort="cost"))

    assert (page.calls, page.is_cut) == ([], True)
    assert 0 < (page.searched_prompts or 0) <= sum(_TEXT_STEPS)
