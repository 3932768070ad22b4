"""Builds the reservations that a call needs in each of its budgets; pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from compaction.recall.tool_index import MAX_RECALL_TOKENS
from compaction.recall.tool_index import MAX_ROUNDS as MAX_RECALL_ROUNDS
from proxy.calls.attempts.abandoned_attempts import is_abandoned
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.catalog.entries import Route
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.answers.tiers import leaves_tier_open
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from slo import window
from slo.budgets import budget as budgets
from slo.budgets.budget import (
    Budget,
    BudgetIndex,
    BudgetUnit,
    HoldPolicy,
    OnStoreLoss,
    Subject,
    UnpricedPolicy,
)
from slo.budgets.counter import MAX_AMOUNT, CounterClaim, ReservationRefused
from slo.budgets.reservation_sizing import (
    CounterView,
    OutputBounds,
    PriceQuote,
    UsageBounds,
    largest_cost,
    size_reservation,
    usage_bounds,
)
from slo.usage import Usage

#: Something is held also where the use is unknown in advance: of what is used up it gets
#: nothing.
UNKNOWN: Final = UsageBounds(sure=1, typical=1, likely=1, worst=1)
#: Endpoints that cost nothing by themselves. Source: OpenAI, pricing and API reference (2026-11).
_FREE: Final = re.compile(
    r"(files|uploads|moderations|conversations)(/.+)?"
    r"|chat/completions/.+|responses/input_tokens|messages/count_tokens|[a-z_]+/[^/]+/cancel"
)


class CountedBudget(msgspec.Struct, frozen=True):
    """A budget that a call counts in.

    Attributes:
        whose: Whose counter of it.
        counter: Its name.
        ends: End of its window, in seconds since the epoch.
    """

    budget: Budget
    whose: str
    counter: str
    ends: float


class _Labels(msgspec.Struct):
    """The labels in a call's body, which may be anything."""

    metadata: Any = None


_LABELS: Final = msgspec.json.Decoder(_Labels)


def subject(call: Call, seal: Pseudonymizer, *, labelled: bool) -> Subject:
    """Subject that the call is for.

    Args:
        labelled: True if its labels matter, which are the texts of its ``metadata``.
    """
    user = call.end_user
    return Subject(
        team=call.key.team_name,
        key=call.key.id,
        feature=call.feature,
        user=seal.pseudonym(call.key.team, user.encode()) if user else "",
        labels=_labels(call.body) if labelled and call.fields is not None else {},
    )


def counted_budgets(limits: BudgetIndex, subject: Subject, call: Call) -> list[CountedBudget]:
    """The budgets the call counts in, in the windows it arrived in.

    What only reads or deletes counts as a request alone.
    """
    arrival, is_paid = call.arrived, call.method == "POST"
    return [
        CountedBudget(
            budget,
            whose,
            budgets.counter_key(budget, whose, arrival),
            window.window_end(budget.window, arrival),
        )
        for budget, whose in limits.applicable(subject)
        if is_paid or budget.unit is BudgetUnit.REQUESTS
    ]


def needs(
    units: Iterable[BudgetUnit], call: Call, prompt: Usage, output: OutputBounds, quote: PriceQuote
) -> dict[BudgetUnit, UsageBounds]:
    """Bounds of what the call may use of each unit; ``UNKNOWN`` where they cannot be predicted."""
    bounds = {}
    for unit in units:
        unit_bounds = None
        if unit is BudgetUnit.REQUESTS or call.endpoint in BILLED_ENDPOINTS:
            plain = Usage(input=prompt.prompt_tokens)
            unit_bounds = usage_bounds(unit, prompt, output, quote) or usage_bounds(
                unit, plain, output, quote
            )
        bounds[unit] = unit_bounds or UNKNOWN
    return bounds


