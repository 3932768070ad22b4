"""Levels of budgets as metrics, one series a budget: a series for each user would have no bound."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from slo.budgets.budget import Budget, BudgetUnit

_NANOS_PER_DOLLAR: Final = 1_000_000_000


class BudgetLevel(NamedTuple):
    """A budget's counters in the present window, in the integers that it counts.

    Attributes:
        drift: Amount that the ledger knows and counters lack; below 0 where the ledger is behind.
        spent: Sum of all counters; each as the ledger has it, where it lacks something.
        fullest: The largest of them.
    """

    drift: int
    spent: int
    fullest: int


def level_metrics(levels: Mapping[Budget, BudgetLevel]) -> Iterator[Metric]:
    """Limit, spent, fullest counter and drift of each budget, in its unit."""
    for name, text, value in _AMOUNTS:
        family = GaugeMetricFamily(name, text, labels=["budget", "unit"])
        for budget, level in levels.items():
            scale = _NANOS_PER_DOLLAR if budget.unit is BudgetUnit.USD else 1
            family.add_metric([budget.name, budget.unit.value], value(budget, level) / scale)
        yield family
    fullest = GaugeMetricFamily(
        "thriftgate_budget_fullest_ratio",
        "Part of its limit that the fullest of a budget's counters has spent, when last compared",
        labels=["budget", "unit"],
    )
    for budget, level in levels.items():
        fullest.add_metric([budget.name, budget.unit.value], level.fullest / budget.limit)
    yield fullest


def _limit_amount(budget: Budget, level: BudgetLevel) -> int:
    return budget.limit


def _spent_amount(budget: Budget, level: BudgetLevel) -> int:
    return level.spent


def _drift_amount(budget: Budget, level: BudgetLevel) -> int:
    return level.drift


_AMOUNTS: Final[tuple[tuple[str, str, Callable[[Budget, BudgetLevel], int]], ...]] = (
    ("thriftgate_budget_limit", "Limit of each of a budget's counters, in its unit", _limit_amount),
    ("thriftgate_budget_spent", "Sum of a budget's counters, when last compared", _spent_amount),
    (
        "thriftgate_budget_drift",
        "What the ledger knows and the budget's counters lack, in its unit, when last compared",
        _drift_amount,
    ),
)
