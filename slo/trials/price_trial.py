"""Other prices applied to attempts that have ended: the cost they would have had."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import msgspec

from slo.price import STANDARD_TERMS, BillingTerms, PriceSheet, Tariff, TokenRates, call_cost
from slo.usage import Usage

_WEEK_S: Final = 604_800.0
_TIERS: Final = ("", "batch", "flex", "priority", "ultrafast")


class RoutePrices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of a route before and after a change; None where unknown.

    Attributes:
        region: The region to which its upstream binds processing; "" for none.
    """

    before: Tariff | None
    after: Tariff | None
    region: str = ""

    def lost_rates(self, start: float) -> Sequence[str]:
        """The standard rates known before that are unknown at some time from a moment on."""
        later = () if self.after is None else self.after.periods
        moments = [start, *(period.since for period in later if period.since > start)]
        lost = (
            f"{rate} of prompts over {prompt - 1:,} tokens" if prompt else rate
            for moment in moments
            for before, after in [(_sheet(self.before, moment), _sheet(self.after, moment))]
            for prompt in (0, *(step.above + 1 for step in (*before.steps, *after.steps)))
            for rate in _known_rates(before, prompt)
            if rate not in _known_rates(after, prompt)
        )
        return list(dict.fromkeys(lost))

    def lost_tiers(self, start: float) -> Sequence[str]:
        """The service tiers with a price before that have none from a moment on."""
        periods = [None if one is None else one.period(start) for one in (self.before, self.after)]
        before, after = ({} if period is None else period.sheets for period in periods)
        return [tier for tier in before if tier and tier not in after]


class PricedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that used tokens.

    Attributes:
        started: In seconds since the epoch.
        cost_nanos: Its cost in the ledger; None where its price was unknown.
    """

    started: float
    route: str
    usage: Usage
    cost_nanos: int | None


class PriceTrial(msgspec.Struct, kw_only=True):
    """The outcome of other prices.

    Attributes:
        attempts: Attempts whose cost is known before and after.
        before_nanos: Their cost in the ledger.
        after_nanos: Their cost at the new prices.
        newly_priced: Attempts of unknown cost that would have one.
        newly_priced_nanos: That cost, at standard service.
        left_out: Attempts whose cost in the ledger is not that of the prices before.
        unpriced: Attempts whose price would be unknown.
    """

    attempts: int = 0
    before_nanos: int = 0
    after_nanos: int = 0
    newly_priced: int = 0
    newly_priced_nanos: int = 0
    left_out: int = 0
    unpriced: int = 0


def _sheet(tariff: Tariff | None, moment: float) -> PriceSheet:
    """The standard rates of a moment, none of them known where there is no price."""
    period = None if tariff is None else tariff.period(moment)
    return PriceSheet(rates=TokenRates()) if period is None else period.sheets[""]


def _known_rates(sheet: PriceSheet, prompt: int) -> Sequence[str]:
    rates = msgspec.structs.asdict(sheet.rates_for(prompt))
    return [rate for rate, nanos in rates.items() if nanos is not None]


def try_prices(
    prices: Mapping[str, RoutePrices], attempts: Iterable[PricedAttempt], since: float
) -> PriceTrial:
    """The cost of attempts at other prices.

    Receipts do not say the terms of an attempt, such as its service tier: they are those by which
    the prices before make its cost in the ledger.

    Args:
        prices: By route.
        since: Time from which the new prices hold. Earlier attempts are tried by the same hour of
            the week after it.
    """
    trial = PriceTrial()
    for attempt in attempts:
        route = prices[attempt.route]
        terms = _terms(route, attempt)
        if terms is None:
            trial.left_out += 1
            continue
        after = _cost(route.after, attempt, _time_in_force(attempt.started, since), terms)
        if after is None:
            trial.unpriced += 1
        elif attempt.cost_nanos is None:
            trial.newly_priced += 1
            trial.newly_priced_nanos += after
        else:
            trial.attempts += 1
            trial.before_nanos += attempt.cost_nanos
            trial.after_nanos += after
    return trial


def _terms(route: RoutePrices, attempt: PricedAttempt) -> BillingTerms | None:
    """The terms that explain an attempt's cost, standard ones where it has none; else None."""
    if attempt.cost_nanos is None:
        return STANDARD_TERMS
    explaining = (
        terms
        for terms in _possible_terms(route.region)
        if _cost(route.before, attempt, attempt.started, terms) == attempt.cost_nanos
    )
    return next(explaining, None)


def _possible_terms(region: str) -> Iterator[BillingTerms]:
    """All terms, the most usual first."""
    for fast, tier, bound in product((False, True), _TIERS, dict.fromkeys((region, ""))):
        yield BillingTerms(service_tier=tier, region=bound, fast=fast)


def _cost(
    tariff: Tariff | None, attempt: PricedAttempt, moment: float, terms: BillingTerms
) -> int | None:
    cost = None if tariff is None else call_cost(attempt.usage, tariff, moment, terms)
    return None if cost is None else cost.effective_nanos


def _time_in_force(started: float, since: float) -> float:
    """The same hour of a week in which the new prices hold."""
    weeks = max(0.0, -((started - since) // _WEEK_S)) if since > started else 0.0
    return started + weeks * _WEEK_S
