"""A budget applied to calls that have ended: which of them would not have fitted, and when."""

from collections.abc import Iterable, Mapping

import msgspec

from slo.budgets.budget import Budget, BudgetIndex, BudgetUnit, UnpricedPolicy
from slo.trials.past_call import PastCall, TrialSums
from slo.window import window_start


class BudgetTrial(msgspec.Struct, kw_only=True):
    """The outcome of a budget's trial.

    Attributes:
        counted: The calls that count in it.
        beyond: Those that did not fit: a hard budget had refused them.
        unpriced: Calls of unknown price that counted as nothing.
        first: Arrival of the first call beyond it, in seconds since the epoch; None for none.
        first_whose: The counter that this call did not fit in.
        owners: Number of counters that calls did not fit in.
        most_used: The most that a counter held at any time, in the budget's unit.
        most_used_whose: That counter.
    """

    counted: TrialSums
    beyond: TrialSums
    unpriced: int = 0
    first: float | None = None
    first_whose: str = ""
    owners: int = 0
    most_used: int = 0
    most_used_whose: str = ""


def try_budget(
    budget: Budget, calls: Iterable[PastCall], used_before: Mapping[str, int]
) -> BudgetTrial:
    """The outcome of a budget with calls in the order of their arrival.

    Each call counts with what it cost in the end. The holds of running calls are not part of it, so
    a gateway refuses somewhat earlier.

    Args:
        used_before: Amount that each counter held before the first call, in the budget's unit.
    """
    trial = BudgetTrial(counted=TrialSums(), beyond=TrialSums())
    index, counters, stopped = BudgetIndex([budget]), dict(used_before), set[str]()
    window: float | None = None
    for call in calls:
        start = window_start(budget.window, call.arrived)
        if window is not None and start != window:
            counters.clear()
        window = start
        for _, whose in index.applicable(call.subject):
            trial.counted.add(call)
            used, amount = counters.get(whose, 0), _counted_amount(budget, call)
            trial.unpriced += amount is None
            is_beyond = _is_beyond(budget, used, amount)
            if is_beyond:
                trial.beyond.add(call)
                stopped.add(whose)
                if trial.first is None:
                    trial.first, trial.first_whose = call.arrived, whose
            if not (is_beyond and budget.hard):
                counters[whose] = used = used + (amount or 0)
            if used > trial.most_used:
                trial.most_used, trial.most_used_whose = used, whose
    trial.owners = len(stopped)
    return trial


def _counted_amount(budget: Budget, call: PastCall) -> int | None:
    if budget.unit is BudgetUnit.REQUESTS:
        return 1
    return call.tokens if budget.unit is BudgetUnit.TOKENS else call.cost_nanos


def _is_beyond(budget: Budget, used: int, amount: int | None) -> bool:
    if amount is None:
        return budget.hard and budget.unpriced is UnpricedPolicy.REFUSE
    return used + amount > budget.limit
