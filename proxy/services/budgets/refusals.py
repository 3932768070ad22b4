"""Errors and headers about a caller's limits: why a call is refused, and what is left; pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError, Unready
from proxy.records.receipt import BUDGET_REFUSAL, dollars
from proxy.services.budgets.cost_bounds.pricing import Alternative
from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from slo.budgets.budget import BudgetUnit
from slo.budgets.ceiling import Ceiling, CostPrediction
from slo.budgets.counter import CounterLevel, ReservationRefused
from slo.window import Window

#: Seconds until a caller may ask again while the counters are away.
_RETRY_AFTER_S: Final = 2.0
#: Facts for programs about a call of unknown price.
_UNPRICED: Final = "price_unknown"
_RATES: Final = (BudgetUnit.REQUESTS, BudgetUnit.TOKENS)


class CeilingExcess(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is over its ceiling, and what would fit instead.

    Attributes:
        tokens: The output limit of each choice with which it would fit; None for none.
        field: Caller's name of its output limit.
        cheapest: The cheapest model that would do; None where none is known.
    """

    ceiling: Ceiling
    predicted: CostPrediction
    tokens: int | None = None
    field: str = "max_tokens"
    cheapest: Alternative | None = None


def budget_refusal(
    counted: CountedBudget,
    refused: ReservationRefused,
    predicted: int,
    now: float,
    cheapest: Alternative | None = None,
    field: str = "",
) -> CallerError:
    """Error for a call that a budget refuses; of one that never fits, with the field to lower.

    Args:
        predicted: Amount that the call may use of it.
        cheapest: The cheapest model with which it would fit; None where none is known.
        field: Caller's name of its output limit; "" where lowering it would not do.
    """
    budget, level = counted.budget, refused.level
    unit = budget.unit
    is_rate = budget.window is Window.MINUTE and unit in _RATES
    free = None if predicted > budget.limit else min(refused.frees or counted.ends, counted.ends)
    advice = _how_to_shrink(unit, field) if free is None else _when_it_fits(counted, refused)
    error = CallerError(
        f"{_budget_name(counted)} has a limit of {_amount_text(unit, budget.limit)} a"
        f" {budget.window.value}: {_amount_text(unit, level.spent)} spent,"
        f" {_amount_text(unit, level.held)} held for calls under way, and this call may use"
        f" {_amount_text(unit, predicted)}. {advice}{_cheaper_model(cheapest)}",
        code="rate_limit_exceeded" if is_rate else "budget_exceeded",
        param=field or None if free is None else None,
        retry_after=None if free is None else max(free - now, 0.001),
        status=429,
    )
    error.details = {
        "budget": budget.name,
        "scope": budget.scope,
        "of": counted.whose,
        "unit": unit.value,
        "window": budget.window.value,
        "limit": _amount_value(unit, budget.limit),
        "spent": _amount_value(unit, level.spent),
        "held": _amount_value(unit, level.held),
        "predicted": _amount_value(unit, predicted),
        "cheapest_alternative": _alternative(cheapest),
    }
    if is_rate:
        error.headers = rate_limit_headers([counted], [level], now)
    return error


def unpriced_refusal(limit: str, details: Mapping[str, Any], route: Route) -> CallerError:
    """The refusal of a call at an unknown price.

    Args:
        limit: Name of what limits its dollars, such as ``The budget `day```.
        details: Further facts for programs.
    """
    is_unlisted = "*" in route.name
    name = " The model is not in the catalog: check its name, or ask" if is_unlisted else " Ask"
    error = _over_uncountable_budget(
        f"{limit} limits dollars, and the price of this call on the upstream"
        f" `{route.upstream.name}` is unknown.{name} for a model whose price is known"
        " (GET /v1/models lists models). The gateway's operator"
        ' can write its price in the catalog ("0" for one that costs nothing), or'
        ' unpriced = "allow" beside the limit.',
        details,
        route,
    )
    error.param = "model"
    return error


def uncountable_refusal(counted: CountedBudget, route: Route, *, later: bool) -> CallerError:
    """The refusal of a call whose use of a budget cannot be known afterwards.

    Args:
        later: True if it is answered in the background, else its price is unknown.
    """
    budget = counted.budget
    limit = f"The budget `{budget.name}`"
    details = {"budget": budget.name, "scope": budget.scope, "of": counted.whose}
    if not later:
        return unpriced_refusal(limit, details, route)
    what, fix, code = "tokens", "hard = false", "usage_unknown"
    if budget.unit is BudgetUnit.USD:
        what, fix, code = "dollars", 'unpriced = "allow"', _UNPRICED
    error = _over_uncountable_budget(
        f"{limit} limits {what}, and what a call used that is answered in the background is not"
        " told here. Leave `background` out. The gateway's operator can write"
        f" {fix} beside the limit.",
        details,
        route,
        code,
    )
    error.param = "background"
    return error


def unbounded_refusal(counted: CountedBudget, route: Route) -> CallerError:
    """The refusal of a call whose highest use of a budget is unknown."""
    budget = counted.budget
    return _over_uncountable_budget(
        f"The budget `{budget.name}` holds the most that a call can use, which is unknown for"
        " this one: a part of its prompt is not text in its body (pictures, files, tools of the"
        " provider, what it keeps), and the catalog states no `window` for its model. The gateway's"
        ' operator can write one, or hold = "p95" beside the limit.',
        {"budget": budget.name, "scope": budget.scope, "of": counted.whose},
        route,
        "usage_unknown",
    )


