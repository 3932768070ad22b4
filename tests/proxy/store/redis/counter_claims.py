"""Claims on counters, and the times at which they are made."""

from slo.budgets.counter import CounterClaim, CounterLevel

NOW = 1_000_000.0
LATER = NOW + 30
NONE = CounterLevel(0, 0)


def claim(
    amount: int, counter: str = "team", limit: int = 100, *, hard: bool = True, ends: float = LATER
) -> CounterClaim:
    return CounterClaim(counter, amount, limit, hard, ends)
