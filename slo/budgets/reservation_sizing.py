"""Sizes reservations: how much of a budget is held for a call while its cost is not known.

Holding what each call can cost at most makes a budget useless to many calls at once: two hundred of
them hold more than all of it before anything is spent. Holding what 19 of 20 calls stay below
refuses little, but the twentieth call may cost more, and the last dollars of a hard limit need room
for it. So a call's likely cost is held while what is free covers such surprises; where it does not,
the worst case is held, and what the calls that run may need besides must be free. No call holds
more than it can cost: what must be free is not held, so that nothing locks what is not spent.

Surprises do not come together. The calls that run hold, together, more than they will cost, and
that surplus grows with their number, which the counter tells, faster than the sum of their costs
varies. It must cover, with what is free, one worst case and three standard deviations. The
deviation is not learned but is the largest that costs of this mean and this worst case can have:
sqrt(mean (worst - mean)) per call (Bhatia and Davis, 2000). Asking instead for twice the worst case
of every call that runs would hold a tight budget with many calls to worst cases from the first call
on.

This bounds chance, not change: outputs that from one moment on are all long, against everything
learned, may pass a limit by what the calls that then run had not held. ``HoldPolicy.WORST`` is for
the budgets to which not even that may happen.

Of calls of which nothing is learned a length is guessed. A guess may be wrong for all of them, so
it is held only while half of the limit is free; beyond that the worst case is, until some twenty
answers have said more. Those that start together on a wrong guess may pass a limit in the same way.

Many calls name no output limit, and their model's own, such as 128,000 tokens, would cost more than
a small budget has. So no more room than a fourth of the limit is kept for a call's worst case, or
eight times its likely cost: in three public traces no answer was longer than seven times what 19 of
20 stay below. Where no other call says anything, such a call's answer is guessed by a fixed length.
"""

from math import ceil, isqrt

import msgspec

from slo.budgets.budget import Budget, BudgetUnit, HoldPolicy
from slo.price import STANDARD_TERMS, BillingTerms, Tariff, call_pricing
from slo.quantile_sketch import QuantileSketch
from slo.usage import Usage

#: Answers to be seen before their lengths say anything of one in twenty.
MIN_LENGTH_SAMPLES = 20
_LIKELY_QUANTILE = 0.95
#: Length taken of an answer of which nothing is learned: what 99 of 100 stay below in those traces.
UNLEARNED_P99_OUTPUT_TOKENS = 4_096
#: The most that room is kept for: this part of a limit, or so many times the likely use.
_MAX_WORST_DIVISOR = 4
_MAX_SURPRISE_FACTOR = 8
_STANDARD_DEVIATIONS = 3
#: The part of a limit up to which a guess is held.
_MAX_GUESS_DIVISOR = 2


class OutputBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the tokens a call may generate.

    Attributes:
        typical: On average.
        likely: Value that 19 calls of 20 stay at or below.
        worst: The output limit.
        is_guessed: True if it is what calls of another kind generate.
        assumed: Length to guess where the worst case is too dear to hold, as nothing is learned;
            0 for none.
    """

    typical: int
    likely: int
    worst: int
    is_guessed: bool = False
    assumed: int = 0


class PriceQuote(msgspec.Struct, frozen=True, kw_only=True):
    """The prices at which a call would be made.

    Attributes:
        tariff: The route's; None where they are unknown.
        at: Time of admission, in seconds since the epoch.
    """

    tariff: Tariff | None
    at: float
    terms: BillingTerms = STANDARD_TERMS


class UsageBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a call's use of a unit: ``sure`` at least, then as in ``OutputBounds``.

    Attributes:
        upper_bound: Amount that it cannot pass, however wrong the count of its prompt is; 0 where
            it was not computed.
        assumed: Use with an answer of the assumed length; 0 for none.
    """

    sure: int
    typical: int
    likely: int
    worst: int
    is_guessed: bool = False
    upper_bound: int = 0
    assumed: int = 0

    @property
    def maximum(self) -> int:
        """The largest amount that the call can use."""
        return max(self.worst, self.upper_bound)


class CounterView(msgspec.Struct, frozen=True, kw_only=True):
    """A view of a counter: the amount spent, the amount held, and for how many calls."""

    spent: int = 0
    held: int = 0
    running: int = 0


class ReservationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The amount to hold for a call, and the limit of spent and held amounts with it."""

    amount: int
    limit: int


def output_bounds(lengths: QuantileSketch | None, limit: int) -> OutputBounds:
    """The bounds of output tokens within this limit; all of it where little is learned.

    Args:
        lengths: Numbers of tokens that such calls generated; None where nothing is learned.
        limit: The most that may be generated.
    """
    if lengths is None or lengths.total_count < MIN_LENGTH_SAMPLES:
        assumed = UNLEARNED_P99_OUTPUT_TOKENS if limit > UNLEARNED_P99_OUTPUT_TOKENS else 0
        return OutputBounds(typical=limit, likely=limit, worst=limit, assumed=assumed)
    return OutputBounds(
        typical=min(ceil(lengths.mean()), limit),
        likely=min(ceil(lengths.quantile(_LIKELY_QUANTILE)), limit),
        worst=limit,
    )


def usage_bounds(
    unit: BudgetUnit, prompt: Usage, output: OutputBounds, quote: PriceQuote
) -> UsageBounds | None:
    """The bounds of a call's use of this unit; None for dollars at an unknown price.

    Args:
        prompt: The prompt as it will be billed: read from a cache only what is known to be warm.
    """
    if unit is BudgetUnit.REQUESTS:
        return UsageBounds(sure=1, typical=1, likely=1, worst=1)
    lengths = (0, output.typical, output.likely, output.worst, output.assumed)
    guessed = output.is_guessed
    if unit is BudgetUnit.TOKENS:
        return _bounds_of([prompt.prompt_tokens + length for length in lengths], is_guessed=guessed)
    if quote.tariff is None:
        return None
    prices = call_pricing(prompt, quote.tariff, quote.at, quote.terms)
    nanos = prices.effective_nanos(prompt, lengths) if prices is not None else None
    return None if nanos is None else _bounds_of(nanos, is_guessed=guessed)


def largest_cost(prompt: Usage, output: int, quote: PriceQuote, *, any_tier: bool) -> int | None:
    """The effective nano-dollars of a call at most; None at an unknown price.

    Args:
        any_tier: True if the provider chooses the service tier, and may choose the dearest.
    """
    period = quote.tariff.period(quote.at) if quote.tariff is not None else None
    if quote.tariff is None or period is None:
        return None
    largest = None
    for tier in period.sheets if any_tier else (quote.terms.service_tier,):
        terms = quote.terms
        if tier != terms.service_tier:
            terms = msgspec.structs.replace(terms, service_tier=tier)
        prices = call_pricing(prompt, quote.tariff, quote.at, terms)
        nanos = prices.effective_nanos(prompt, (output,)) if prices is not None else None
        if nanos is not None and (largest is None or nanos[0] > largest):
            largest = nanos[0]
    return largest


def size_reservation(budget: Budget, need: UsageBounds, counter: CounterView) -> ReservationRequest:
    """The reservation to request of the budget for a call; never more than its worst case.

    What the calls that run may need besides is not held but left free: it is taken off the limit.
    So a store decides in one step by its own counts, and an outdated ``counter`` never makes a
    reservation larger than the call's worst case.

    Args:
        need: Amount of the budget's unit that the call may use.
    """
    limit = budget.limit
    if not budget.hard:
        return ReservationRequest(amount=need.likely, limit=limit)
    if budget.hold is HoldPolicy.WORST:
        return ReservationRequest(amount=need.maximum, limit=limit)
    need = _affordable_need(need, limit)
    beside = required_headroom(budget, need, counter) - need.likely
    within = min(limit - beside, limit // _MAX_GUESS_DIVISOR if need.is_guessed else limit)
    if counter.spent + counter.held + need.likely <= within:
        return ReservationRequest(amount=need.likely, limit=within)
    spare = limit - counter.spent - need.worst
    beside = min(_surprise_margin(need, _max_running_calls(need, counter)), spare)
    return ReservationRequest(amount=need.worst, limit=limit - max(beside, 0))


def _affordable_need(need: UsageBounds, limit: int) -> UsageBounds:
    """The need with the worst case that room is kept for: all of it where the limit is large."""
    room = limit // _MAX_WORST_DIVISOR
    if need.worst <= room:
        return need
    if need.assumed:
        need = msgspec.structs.replace(
            need, typical=need.assumed, likely=need.assumed, is_guessed=True
        )
    worst = min(need.worst, max(room, _MAX_SURPRISE_FACTOR * need.likely, need.typical))
    return msgspec.structs.replace(need, worst=worst)


def required_headroom(budget: Budget, need: UsageBounds, counter: CounterView) -> int:
    """The amount that must be free for a call of which the likely use is held; at least that use.

    The calls that run are taken to be like this one: as many as hold something, but not more than
    what is held pays for. With none it is the worst case. It is never more than what will be free
    once they have ended, so that who is refused for them is told to come back.
    """
    if need.likely == 0:
        return need.worst
    surprise = _surprise_margin(need, _max_running_calls(need, counter) + 1)
    return min(
        need.likely + max(surprise, 0), max(budget.limit - counter.spent, need.worst, need.likely)
    )


def _max_running_calls(need: UsageBounds, counter: CounterView) -> int:
    """The most calls like this one that run."""
    return min(counter.running, -(-counter.held // need.likely)) if need.likely else counter.running


def _surprise_margin(need: UsageBounds, calls: int) -> int:
    """The amount that so many calls may need beyond the likely use they hold."""
    mean, reach = need.typical - need.sure, need.worst - need.typical
    largest_need = min(reach + _STANDARD_DEVIATIONS * isqrt(calls * mean * reach), calls * reach)
    return largest_need - calls * (need.likely - need.typical)


def _bounds_of(amounts: list[int], *, is_guessed: bool) -> UsageBounds:
    sure, typical, likely, worst, assumed = amounts
    return UsageBounds(
        sure=sure,
        typical=typical,
        likely=likely,
        worst=worst,
        is_guessed=is_guessed,
        assumed=assumed if assumed > sure else 0,
    )
