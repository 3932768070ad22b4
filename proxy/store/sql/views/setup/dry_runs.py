"""Dry runs of policies over yesterday's calls in the ledger."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from proxy.store.sql.ledger.spendings import Spendings
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.past_calls import CallsOfDay, calls_of_day, yesterday
from slo.budgets.budget import EVERY, LABEL_PREFIX, Budget, BudgetUnit
from slo.budgets.ceiling import Ceiling
from slo.objectives.objective import STAGE_METRICS, Objective
from slo.price import Tariff
from slo.trials.budget_trial import BudgetTrial, try_budget
from slo.trials.feature_trials import CeilingTrial, ObjectiveTrial, try_ceiling, try_objective
from slo.trials.price_trial import PriceTrial
from slo.window import window_start

_NO_LABELS: Final = "The ledger has no labels of calls, so this cannot be tried."
_NO_USERS: Final = "The ledger has end users by keyed hashes alone, so this cannot be tried."
_NO_STAGES: Final = "Stages of calls are not read here, so this cannot be tried."

Trial: TypeAlias = BudgetTrial | CeilingTrial | ObjectiveTrial | PriceTrial


class DryRunQuestion(msgspec.Struct, frozen=True):
    """A policy to try.

    Attributes:
        now: Seconds since the epoch.
        tariffs: Prices of models, by public name; ceilings need them.
    """

    policy: Budget | Ceiling | Objective
    now: float
    tariffs: Mapping[str, Tariff] = {}


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A policy's trial on the calls of yesterday.

    Attributes:
        start: Midnight of UTC before these calls, in seconds since the epoch.
        read_until: Time up to which calls were read; None where all were.
        trial: The outcome; None where it cannot be tried.
        obstacle: Reason for that; "" for none.
    """

    start: float
    read_until: float | None = None
    trial: Trial | None = None
    obstacle: str = ""


def dry_run(readers: Readers, question: DryRunQuestion) -> DryRun:
    """The trial of a policy on the calls of yesterday; blocks."""
    policy, start = question.policy, yesterday(question.now)
    if obstacle := _obstacle(policy):
        return DryRun(start=start, obstacle=obstacle)
    if isinstance(policy, Budget):
        day = _calls_of_budget(readers, policy, start)
        trial: Trial = try_budget(policy, day.calls, _used_before(readers, policy, start))
    else:
        day = _calls_of_feature(readers, policy, start)
        if isinstance(policy, Ceiling):
            trial = try_ceiling(policy, day.calls, question.tariffs)
        else:
            trial = try_objective(policy, day.calls)
    return DryRun(start=start, read_until=day.read_until, trial=trial)


def _obstacle(policy: Budget | Ceiling | Objective) -> str:
    """The reason that a policy cannot be tried; "" for none."""
    if isinstance(policy, Objective):
        return _NO_STAGES if policy.metric in STAGE_METRICS else ""
    if not isinstance(policy, Budget):
        return ""
    if policy.scope.startswith(LABEL_PREFIX):
        return _NO_LABELS
    return _NO_USERS if policy.scope == "user" and policy.of != EVERY else ""


def _calls_of_feature(readers: Readers, policy: Ceiling | Objective, start: float) -> CallsOfDay:
    """The calls of a policy's team and feature."""
    only = {} if policy.team == EVERY else {"team": _team_id(readers, policy.team)}
    if policy.feature != EVERY:
        only["feature"] = policy.feature
    return calls_of_day(readers, start, only)


def _team_id(readers: Readers, name: str) -> str:
    ids = {team: id_ for id_, team in readers.team_names().items()}
    return ids.get(name, name)


def _calls_of_budget(readers: Readers, budget: Budget, start: float) -> CallsOfDay:
    """The calls that may count in a budget."""
    if budget.of == EVERY or budget.scope == "organization":
        return calls_of_day(readers, start, {})
    if budget.scope == "team":
        return calls_of_day(readers, start, {"team": _team_id(readers, budget.of)})
    column = {"key": "key_id", "feature": "feature"}[budget.scope]
    return calls_of_day(readers, start, {column: budget.of})


def _used_before(readers: Readers, budget: Budget, start: float) -> Mapping[str, int]:
    """The amounts in the budget's window before a day, by counter; rollups know no requests."""
    begin = window_start(budget.window, start)
    if begin == start or budget.unit is BudgetUnit.REQUESTS:
        return {}
    spendings = Spendings(readers.engine).from_rollups(budget.scope, begin, start)
    is_usd = budget.unit is BudgetUnit.USD
    return {name: used.nanos if is_usd else used.tokens for name, used in spendings.items()}
