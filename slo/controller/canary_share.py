"""Chooses the level of a new conversation, and the share of them that goes to level 0 as canaries.

While degraded, canary calls on level 0 show when it is good again. The share depends on the last
ten of them, or on those of ten minutes if fewer:

- Surely over budget, or no canaries: few, as most of them fail. About one call in three seconds,
  at most an eighth of all.
- Else: so many that the 40 calls of a recovery come within its two minutes. This is a share of the
  ramp, which continues from it.
- With little traffic that would be all calls, and ten good ones may be luck: while the last 20 are
  over budget, the ramp's second share is the most.

A single share for both cases was either costly or, with conversations that come in bursts, too
small in every fifth incident.
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

_SHARE_FACTORS: Final = tuple(2.0**power for power in range(-6, 4))
"""Factors of the first share: in steps, so that it does not change with every call."""

#: A share is kept while it lies within these factors of the wanted one.
_MIN_SHARE_RATIO, _MAX_SHARE_RATIO = 0.75, 2.5


def level_for(snapshot: ControllerSnapshot, draw: float, rules: ControllerRules) -> int:
    """The level of a new conversation, which it keeps; never above the highest there is.

    Args:
        draw: The conversation's hash, as a number from 0.0 to below 1.0. A conversation that goes
            to level 0 at some share does so at every larger one.
    """
    return 0 if draw < snapshot.share else min(snapshot.level, rules.fallback_levels)


def canary_share(before: float, arms: Mapping[int, LevelCounts], rules: ControllerRules) -> float:
    """The share of new conversations that goes to level 0, for enough canary calls; at most 1.0.

    It is kept while it is about right, and while traffic cannot be estimated: there are no calls,
    or all are of the last minute.
    """
    calls = sum(arm.within(SHORT_WINDOW_S).n for arm in arms.values())
    if not 0 < calls < sum(arm.within(LONG_WINDOW_S).n for arm in arms.values()):
        return before
    primary = arms.get(0, LevelCounts())
    if not primary.within(MAX_WINDOW_S).n or is_lately_bad(primary, rules):
        shares = tuple(
            min(rules.canary_share * step, rules.max_canary_share) for step in _SHARE_FACTORS
        )
        target_share = SHORT_WINDOW_S / (calls * rules.canary_gap_s)
    else:
        more, _ = primary.latest(rules.min_calls)
        shares = rules.ramp[:2] if more.share > rules.budget else rules.ramp
        target_share = SHORT_WINDOW_S / (calls * rules.canary_gap_after_s)
    least, highest = (
        _first_share_from(_MIN_SHARE_RATIO * target_share, shares),
        _first_share_from(_MAX_SHARE_RATIO * target_share, shares),
    )
    return (
        before
        if before in shares and least <= before <= highest
        else _first_share_from(target_share, shares)
    )


def is_lately_bad(primary: LevelCounts, rules: ControllerRules) -> bool:
    """True if the last calls on level 0, or the recent ones if fewer, were surely over budget."""
    newest, _ = primary.latest(rules.min_calls_if_gross)
    newest = newest if newest.n else primary.within(MAX_WINDOW_S)
    return wilson.lower_bound(newest.bad, newest.n) > rules.budget


def ramp_share(least: float, rules: ControllerRules) -> float:
    """The first share of the ramp from the least one on; 1.0 if all are smaller."""
    return _first_share_from(least, rules.ramp)


def next_share(share: float, rules: ControllerRules) -> float | None:
    """The share of the ramp after this one; None after the last."""
    return next((step for step in rules.ramp if step > share), None)


def _first_share_from(least: float, shares: tuple[float, ...]) -> float:
    """The first share that is not below the least; the last if all are."""
    return next((share for share in shares if share >= least), shares[-1])
