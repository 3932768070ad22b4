"""How pages say times, money and names."""

from datetime import UTC, datetime
from typing import Final

from slo.alert import amount, duration
from slo.budget import EVERY, Unit

#: For what nobody knows.
UNKNOWN: Final = "?"
_PERCENT: Final = 100
_DIGITS: Final = 6
_NANOS: Final = 1_000_000_000


def clock(at: float) -> str:
    """A time to the second, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def machine(at: float) -> str:
    """The same as machines read it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(seconds: float) -> str:
    """A time span in the two largest units that say something."""
    return duration(seconds)


def money(nanos: int | None) -> str:
    """Nano-dollars as dollars: six digits where that is close enough; ? where nobody knows."""
    if nanos is None:
        return UNKNOWN
    if abs(nanos) < _NANOS // 10**_DIGITS:
        return amount(Unit.USD, nanos)
    return amount(Unit.USD, round(nanos, _DIGITS - 9))


def used(of: int | None, unit: Unit) -> str:
    """So much of a budget's unit; ? where nobody knows."""
    if of is None:
        return UNKNOWN
    return money(of) if unit is Unit.USD else f"{of:,}"


def share(part: int | None, whole: int) -> str:
    """A part in percent of the whole; ? where nobody knows it."""
    return UNKNOWN if part is None or whole <= 0 else f"{part * _PERCENT / whole:.1f} %"


def feature(name: str) -> str:
    """A feature, or whose calls are meant."""
    return {EVERY: "every feature", "": "(none)"}.get(name, name)


def whose(name: str) -> str:
    """Whose a budget's counter or an objective is."""
    return {EVERY: "everyone", "": "(nobody named)"}.get(name, name)


def rung(name: str) -> str:
    """A rung of a ladder, or what stands above all of them."""
    return name or "as asked"
