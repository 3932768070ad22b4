"""A night of calls against one budget: a given number always runs, until no more is admitted."""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

#: Of the calls: dollars as nano-dollars, seconds, tokens. The limit pays for about 900 of them.
LIMIT = 5_000_000_000
PROMPT = 1_000
OUTPUT_LIMIT = 4_096
INPUT_NANOS, OUTPUT_NANOS = 2_000, 10_000
DURATION, PATIENCE = 8.0, 1.0
#: Generated tokens: median 250, p95 941, p99 1,630, mean 346.
_MEDIAN, _SIGMA = 250, math.log(941 / 250) / 1.6449


@dataclass(frozen=True)
class OvernightResult:
    """Spending overnight, in parts of the limit.

    Attributes:
        spent: At the end.
        spent_first: When the first call was refused.
        refused_early: Calls refused while half the limit or more was unspent.
    """

    spent: float
    spent_first: float
    refused_early: int


def length(dice: random.Random) -> int:
    """Number of tokens a call generates."""
    return min(max(1, round(dice.lognormvariate(math.log(_MEDIAN), _SIGMA))), OUTPUT_LIMIT)


def cost(length: int) -> int:
    """Return what a call costs that generates this many tokens."""
    return PROMPT * INPUT_NANOS + length * OUTPUT_NANOS


def simulate_overnight(
    callers: int,
    seed: int,
    hold: Callable[[int, int, int], int | None],
    length: Callable[[random.Random], int] = length,
) -> OvernightResult:
    """A night of this many callers, each of whom calls again at once; the refused wait a second.

    Args:
        callers: How many calls run at once.
        seed: Of what they generate.
        hold: What is held for a call, given what is spent, held, and for how many; None for a call
            that is refused, 0 for one that is admitted while any is left.
        length: How many tokens a call generates.
    """
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    spent = held = running = early = 0
    first = None
    starts = ((dice.uniform(0, DURATION), i, None) for i in range(callers))
    agenda: list[tuple[float, int, tuple[int, int] | None]] = sorted(starts)
    refused: set[int] = set()
    while len(refused) < callers or running:
        now, caller, ran = heapq.heappop(agenda)
        if ran is not None:
            held, spent, running = held - ran[0], spent + ran[1], running - 1
            refused.clear()
        amount = hold(spent, held, running)
        if amount is not None and spent + held + max(amount, 1) <= LIMIT:
            held, running = held + amount, running + 1
            ran = (amount, cost(length(dice)))
            heapq.heappush(agenda, (now + DURATION * dice.uniform(0.5, 1.5), caller, ran))
        else:
            first = spent if first is None else first
            early += spent * 2 < LIMIT
            refused.add(caller)
            heapq.heappush(agenda, (now + PATIENCE, caller, None))
    return OvernightResult(spent / LIMIT, (first or 0) / LIMIT, early)
