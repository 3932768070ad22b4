"""How much of a budget is held for a call while it runs, in place of what nobody knows yet.

Holding what each call can cost at most makes a budget useless to many calls at once: two hundred of
them hold more than all of it before anything is spent. Holding what 19 of 20 calls stay below
refuses little, but the twentieth call may cost more, and the last dollars of a hard limit need room
for it. So a call's likely cost is held while what is free covers such surprises; where it does not,
the worst case is held, or what the calls that run may need besides, whichever is more.

Surprises do not come together. The calls that run hold, together, more than they will cost, and
that surplus grows with their number faster than the sum of their costs varies. It must cover, with
what is free, one worst case and three standard deviations. The deviation is not learned but is
the largest that costs of this mean and this worst case can have: sqrt(mean (worst - mean)) per
call (Bhatia and Davis, 2000). Asking instead for twice the worst case of every call that runs would
hold a tight budget with many calls to worst cases from the first call on.

This bounds chance, not change: outputs that from one moment on are all long, against everything
learned, may pass a limit by what the calls that then run had not held. ``Hold.WORST`` is for the
budgets to which not even that may happen.
"""

from math import ceil, isqrt

import msgspec

from slo.budget import Budget, Hold, Unit
from slo.price import STANDARD, Tariff, Terms, cost
from slo.spread import Spread
from slo.usage import Usage

#: Answers to be seen before their lengths say anything of one in twenty.
_FEW = 20
_LIKELY = 0.95
_DEVIATIONS = 3


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a call may generate.

    Attributes:
        typical: On average.
        likely: What 19 calls of 20 stay at or below.
        worst: The output limit.
    """

    typical: int
    likely: int
    worst: int


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """At what prices a call would be made.

    Attributes:
        tariff: The route's; None where they are unknown.
        at: When it is admitted, in seconds since the epoch.
        terms: On what terms it will be served.
    """

    tariff: Tariff | None
    at: float
    terms: Terms = STANDARD


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """How much a call may use of a unit: ``sure`` at least, then as ``Output`` says."""

    sure: int
    typical: int
    likely: int
    worst: int


def output(lengths: Spread | None, limit: int) -> Output:
    """What may be generated within this limit; the limit itself where little is learned.

    Args:
        lengths: How many tokens such calls generated; None where nothing is learned.
        limit: The most that may be generated.
    """
    if lengths is None or lengths.count < _FEW:
        return Output(typical=limit, likely=limit, worst=limit)
    return Output(
        typical=min(ceil(lengths.mean()), limit),
        likely=min(ceil(lengths.quantile(_LIKELY)), limit),
        worst=limit,
    )


def need(unit: Unit, prompt: Usage, output: Output, quote: Quote) -> Need | None:
    """What a call may use of this unit; None for dollars at an unknown price.

    Args:
        unit: What is counted.
        prompt: The prompt as it will be billed: read from a cache only what is known to be warm.
        output: What may be generated.
        quote: At what prices.
    """
    if unit is Unit.REQUESTS:
        return Need(sure=1, typical=1, likely=1, worst=1)
    lengths = (0, output.typical, output.likely, output.worst)
    if unit is Unit.TOKENS:
        return _need([prompt.prompt + length for length in lengths])
    known = [nanos for n in lengths if (nanos := _nanos(prompt, n, quote)) is not None]
    return _need(known) if len(known) == len(lengths) else None


def amount(budget: Budget, need: Need, spent: int, held: int) -> int:
    """How much to hold of the budget for a call.

    What is spent and held must be what the store will find; where it is known late, hold what is
    likely and have the store ask for the ``room``.

    Args:
        budget: Which.
        need: What the call may use of the budget's unit.
        spent: What is spent in the counter it counts in.
        held: What is held there for the calls that run.
    """
    if budget.hold is Hold.WORST:
        return need.worst
    if not budget.hard:
        return need.likely
    asked = room(budget, need, spent, held)
    return need.likely if asked <= budget.limit - spent - held else max(need.worst, asked)


def room(budget: Budget, need: Need, spent: int, held: int) -> int:
    """How much must be free for a call of which the likely use is held; that at least.

    The calls that run are taken to be like this one, as many as what is held pays for. With none
    it is the worst case. It is never more than what will be free once they have ended, so that
    who is refused for them is told to come back. A store that claims the likely use against
    ``limit - (room - likely)`` asks for it and holds in one step.

    Args:
        budget: Which.
        need: What the call may use of the budget's unit.
        spent: What was spent when last heard.
        held: What was held then.
    """
    if need.likely == 0:
        return need.worst
    calls = 1 - (-held // need.likely)
    mean, reach = need.typical - need.sure, need.worst - need.typical
    surprise = min(reach + _DEVIATIONS * isqrt(calls * mean * reach), calls * reach)
    surplus = calls * (need.likely - need.typical)
    asked = max(need.likely - surplus + surprise, need.likely)
    return min(asked, max(budget.limit - spent, need.worst))


def _need(amounts: list[int]) -> Need:
    sure, typical, likely, worst = amounts
    return Need(sure=sure, typical=typical, likely=likely, worst=worst)


def _nanos(prompt: Usage, length: int, quote: Quote) -> int | None:
    """What the call costs if it generates this many tokens; None if that is unknown."""
    if quote.tariff is None:
        return None
    paid = cost(msgspec.structs.replace(prompt, output=length), quote.tariff, quote.at, quote.terms)
    return None if paid is None else paid.effective_nanos