def _over_uncountable_budget(
    message: str, details: Mapping[str, Any], route: Route, code: str = _UNPRICED
) -> CallerError:
    error = CallerError(message, code=code)  # no waiting helps, so it is no 429
    error.details = {**details, "upstream": route.upstream.name}
    return error


def ceiling_refusal(excess: CeilingExcess) -> CallerError:
    """Error for a call that may cost more than one call may; the same call never fits."""
    ceiling, predicted = excess.ceiling, excess.predicted
    error = CallerError(
        f"The ceiling `{ceiling.name}` lets a call cost ${dollars(ceiling.limit)} at most:"
        f" this one may cost ${dollars(predicted.worst)}, of which ${dollars(predicted.sure)} is"
        f" its prompt. {_advice(excess)}{_cheaper_model(excess.cheapest)}",
        code="cost_ceiling",
        param=None if excess.tokens is None or predicted.sure > ceiling.limit else excess.field,
        status=429,
    )
    error.details = {
        "ceiling": ceiling.name,
        "limit": dollars(ceiling.limit),
        "predicted": dollars(predicted.worst),
        "sure": dollars(predicted.sure),
        "cheapest_alternative": _alternative(excess.cheapest),
    }
    return error


def counters_unavailable() -> Unready:
    """The error while the counters are away and a budget may not be passed uncounted."""
    return Unready(
        "The gateway cannot reach the counters of your budgets just now, so it takes no calls that"
        " count in them. Try again shortly; `on_loss` says what happens then.",
        code="budgets_unavailable",
        retry_after=_RETRY_AFTER_S,
    )


def rate_limit_headers(
    counted: Sequence[CountedBudget], levels: Sequence[CounterLevel], now: float
) -> dict[str, str]:
    """Headers with the requests and tokens left this minute, by the tightest budget of each.

    Source: OpenAI API reference, rate limits in headers (2026-11).
    """
    headers: dict[str, str] = {}
    for unit in _RATES:
        candidates = [
            (max(entry.budget.limit - level.spent - level.held, 0), entry)
            for entry, level in zip(counted, levels, strict=False)
            if entry.budget.unit is unit and entry.budget.window is Window.MINUTE
        ]
        if candidates:
            remaining, tightest = min(candidates, key=lambda pair: pair[0])
            headers |= {
                f"x-ratelimit-limit-{unit.value}": str(tightest.budget.limit),
                f"x-ratelimit-remaining-{unit.value}": str(remaining),
                f"x-ratelimit-reset-{unit.value}": _duration(tightest.ends - now),
            }
    return headers


def _budget_name(counted: CountedBudget) -> str:
    scope = counted.budget.scope.removeprefix("label:")
    if scope in {"organization", "user"}:
        whose = {"organization": "the organization", "user": "this user"}[scope]
    else:
        whose = f"{scope} `{counted.whose}`" if counted.whose else f"calls that name no {scope}"
    return BUDGET_REFUSAL.format(counted.budget.name) + whose


def _how_to_shrink(unit: BudgetUnit, field: str) -> str:
    """Advice for a call that needs more than the whole limit."""
    smaller = f"Lower `{field}` or send a shorter prompt" if field else "Send a shorter prompt"
    cheaper = ", or ask for a cheaper model" if unit is BudgetUnit.USD else ""
    return f"That is more than the whole limit, so waiting does not help. {smaller}{cheaper}."


def _when_it_fits(counted: CountedBudget, refused: ReservationRefused) -> str:
    if refused.frees is not None:
        return "Try again once some of those calls have ended."
    begins = datetime.fromtimestamp(counted.ends, UTC)
    return f"A new {counted.budget.window.value} begins at {begins:%Y-%m-%d %H:%M} UTC."


def _advice(excess: CeilingExcess) -> str:
    """Advice on what to ask for instead of the same model."""
    if excess.predicted.sure > excess.ceiling.limit:
        return "Send a shorter prompt, or ask for a cheaper model."
    if excess.tokens is None:
        return "Ask for fewer tokens, or for a cheaper model."
    return f"Lower `{excess.field}` to {excess.tokens}, and it fits."


def _cheaper_model(cheapest: Alternative | None) -> str:
    if cheapest is None:
        return ""
    return f" The model `{cheapest.model}` would fit: there it may cost ${dollars(cheapest.nanos)}."


def _alternative(cheapest: Alternative | None) -> dict[str, str] | None:
    if cheapest is None:
        return None
    return {"model": cheapest.model, "predicted": dollars(cheapest.nanos)}


def _amount_text(unit: BudgetUnit, amount: int) -> str:
    if unit is BudgetUnit.USD:
        return f"${dollars(amount)}"
    return f"{amount} {unit.value.removesuffix('s') if amount == 1 else unit.value}"


def _amount_value(unit: BudgetUnit, amount: int) -> Any:  # noqa: ANN401 - dollars are texts, as in the policies
    return dollars(amount) if unit is BudgetUnit.USD else amount


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(ceil(seconds), 0), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
