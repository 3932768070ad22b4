"""Budgets as people of each role see them."""

import asyncio

from dashboards.access import Role, Viewer
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from tests.fakes.board import NOW, FakeBoard, a_counter, overview

COUNTERS = [
    a_counter(budget="all", scope="organization", whose="*"),
    a_counter(whose="acme"),
    a_counter(whose="other"),
    a_counter(budget="users", scope="user", whose="5ad1"),
]


def resource(store: Store) -> BudgetsResource:
    return BudgetsResource(
        FakeBoard(overview(counters=COUNTERS)), store, StoreQuestions(store), lambda: NOW
    )


def test_finance_sees_every_counter(store: Store) -> None:
    finance = Viewer(name="fay", role=Role.FINANCE)

    assert asyncio.run(resource(store).budgets(finance)).counters == COUNTERS


def test_a_member_sees_the_own_teams_counters(store: Store) -> None:
    team = store.teams.create("acme", now=NOW)
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({team.id}))

    result = asyncio.run(resource(store).budgets(bob)).counters or ()
    assert [(counter.budget, counter.whose) for counter in result] == [
        ("all", "*"),
        ("teams-month", "acme"),
    ]


def test_a_member_sees_counters_of_the_own_teams_keys(store: Store) -> None:
    own, other = (store.teams.create(name, now=NOW).id for name in ("acme", "other"))
    key, _ = store.teams.create_key(own, "ci", now=NOW)
    theirs, _ = store.teams.create_key(other, "ci", now=NOW)
    shown = [a_counter(scope="key", whose=owner.id) for owner in (key, theirs)]
    board = FakeBoard(overview(counters=shown))
    bob = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({own}))

    result = asyncio.run(
        BudgetsResource(board, store, StoreQuestions(store), lambda: NOW).budgets(bob)
    )
    assert [counter.whose for counter in result.counters or ()] == [key.id]
