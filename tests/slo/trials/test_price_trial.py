"""Other prices applied to past attempts, exactly."""

from fractions import Fraction

import pytest

from slo.price import PricePeriod, PriceSheet, PriceStep, Tariff, TokenRates
from slo.trials.price_trial import PricedAttempt, PriceTrial, RoutePrices, try_prices
from slo.usage import Usage

DOLLAR = 1_000_000_000
_EVER = float("-inf")
USAGE = Usage(input=1_000_000, output=500_000)


def tariff(input_dollars: int, since: float = _EVER, **tiers: int) -> Tariff:
    """Prices whose output costs twice the input, with tiers of their own input price."""
    sheets = {
        tier: PriceSheet(rates=TokenRates(input=rate * DOLLAR, output=2 * rate * DOLLAR))
        for tier, rate in {"": input_dollars, **tiers}.items()
    }
    return Tariff(periods=(PricePeriod(since=since, sheets=sheets, regions={"eu": Fraction(2)}),))


def trial(
    before: Tariff | None, after: Tariff | None, *costs: int | None, since: float = _EVER
) -> PriceTrial:
    attempts = [
        PricedAttempt(started=1_000.0, route="a", usage=USAGE, cost_nanos=cost) for cost in costs
    ]
    prices = {"a": RoutePrices(before=before, after=after, region="eu")}
    return try_prices(prices, attempts, since)


def test_the_difference_is_exact() -> None:
    assert trial(tariff(1), tariff(3), 2 * DOLLAR, 2 * DOLLAR) == PriceTrial(
        attempts=2, before_nanos=4 * DOLLAR, after_nanos=12 * DOLLAR
    )


def test_the_tier_of_an_attempt_is_that_by_which_its_cost_is_explained() -> None:
    outcome = trial(tariff(4, batch=1), tariff(8, batch=5), 2 * DOLLAR)

    assert (outcome.before_nanos, outcome.after_nanos) == (2 * DOLLAR, 10 * DOLLAR)


def test_the_uplift_of_a_region_stays() -> None:
    assert trial(tariff(1), tariff(3), 4 * DOLLAR).after_nanos == 12 * DOLLAR


def test_a_cost_that_no_terms_explain_is_left_out() -> None:
    assert trial(tariff(1), tariff(3), 7) == PriceTrial(left_out=1)


def test_an_attempt_of_unknown_cost_is_newly_priced_at_standard_service() -> None:
    assert trial(None, tariff(3), None) == PriceTrial(newly_priced=1, newly_priced_nanos=6 * DOLLAR)


@pytest.mark.parametrize("after", [None, tariff(8)])
def test_an_attempt_whose_tier_has_no_price_any_more_is_unpriced(after: Tariff | None) -> None:
    assert trial(tariff(4, batch=1), after, 2 * DOLLAR) == PriceTrial(unpriced=1)


@pytest.mark.parametrize("since", [1_001.0, 1_000.0 + 604_800.0, 5e8])
def test_prices_of_later_are_tried_as_if_they_held(since: float) -> None:
    assert trial(tariff(1), tariff(3, since), 2 * DOLLAR, since=since).after_nanos == 6 * DOLLAR


def test_tiers_are_lost_that_the_new_prices_lack() -> None:
    prices = RoutePrices(before=tariff(1, batch=1, flex=1), after=tariff(2, flex=1))

    assert prices.lost_tiers(1_000.0) == ["batch"]
    assert RoutePrices(before=tariff(1, batch=1), after=None).lost_tiers(1_000.0) == ["batch"]
    assert RoutePrices(before=None, after=tariff(2)).lost_tiers(1_000.0) == []


def test_rates_are_lost_by_size_of_the_prompt_and_at_each_later_change() -> None:
    present_rates = TokenRates(input=1, cache_read=1, output=2)
    long = PriceStep(above=200, rates=TokenRates(input=1, output=2))

    def sheet(rates: TokenRates, *steps: PriceStep, since: float = _EVER) -> PricePeriod:
        return PricePeriod(since=since, sheets={"": PriceSheet(rates=rates, steps=steps)})

    before = Tariff(periods=(sheet(present_rates),))
    partly = Tariff(periods=(sheet(present_rates), sheet(TokenRates(input=1), long, since=2_000.0)))
    assert RoutePrices(before=before, after=before).lost_rates(1_000.0) == []
    assert RoutePrices(before=None, after=before).lost_rates(1_000.0) == []
    assert RoutePrices(before=before, after=partly).lost_rates(1_000.0) == [
        "cache_read", "output", "cache_read of prompts over 200 tokens",
    ]  # fmt: skip
    assert RoutePrices(before=before, after=None).lost_rates(1_000.0) == [
        "input", "cache_read", "output",
    ]  # fmt: skip
