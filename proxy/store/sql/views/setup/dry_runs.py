"""Dry runs of policies over yesterday's calls in the ledger."""

from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.store.sql.ledger.spendings import Spendings
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.past_calls import CallsOfDay, calls_of_day, yesterday
from slo.budgets.budget import EVERY, LABEL_PREFIX, Budget, BudgetUnit
from slo.trials.budget_trial import BudgetTrial, try_budget
from slo.window import window_start

_NO_LABELS: Final = "The ledger has no labels of calls, so this cannot be tried."
_NO_USERS: Final = "The ledger has end users by keyed hashes alone, so this cannot be tried."


class BudgetQuestion(msgspec.Struct, frozen=True):
    """A budget to try; ``now`` is in seconds since the epoch."""

    budget: Budget
    now: float


class BudgetDryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A budget's trial on the calls of yesterday.

    Attributes:
        start: Midnight of UTC before these calls, in seconds since the epoch.
        read_until: Time up to which calls were read; None where all were.
        trial: The outcome; None where it cannot be tried.
        obstacle: Reason for that; "" for none.
    """

    start: float
    read_until: float | None = None
    trial: BudgetTrial | None = None
    obstacle: str = ""


def budget_dry_run(readers: Readers, question: BudgetQuestion) -> BudgetDryRun:
    """The trial of a budget on the calls of yesterday; blocks."""
    budget, start = question.budget, yesterday(question.now)
    if budget.scope.startswith(LABEL_PREFIX):
        return BudgetDryRun(start=start, obstacle=_NO_LABELS)
    if budget.scope == "user" and budget.of != EVERY:
        return BudgetDryRun(start=start, obstacle=_NO_USERS)
    day = _calls_of_budget(readers, budget, start)
    used = _used_before(readers, budget, start)
    return BudgetDryRun(
        start=start, read_until=day.read_until, trial=try_budget(budget, day.calls, used)
    )


def _calls_of_budget(readers: Readers, budget: Budget, start: float) -> CallsOfDay:
    """The calls that may count in a budget."""
    if budget.of == EVERY or budget.scope == "organization":
        return calls_of_day(readers, start, {})
    if budget.scope == "team":
        ids = {name: id_ for id_, name in readers.team_names().items()}
        return calls_of_day(readers, start, {"team": ids.get(budget.of, budget.of)})
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
