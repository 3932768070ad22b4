"""Budgets and alerts as people of each role see them."""

import asyncio

from dashboards.access import Role, Viewer
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from slo.alert import Severity
from tests.fakes.board import NOW, FakeBoard, a_counter, an_open_alert, overview

COUNTERS = [
    a_counter(budget="all", scope="organization", whose="*"),
    a_counter(whose="acme"),
    a_counter(whose="other"),
    a_counter(budget="users", scope="user", whose="5ad1"),
]


def resource(store: Store) -> BudgetsResource:
    return BudgetsResource(FakeBoard(overview(counters=COUNTERS)), store, StoreQuestions(store))


def test_finance_sees_every_counter_and_every_alert(store: Store) -> None:
    finance = Viewer(name="fay", role=Role.FINANCE)

    assert asyncio.run(resource(store).budgets(finance)).counters == COUNTERS
    assert len(asyncio.run(resource(store).alerts(finance)).alerts or ()) == 1


def test_a_member_sees_the_own_teams_counters_and_no_alerts_of_others(store: Store) -> None:
    team = store.teams.create("acme", now=NOW)
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({team.id}))

    result = asyncio.run(resource(store).budgets(bob)).counters or ()
    assert [(counter.budget, counter.whose) for counter in result] == [
        ("all", "*"),
        ("teams-month", "acme"),
    ]
    assert asyncio.run(resource(store).alerts(bob)).alerts == ()


def test_the_most_urgent_fifty_alerts_are_shown_and_all_counted(store: Store) -> None:
    notes = [an_open_alert(severity=Severity.NOTE, began=NOW - n) for n in range(60)]
    urgent = an_open_alert(began=NOW - 9_000)
    board = FakeBoard(overview(open_alerts=[*notes, urgent]))
    budgets = BudgetsResource(board, store, StoreQuestions(store))
    result = asyncio.run(budgets.alerts(Viewer(name="fay", role=Role.FINANCE)))

    assert (result.alerts, result.total) == ([urgent, *notes[:49]], 61)


def test_a_member_sees_counters_of_the_own_teams_keys(store: Store) -> None:
    own, other = (store.teams.create(name, now=NOW).id for name in ("acme", "other"))
    key, _ = store.teams.create_key(own, "ci", now=NOW)
    theirs, _ = store.teams.create_key(other, "ci", now=NOW)
    shown = [a_counter(scope="key", whose=owner.id) for owner in (key, theirs)]
    board = FakeBoard(overview(counters=shown))
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({own}))

    result = asyncio.run(BudgetsResource(board, store, StoreQuestions(store)).budgets(bob))
    assert [counter.whose for counter in result.counters or ()] == [key.id]
