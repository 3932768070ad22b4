import pytest
from sqlalchemy import Engine

from dashboards.reports import SpendFilter
from proxy.records.receipt import IDLE_TEAM, Outcome, Receipt
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.call_pages import _CALLS_PER_STEP, _MAX_STEPS, CallPages, CallSearch
from tests.fakes.receipts import START, a_receipt

UNTIL = START + 10**6


def a_call(n: int, **changes) -> Receipt:
    return a_receipt(n, call_id=f"{id_floor(START + n)[:-6]}{n:06x}", **changes)


def search(**changes) -> CallSearch:
    return CallSearch(**({"since": START - 10, "until": UNTIL} | changes))


def test_pages_follow_each_other_without_gap_or_repetition(engine: Engine) -> None:
    calls = [a_call(n) for n in range(25)]
    inserter(engine)(calls)
    pages, after = CallPages(engine), ""
    found: list[Receipt] = []
    for _ in range(4):
        page = pages.page(search(after=after, limit=8))
        found += page.receipts
        after = page.next
    assert found == calls[::-1]
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
        ({"only": SpendFilter(values={"model": frozenset({"m"})})}, [1]),
        ({"only": SpendFilter(values={"user": frozenset({"u"}), "key": frozenset({"k"})})}, [5]),
        ({"since": START + 5}, [7, 6, 5]),
        ({"until": START + 2, "since": START}, [1]),
    ],
)
def test_a_filter_leaves_the_calls_that_are_wanted(engine: Engine, wanted, numbers) -> None:
    calls = {
        1: a_call(1, cost_nanos=1, route="lab/m", reroute_reason="why"),
        2: a_call(2, cost_nanos=1, outcome=Outcome.REFUSED),
        3: a_call(3, cost_nanos=1, miss="expired", conversation="ab"),
        4: a_call(4, cost_nanos=1, miss="diverged", conversation="ab"),
        5: a_call(5, cost_nanos=900, user="u", key_id="k"),
        6: a_call(6, cost_nanos=None, started=START - 20),
        7: a_call(7, cost_nanos=None, usage=None, outcome=Outcome.FAILED, started=START - 20),
    }
    inserter(engine)(list(calls.values()))

    assert CallPages(engine).page(search(**wanted)).receipts == [calls[n] for n in numbers]


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
    only = SpendFilter(teams=frozenset({"a", IDLE_TEAM}))

    assert CallPages(engine).page(search(only=only)).receipts == [mine]
    assert CallPages(engine).page(search(only=SpendFilter(teams=frozenset()))).receipts == []


def test_a_page_looks_at_so_many_calls_and_goes_on_from_there(sqlite_engine: Engine) -> None:
    rare = a_call(0, feature="rare")
    others = (a_call(n, feature="x") for n in range(1, _CALLS_PER_STEP * _MAX_STEPS + 10))
    inserter(sqlite_engine)([rare, *others])
    wanted = SpendFilter(values={"feature": frozenset({"rare"})})
    first = CallPages(sqlite_engine).page(search(only=wanted))
    second = CallPages(sqlite_engine).page(search(only=wanted, after=first.next))

    assert (first.receipts, first.searched_from) == ([], START + 10)
    assert (second.receipts, second.next) == ([rare], "")
