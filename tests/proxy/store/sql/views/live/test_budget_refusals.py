"""Calls that budgets refused, by the counter that had no room."""

from sqlalchemy import Engine

from dashboards.board import BudgetCounter
from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.live.budget_refusals import RefusalsQuestion, budget_refusals
from proxy.store.sql.views.readers import Readers
from tests.fakes.board import a_counter
from tests.fakes.receipts import START, a_receipt


def refused_call(n: int, budget: str, **fields: str) -> Receipt:
    return a_receipt(
        n, call_id=f"{id_floor(START + n)[:-6]}{n:06x}", outcome=Outcome.REFUSED,
        notes=(f"The budget `{budget}` of team `a` has a limit of $2 a day.",), **fields,
    )  # fmt: skip


def counts(
    engine: Engine, *counters: BudgetCounter, teams: frozenset[str] | None = None, most: int = 100
) -> list[int | None]:
    question = RefusalsQuestion(counters=counters, teams=teams, now=START + 100)
    found = budget_refusals(Readers(engine), question, most)
    return [None if one is None else one.count for one in found]


DAY = a_counter(budget="day", scope="feature", whose="chat", since=START)
ALL = a_counter(budget="all", scope="organization", whose="*", since=START)
CALLS = [
    refused_call(1, "day", feature="chat"),
    refused_call(2, "day", feature="other"),
    refused_call(3, "day", feature="chat", team="b"),
    refused_call(4, "all", feature="chat"),
    a_receipt(5, call_id=f"{id_floor(START + 5)[:-6]}000005", feature="chat"),
]


def test_refused_calls_count_for_the_counter_of_their_budget_and_subject(engine: Engine) -> None:
    inserter(engine)(CALLS)

    unseen = a_counter(budget="day", scope="label:project", whose="x", since=START)
    assert counts(engine, DAY, ALL, unseen) == [2, 1, None]


def test_calls_before_the_window_and_of_other_teams_do_not_count(engine: Engine) -> None:
    inserter(engine)(CALLS)
    later = a_counter(budget="day", scope="feature", whose="chat", since=START + 2)

    assert counts(engine, later) == [1]
    assert counts(engine, DAY, teams=frozenset({"b"})) == [1]


def test_only_the_newest_attempts_are_looked_at(engine: Engine) -> None:
    inserter(engine)(CALLS)

    assert counts(engine, DAY, ALL, most=2) == [None, 1]
