"""The end of a budget's window at the present pace: a straight line from what is spent now on.

The pace is that of the last seven whole days: a day's nights and a week's quiet days are in it.
Days up to the first with spending, seldom a whole one, are left out, unless all seven have some.
Where none is left, and in windows of an hour or a minute, the pace is that of the window so far,
once a tenth of it is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import dropwhile
from math import floor
from typing import Final, Literal

from slo.window import Window, window_end, window_start

PACE_DAYS: Final = 7
"""Whole days of UTC before today that a pace is measured over."""
_DAY_S: Final = 86_400
_LEAST_PART: Final = 0.1
_LONG_WINDOWS: Final = frozenset({Window.DAY, Window.MONTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPace:
    """The end of a counter's window at the present pace.

    Attributes:
        end: Spending expected at the end of the window, in the budget's unit.
        is_over: True if the limit is reached already.
        over_at: Time at which the limit will be passed, in seconds since the epoch; None for not,
            or already.
        over: The same in words, a day or a time of UTC; "" likewise.
        basis: Period that the pace is of.
    """

    end: int
    is_over: bool
    over_at: float | None
    over: str
    basis: Literal["last 7 days", "window so far"]


def budget_pace(
    window: Window, limit: int, spent: int | None, days: Sequence[int], now: float
) -> BudgetPace | None:
    """The end of a counter's window; None where too little is known.

    Args:
        spent: In the window so far; None for unknown.
        days: Amounts of the whole days before today, the oldest first; () for unknown.
    """
    if spent is None:
        return None
    start, end = window_start(window, now), window_end(window, now)
    paced = _paced_days(days) if window in _LONG_WINDOWS else ()
    if paced:
        amount, seconds = sum(paced), len(paced) * _DAY_S
    elif now - start >= _LEAST_PART * (end - start):
        amount, seconds = spent, floor(now - start)
    else:
        return None
    total = spent + amount * floor(end - now) // max(seconds, 1)
    is_over = spent >= limit
    is_passed = total > limit and not is_over
    over_at = now + (limit - spent) * seconds / amount if is_passed else None
    return BudgetPace(
        end=total,
        is_over=is_over,
        over_at=over_at,
        over="" if over_at is None else _moment_text(over_at, window),
        basis="last 7 days" if paced else "window so far",
    )


def _paced_days(days: Sequence[int]) -> Sequence[int]:
    """The days after the first with spending; of one whose whole week is known, that one, too."""
    spending = tuple(dropwhile(lambda amount: not amount, days))
    return spending if len(spending) == PACE_DAYS else spending[1:]


def _moment_text(moment: float, window: Window) -> str:
    at = datetime.fromtimestamp(moment, UTC)
    return f"{at.day} {at:%b}" if window is Window.MONTH else f"{at:%H:%M}"
