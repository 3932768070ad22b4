"""Which level a new conversation gets, and how many of them try level 0."""

from collections.abc import Mapping
from typing import Final

from slo.controller.standing import SHORT, Arm, Rules, Standing

_STEPS: Final = tuple(2**power for power in range(16))
"""By what the least share is multiplied: in steps, so that it does not change with every call."""

#: A share is kept while it is this part of what is wanted, at least and at most.
_FEWEST, _MANIEST = 0.75, 2.5


def level_for(standing: Standing, draw: float, rules: Rules) -> int:
    """The level of a new conversation, which it keeps; never above the highest there is.

    Args:
        standing: Where the objective stands.
        draw: The conversation's hash, as a number from 0.0 to below 1.0. A conversation that goes
            to level 0 at some share does so at every larger one.
        rules: How many levels there are.
    """
    return 0 if draw < standing.share else min(standing.level, rules.rungs)


def canary_share(before: float, arms: Mapping[int, Arm], rules: Rules) -> float:
    """The part of new conversations that tries level 0, so that enough calls do; at most 1.0.

    It stays what it was while that is about right, and while nobody can tell how many calls there
    are: because there are none, or all that were counted are of the last minute.
    """
    calls = sum(arm.short.n for arm in arms.values())
    if not 0 < calls < sum(arm.long.n for arm in arms.values()):
        return before
    wanted = min(max(SHORT / (calls * rules.canary_gap), rules.canary_share), 1.0)
    if before >= rules.canary_share and _FEWEST * wanted <= before <= _MANIEST * wanted:
        return before
    shares = (rules.canary_share * step for step in _STEPS)
    return min(next((share for share in shares if share >= wanted), 1.0), 1.0)


def ramp_share(least: float, rules: Rules) -> float:
    """The first part of the ramp that is not below the least; 1.0 where that is above all."""
    return next((share for share in rules.ramp if share >= least), 1.0)


def next_share(share: float, rules: Rules) -> float | None:
    """The part of the ramp after this one; None after the last."""
    return next((each for each in rules.ramp if each > share), None)
