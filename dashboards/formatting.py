"""Formats times, money and names for the pages."""

from datetime import UTC, datetime
from typing import Final

from dashboards.board import ObjectiveStatus, ReroutedCall
from slo.alert import format_amount, format_rough_duration
from slo.budget import EVERY, BudgetUnit

#: Outcomes of calls that nothing answered.
_ENDS: Final = {
    "refused": "refused",
    "failed": "failed",
    "broken": "broke off",
    "hung_up": "the caller left",
}
#: For what nobody knows.
UNKNOWN: Final = "?"
_PERCENT: Final = 100
_MONEY_DIGITS: Final = 6
_NANOS_PER_DOLLAR: Final = 1_000_000_000


def clock_time(at: float) -> str:
    """A time to the second, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def iso_time(at: float) -> str:
    """The same as machines read it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def duration_text(seconds: float) -> str:
    """A time span in the two largest units that say something."""
    return format_rough_duration(seconds)


def money(nanos: int | None) -> str:
    """Nano-dollars as dollars: six digits where that is close enough; ? where nobody knows."""
    if nanos is None:
        return UNKNOWN
    if abs(nanos) < _NANOS_PER_DOLLAR // 10**_MONEY_DIGITS:
        return format_amount(BudgetUnit.USD, nanos)
    return format_amount(BudgetUnit.USD, round(nanos, _MONEY_DIGITS - 9))


def call_price(nanos: int | None) -> str:
    """The cost of a call, as ``money``; an unknown price in words."""
    return "no known price" if nanos is None else money(nanos)


def unit_amount(of: int | None, unit: BudgetUnit) -> str:
    """So much of a budget's unit; ? where nobody knows."""
    if of is None:
        return UNKNOWN
    return money(of) if unit is BudgetUnit.USD else f"{of:,}"


def share(part: int | None, whole: int) -> str:
    """A part in percent of the whole; ? where nobody knows it."""
    return UNKNOWN if part is None or whole <= 0 else f"{part * _PERCENT / whole:.1f} %"


def feature_name(name: str) -> str:
    """A feature, or whose calls are meant."""
    return {EVERY: "every feature", "": "(none)"}.get(name, name)


def subject_name(name: str) -> str:
    """The owner of a budget's counter or of an objective."""
    return {EVERY: "everyone", "": "(nobody named)"}.get(name, name)


def level_name(name: str) -> str:
    """A fallback level, or what calls ask for."""
    return name or "as asked"


def call_ending(call: ReroutedCall) -> str:
    """The outcome of a rerouted call, with its error's code; "" where it was answered."""
    ending = _ENDS.get(call.outcome, "")
    return f"{ending}: {call.error}" if ending and call.error else ending


def objective_reason(status: ObjectiveStatus) -> str:
    """The reason for an objective's state; for a healthy one, whether it keeps its error budget."""
    if status.why or status.state != "healthy" or not status.counted:
        return status.why
    is_within = status.burn is not None and status.burn <= 1
    return "within its error budget" if is_within else "not missed beyond chance"
