"""Which level a new conversation gets, and how many of them try level 0.

While degraded, some have to try level 0 to show when all can. How many is a matter of what became
of the last ten, or of as many as there were in ten minutes: while those were surely over budget,
and where there were none, a few, since most of them are lost (a call in three seconds, and never
more than an eighth); else so many that the 40 that a recovery takes come within its two minutes: a
part of the ramp, on which it then goes on. With little traffic that would be all, for which ten
lucky calls are no reason: while the last twenty are over budget it is no more than the ramp's
second part. One part of all calls for both was either dear or, with conversations that come in
bursts, too few in every fifth incident.
"""

from collections.abc import Mapping
from typing import Final

from slo import wilson
from slo.controller.state import (
    LONG_WINDOW_S,
    MAX_WINDOW_S,
    SHORT_WINDOW_S,
    ControllerRules,
    ControllerSnapshot,
    LevelCounts,
)

_STEPS: Final = tuple(2.0**power for power in range(-6, 4))
"""By what the first share is multiplied: in steps, so that it does not change with every call."""

#: A share is kept while it is right for this part of what is wanted, at least and at most.
_FEWEST, _MANIEST = 0.75, 2.5


def level_for(standing: ControllerSnapshot, draw: float, rules: ControllerRules) -> int:
    """The level of a new conversation, which it keeps; never above the highest there is.

    Args:
        standing: Where the objective stands.
        draw: The conversation's hash, as a number from 0.0 to below 1.0. A conversation that goes
            to level 0 at some share does so at every larger one.
        rules: How many levels there are.
    """
    return 0 if draw < standing.share else min(standing.level, rules.fallback_levels)


def canary_share(before: float, arms: Mapping[int, LevelCounts], rules: ControllerRules) -> float:
    """The part of new conversations that tries level 0, so that enough calls do; at most 1.0.

    It stays what it was while that is about right, and while nobody can tell how many calls there
    are: because there are none, or all that were counted are of the last minute.
    """
    calls = sum(arm.within(SHORT_WINDOW_S).n for arm in arms.values())
    if not 0 < calls < sum(arm.within(LONG_WINDOW_S).n for arm in arms.values()):
        return before
    primary = arms.get(0, LevelCounts())
    if not primary.within(MAX_WINDOW_S).n or is_lately_bad(primary, rules):
        shares = tuple(min(rules.canary_share * step, rules.canary_most) for step in _STEPS)
        wanted = SHORT_WINDOW_S / (calls * rules.canary_gap)
    else:
        more, _ = primary.latest(rules.least)
        shares = rules.ramp[:2] if more.share > rules.budget else rules.ramp
        wanted = SHORT_WINDOW_S / (calls * rules.canary_gap_after)
    least, most = _above(_FEWEST * wanted, shares), _above(_MANIEST * wanted, shares)
    return before if before in shares and least <= before <= most else _above(wanted, shares)


def is_lately_bad(primary: LevelCounts, rules: ControllerRules) -> bool:
    """True if the last few calls to level 0 were surely over budget, or all there were lately."""
    newest, _ = primary.latest(rules.few)
    newest = newest if newest.n else primary.within(MAX_WINDOW_S)
    return wilson.lower_bound(newest.bad, newest.n) > rules.budget


def ramp_share(least: float, rules: ControllerRules) -> float:
    """The first part of the ramp that is not below the least; 1.0 where that is above all."""
    return _above(least, rules.ramp)


def next_share(share: float, rules: ControllerRules) -> float | None:
    """The part of the ramp after this one; None after the last."""
    return next((each for each in rules.ramp if each > share), None)


def _above(least: float, shares: tuple[float, ...]) -> float:
    """The first that is not below the least; the last where all are."""
    return next((share for share in shares if share >= least), shares[-1])
