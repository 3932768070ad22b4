"""Dry runs of budgets over the ledger of yesterday."""

from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.dry_runs import DryRun, DryRunQuestion, dry_run
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.ceiling import Ceiling
from slo.objectives.objective import Metric, Objective
from slo.trials.budget_trial import BudgetTrial
from slo.trials.feature_trials import CeilingTrial, ObjectiveTrial
from slo.window import Window
from tests.fakes.ledger_day import book_calls_of_yesterday
from tests.fakes.receipts import START

#: In the middle of a month.
NOW = START + 200_000.0
CENT = 10_000_000


def run_budget(engine: Engine, **fields: Any) -> DryRun:
    usual = {
        "name": "day",
        "scope": "organization",
        "unit": BudgetUnit.USD,
        "window": Window.DAY,
        "limit": 2 * CENT,
    }
    return dry_run(Readers(engine), DryRunQuestion(Budget(**{**usual, **fields}), NOW))


def beyond(engine: Engine, **fields: Any) -> int:
    trial = run_budget(engine, **fields).trial
    assert isinstance(trial, BudgetTrial)
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
    run = run_budget(engine, scope=scope, of=of)

    assert run.trial is None
    assert "cannot be tried" in run.obstacle


def test_a_ceiling_is_tried_on_the_calls_of_its_feature(engine: Engine) -> None:
    book_calls_of_yesterday(engine, NOW, 3, cost_nanos=CENT, feature="chat")
    ceiling = Ceiling(name="half", feature="chat", limit=CENT // 2)
    trial = dry_run(Readers(engine), DryRunQuestion(ceiling, NOW)).trial

    assert isinstance(trial, CeilingTrial)
    assert (trial.counted.calls, trial.above.calls, trial.excess_nanos) == (3, 3, 3 * CENT // 2)


def test_an_objective_is_tried_on_the_calls_of_its_team(store: Store) -> None:
    team = store.teams.create("acme", now=NOW).id
    book_calls_of_yesterday(store._engine, NOW, 4, team=team, ttft=0.8)
    slow = Objective(name="fast", team="acme", metric=Metric.TTFT, target=0.9, under=0.5)
    trial = dry_run(Readers(store._engine), DryRunQuestion(slow, NOW)).trial

    assert isinstance(trial, ObjectiveTrial)
    assert (trial.calls, trial.bad) == (4, 4)


def test_an_objective_of_a_stage_says_that_it_cannot_be_tried(engine: Engine) -> None:
    stage = Objective(name="queue", metric=Metric("queue"), target=0.9, under=0.5)

    assert "cannot be tried" in dry_run(Readers(engine), DryRunQuestion(stage, NOW)).obstacle