def with_upper_bounds(
    bounds: Mapping[BudgetUnit, UsageBounds],
    call: Call,
    prompt: Usage,
    output: int,
    quote: PriceQuote,
) -> dict[BudgetUnit, UsageBounds]:
    """Bounds of what a call may use of each unit, with the most that it can use.

    Dollars are those of the dearest service tier, where the call leaves the tier to its provider.

    Args:
        prompt: The longest prompt that it can have, as it will be billed.
        output: The most that it may generate, in tokens.
    """
    return {
        unit: msgspec.structs.replace(
            unit_bounds, upper_bound=_largest_use(unit, call, prompt, output, quote)
        )
        if unit_bounds is not UNKNOWN
        else unit_bounds
        for unit, unit_bounds in bounds.items()
    }


def with_recall_rounds(
    bounds: Mapping[BudgetUnit, UsageBounds],
    call: Call,
    prompt: Usage,
    output: OutputBounds,
    quote: PriceQuote,
) -> dict[BudgetUnit, UsageBounds]:
    """Bounds of a call whose model may recall: its worst case has all rounds of that.

    Each round sends the prompt again, with what was generated and recalled before.

    Args:
        prompt: The prompt as it will be billed.
    """
    rounds = MAX_RECALL_ROUNDS + 1
    generated = MAX_RECALL_ROUNDS * rounds // 2 * output.worst
    recalled = MAX_RECALL_ROUNDS * MAX_RECALL_TOKENS
    prompts = Usage(**{name: rounds * getattr(prompt, name) for name in Usage.__struct_fields__})
    prompts = msgspec.structs.replace(prompts, input=prompts.input + generated + recalled)
    answers = msgspec.structs.replace(output, worst=rounds * output.worst)
    worst = needs(bounds, call, prompts, answers, quote)
    largest = with_upper_bounds(worst, call, prompts, answers.worst, quote)
    return {
        unit: msgspec.structs.replace(
            unit_bounds,
            worst=worst[unit].worst,
            upper_bound=largest[unit].upper_bound if unit_bounds.upper_bound else 0,
        )
        if unit_bounds is not UNKNOWN and unit is not BudgetUnit.REQUESTS
        else unit_bounds
        for unit, unit_bounds in bounds.items()
    }


def _largest_use(
    unit: BudgetUnit, call: Call, prompt: Usage, output: int, quote: PriceQuote
) -> int:
    """The most of a unit that a call can use; 0 where that is unknown."""
    if unit is BudgetUnit.REQUESTS:
        return 1
    if unit is BudgetUnit.TOKENS:
        return prompt.prompt_tokens + output
    any_tier = leaves_tier_open(call.fields.service_tier if call.fields is not None else None)
    cost = largest_cost(prompt, output, quote, any_tier=any_tier)
    if cost is None:
        plain = Usage(input=prompt.prompt_tokens)
        cost = largest_cost(plain, output, quote, any_tier=any_tier)
    return cost or 0


def first_worst_case_budget(
    counted: Iterable[CountedBudget], bounds: Mapping[BudgetUnit, UsageBounds]
) -> CountedBudget | None:
    """The first budget that holds the most a call can use, where that is known and not nothing."""
    for entry in counted:
        budget = entry.budget
        if (
            budget.hard
            and budget.hold is HoldPolicy.WORST
            and budget.unit is not BudgetUnit.REQUESTS
        ):
            may = bounds[budget.unit]
            if may is not UNKNOWN and may.worst:
                return entry
    return None


def is_uncountable(rule: UnpricedPolicy, call: Call, route: Route) -> bool:
    """True if a limit of dollars refuses a call at an unknown price, by its rule.

    What is known to cost nothing passes, and so does what only reads or deletes.
    """
    if rule is UnpricedPolicy.ALLOW or call.method != "POST" or _is_free(call.endpoint):
        return False
    is_own = not (route.upstream.needs_credentials or route.upstream.headers)
    return not (rule is UnpricedPolicy.OWN and is_own)


