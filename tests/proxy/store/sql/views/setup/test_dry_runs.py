"""Dry runs of budgets over the ledger of yesterday."""

from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.dry_runs import BudgetDryRun, BudgetQuestion, budget_dry_run
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window
from tests.fakes.ledger_day import book_calls_of_yesterday
from tests.fakes.receipts import START

#: In the middle of a month.
NOW = START + 200_000.0
CENT = 10_000_000


def dry_run(engine: Engine, **fields: Any) -> BudgetDryRun:
    usual = {
        "name": "day",
        "scope": "organization",
        "unit": BudgetUnit.USD,
        "window": Window.DAY,
        "limit": 2 * CENT,
    }
    question = BudgetQuestion(Budget(**{**usual, **fields}), NOW)
    return budget_dry_run(Readers(engine), question)


def beyond(engine: Engine, **fields: Any) -> int:
    trial = dry_run(engine, **fields).trial
    assert trial is not None
    return trial.beyond.calls


def test_calls_of_yesterday_beyond_the_limit_are_counted(engine: Engine) -> None:
    book_calls_of_yesterday(engine, NOW, 5, cost_nanos=CENT)

    assert beyond(engine) == 3


def test_only_calls_of_the_budgets_feature_count(engine: Engine) -> None:
    book_calls_of_yesterday(engine, NOW, 5, cost_nanos=CENT, feature="chat")

    assert beyond(engine, scope="feature", of="chat") == 3
    assert beyond(engine, scope="feature", of="search") == 0


def test_a_team_is_told_by_its_name(store: Store) -> None:
    team = store.teams.create("acme", now=NOW).id
    book_calls_of_yesterday(store._engine, NOW, 5, cost_nanos=CENT, team=team)

    assert beyond(store._engine, scope="team", of="acme") == 3
    assert beyond(store._engine, scope="team", of="other") == 0


def test_a_month_begins_with_what_was_used_in_its_days_before(store: Store) -> None:
    team = store.teams.create("acme", now=NOW).id
    book_calls_of_yesterday(store._engine, NOW, 2, cost_nanos=CENT, team=team)
    book_calls_of_yesterday(store._engine, NOW - 86_400, 2, cost_nanos=CENT, team=team)

    assert beyond(store._engine, scope="team") == 0
    assert beyond(store._engine, scope="team", window=Window.MONTH) == 2


@pytest.mark.parametrize(("scope", "of"), [("label:project", "*"), ("user", "ann")])
def test_a_budget_by_what_the_ledger_has_not_says_that_it_cannot_be_tried(
    engine: Engine, scope: str, of: str
) -> None:
    run = dry_run(engine, scope=scope, of=of)

    assert run.trial is None
    assert "cannot be tried" in run.obstacle
