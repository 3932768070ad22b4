"""The calendar windows that budgets count in: minutes, hours, days and months of UTC."""

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from math import floor

_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}
_NAMES = {
    "minute": "%Y-%m-%dT%H:%M",
    "hour": "%Y-%m-%dT%H",
    "day": "%Y-%m-%d",
    "month": "%Y-%m",
}


class Window(StrEnum):
    """The window in which a budget counts before it starts anew."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


def window_start(window: Window, time: float) -> float:
    """Start of the window that this time is in; the start itself is in it.

    Args:
        time: Seconds since the epoch, as all times here.
    """
    seconds = _SECONDS.get(window)
    if seconds is not None:
        return time // seconds * seconds
    return _month(floor(time))[0]


def window_end(window: Window, time: float) -> float:
    """End of the window that this time is in, which is the start of the next."""
    seconds = _SECONDS.get(window)
    if seconds is not None:
        return time // seconds * seconds + seconds
    return _month(floor(time))[1]


def window_name(window: Window, time: float) -> str:
    """The window that this time is in: ``2026-11-22T13:05``, ``…T13``, ``2026-11-22``, ``2026-11``.

    Names of one kind sort by time, and no two windows share one.
    """
    return _name(window, floor(time))


# Of whole seconds: rounded to the microsecond, the last instant of a day would be in the next.


@lru_cache(maxsize=64)
def _name(window: Window, second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime(_NAMES[window])


@lru_cache(maxsize=64)
def _month(second: int) -> tuple[float, float]:
    """Start and end of the month of this second."""
    moment = datetime.fromtimestamp(second, UTC)
    first = moment.replace(day=1, hour=0, minute=0, second=0)
    year, months = divmod(first.year * 12 + first.month, 12)
    return first.timestamp(), first.replace(year=year, month=months + 1).timestamp()
