"""What a caller is told of its limits: why a call is refused, and how much is left; pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from proxy.errors import CallerError, Unready
from proxy.limits.claims import Counted
from proxy.routes.relay import dollars
from slo.budget import Unit
from slo.reservations import Level, Refused
from slo.window import Window

#: Seconds until a caller may ask again while the counters are away.
_AWAY: Final = 2.0
#: Seconds that a client may wait by itself before it tries again.
_SOON: Final = 60.0
_RATES: Final = (Unit.REQUESTS, Unit.TOKENS)


class OverBudget(CallerError):
    """The call does not fit into one of its budgets."""

    status = 429
    type = "rate_limit_error"

    @property
    def is_worth_retrying(self) -> bool:
        """Whether the very same call may succeed within a minute."""
        return self.retry_after is not None and self.retry_after <= _SOON


def refusal(each: Counted, refused: Refused, predicted: int, now: float) -> OverBudget:
    """Why a call is refused.

    Args:
        each: The budget that it does not fit into.
        refused: What its counter said.
        predicted: How much the call may use of it.
        now: Seconds since the epoch.
    """
    budget, level = each.budget, refused.level
    unit = budget.unit
    is_rate = budget.window is Window.MINUTE and unit in _RATES
    free = None if predicted > budget.limit else min(refused.frees or each.ends, each.ends)
    error = OverBudget(
        f"{_named(each)} has a limit of {_said(unit, budget.limit)} a {budget.window.value}:"
        f" {_said(unit, level.spent)} spent, {_said(unit, level.held)} held for calls under way,"
        f" and this call may use {_said(unit, predicted)}. {_mend(each, refused, free)}",
        code="rate_limit_exceeded" if is_rate else "budget_exceeded",
        retry_after=None if free is None else max(free - now, 0.001),
    )
    error.details = {
        "budget": budget.name,
        "scope": budget.scope,
        "of": each.whose,
        "unit": unit.value,
        "window": budget.window.value,
        "limit": _exact(unit, budget.limit),
        "spent": _exact(unit, level.spent),
        "held": _exact(unit, level.held),
        "predicted": _exact(unit, predicted),
    }
    if is_rate:
        error.headers = left([each], [level], now)
    return error


def away() -> Unready:
    """What is told while the counters are away and a budget is not to be passed unseen."""
    return Unready(
        "The gateway cannot reach the counters of your budgets just now, so it takes no calls that"
        " count in them. Try again shortly; `on_loss` says what happens then.",
        code="budgets_unavailable",
        retry_after=_AWAY,
    )


def left(counted: Sequence[Counted], levels: Sequence[Level], now: float) -> dict[str, str]:
    """How many requests and tokens are left this minute, of the tightest budget of each.

    Source: OpenAI API reference, rate limits in headers (2026-11).
    """
    headers: dict[str, str] = {}
    for unit in _RATES:
        found = [
            (max(each.budget.limit - level.spent - level.held, 0), each)
            for each, level in zip(counted, levels, strict=False)
            if each.budget.unit is unit and each.budget.window is Window.MINUTE
        ]
        if found:
            remaining, tightest = min(found, key=lambda pair: pair[0])
            headers |= {
                f"x-ratelimit-limit-{unit.value}": str(tightest.budget.limit),
                f"x-ratelimit-remaining-{unit.value}": str(remaining),
                f"x-ratelimit-reset-{unit.value}": _duration(tightest.ends - now),
            }
    return headers


def _named(each: Counted) -> str:
    scope = each.budget.scope.removeprefix("label:")
    if scope in {"organization", "user"}:
        whose = {"organization": "the organization", "user": "this user"}[scope]
    else:
        whose = f"{scope} `{each.whose}`" if each.whose else f"calls that name no {scope}"
    return f"The budget `{each.budget.name}` of {whose}"


def _mend(each: Counted, refused: Refused, free: float | None) -> str:
    if free is None:
        return "It never fits: ask for fewer tokens, or for a cheaper model."
    if refused.frees is not None:
        return "It may fit once some of them have ended."
    return f"It starts anew at {datetime.fromtimestamp(each.ends, UTC):%Y-%m-%d %H:%M} UTC."


def _said(unit: Unit, amount: int) -> str:
    return f"${dollars(amount)}" if unit is Unit.USD else f"{amount} {unit.value}"


def _exact(unit: Unit, amount: int) -> Any:  # noqa: ANN401 - dollars are texts, as in the promises
    return dollars(amount) if unit is Unit.USD else amount


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(ceil(seconds), 0), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