def first_uncountable(
    counted: Iterable[CountedBudget],
    bounds: Mapping[BudgetUnit, UsageBounds],
    call: Call,
    route: Route,
) -> CountedBudget | None:
    """The first hard budget that refuses a call because its use cannot be known afterwards.

    What is answered in the background tells neither tokens nor, where it costs any, dollars.
    """
    for entry in counted:
        if entry.budget.hard and _is_uncountable_by(entry.budget, bounds, call, route):
            return entry
    return None


def _is_uncountable_by(
    budget: Budget, bounds: Mapping[BudgetUnit, UsageBounds], call: Call, route: Route
) -> bool:
    """True if a call's use of a budget cannot be known, and the budget refuses such calls."""
    if budget.unit is BudgetUnit.TOKENS:
        return call.is_background
    if budget.unit is BudgetUnit.REQUESTS:
        return False
    may = bounds[BudgetUnit.USD]
    is_unknown = may is UNKNOWN or (may.worst > 0 and call.is_background)
    return is_unknown and is_uncountable(budget.unpriced, call, route)


def claim(counted: CountedBudget, bounds: UsageBounds, counter: CounterView) -> CounterClaim:
    """The call's claim on a budget, by the last reported state of its counter."""
    reservation = size_reservation(counted.budget, bounds, counter)
    amount, limit = min(reservation.amount, MAX_AMOUNT), reservation.limit
    return CounterClaim(counted.counter, amount, limit, counted.budget.hard, counted.ends)


def used_amount(budget: Budget, receipt: Receipt, bounds: UsageBounds = UNKNOWN) -> int:
    """The amount of a budget's unit an attempt used, as its receipt says.

    A call counts as one request. Dollars of an answer whose price is unknown, though the call's was
    known, are taken to be what was held: its service tier has no price. To a budget that holds the
    worst case, an attempt that was left while its upstream went on used all of its output limit.

    Args:
        bounds: Amount of the unit that it was expected to use.
    """
    if budget.unit is BudgetUnit.REQUESTS:
        return int(receipt.final and receipt.outcome is not Outcome.REFUSED)
    holds_worst = budget.hold is HoldPolicy.WORST and bounds is not UNKNOWN
    least = bounds.worst if holds_worst and budget.hard and is_abandoned(receipt) else 0
    if budget.unit is BudgetUnit.USD:
        used = receipt.cost_nanos
        if used is None and receipt.usage is not None and bounds is not UNKNOWN:
            used = bounds.maximum if holds_worst else bounds.likely
    else:
        usage = receipt.usage or Usage()
        used = usage.prompt_tokens + usage.generated_tokens
    return min(max(used or 0, least), MAX_AMOUNT)


def _is_free(endpoint: str) -> bool:
    """True if calls to the endpoint are never billed; False for a path that may lead elsewhere."""
    return ".." not in endpoint and "%" not in endpoint and _FREE.fullmatch(endpoint) is not None


def _labels(body: bytes) -> Mapping[str, str]:
    try:
        metadata = _LABELS.decode(body).metadata
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    if not isinstance(metadata, dict):
        return {}
    return {str(name): text for name, text in metadata.items() if isinstance(text, str)}


def holds_on_loss(budget: Budget) -> bool:
    """True if the budget limits calls also while its counters are away or empty."""
    return budget.hard and budget.on_loss is not OnStoreLoss.OPEN


def is_closed(counted: Iterable[CountedBudget]) -> bool:
    """True if one of a call's budgets refuses what is not counted."""
    return any(
        holds_on_loss(entry.budget) and entry.budget.on_loss is OnStoreLoss.CLOSED
        for entry in counted
    )


def is_worth_asking(again: CounterClaim, refused: ReservationRefused) -> bool:
    """True if a claim fits by the reported level, or would fit at another time than reported."""
    spent, reserved = refused.level.spent, refused.level.held
    fits_alone = spent + again.amount <= again.limit
    return reserved + spent + again.amount <= again.limit or fits_alone is (refused.frees is None)
