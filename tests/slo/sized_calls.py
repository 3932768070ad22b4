"""A budget, a tariff and learned lengths by which reservations are sized."""

import random
from collections.abc import Callable

from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.reservation_sizing import (
    CounterView,
    PriceQuote,
    UsageBounds,
    size_reservation,
)
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.quantile_sketch import QuantileSketch
from slo.window import Window
from tests.fakes import overnight_traffic

TARIFF = Tariff(
    periods=(
        PricePeriod(
            sheets={
                "": PriceSheet(
                    rates=TokenRates(
                        input=2_000_000_000,
                        cache_read=200_000_000,
                        write_5m=2_500_000_000,
                        output=10_000_000_000,
                    )
                )
            }
        ),
    ),
)
QUOTE = PriceQuote(tariff=TARIFF, at=0.0)
Length = Callable[[random.Random], int]


def budget(**more: object) -> Budget:
    fields = {
        "unit": BudgetUnit.USD,
        "window": Window.MONTH,
        "limit": overnight_traffic.LIMIT,
        **more,
    }
    return Budget(name="b", scope="team", **fields)  # type: ignore[arg-type]


def learn_lengths(
    length: Length = overnight_traffic.length, answers: int = 2_000
) -> QuantileSketch:
    dice = random.Random(7)  # noqa: S311 - repeatable, not secret
    lengths = QuantileSketch()
    for _ in range(answers):
        lengths.add(length(dice))
    return lengths


def amount_held(budget: Budget, need: UsageBounds, counter: CounterView) -> int | None:
    """Return what is held for the call; None where it is refused."""
    request = size_reservation(budget, need, counter)
    is_admitted = not budget.hard or counter.spent + counter.held + request.amount <= request.limit
    return request.amount if is_admitted else None
