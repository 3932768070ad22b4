"""Prices per token as measured, which stand in for a price list."""

from slo.measured_rates import MeasuredRates
from slo.price import call_cost
from slo.usage import Usage

USAGE = Usage(input=1_000, cache_read=3_000, output=500)


def rates_after(calls: int = 5, nanos: int = 4_000_000) -> MeasuredRates:
    rates = MeasuredRates(0.0)
    for n in range(calls):
        rates.learn(nanos, USAGE, prefill_s=0.25, decode_s=0.75, now=float(n))
    return rates


def test_prefill_pays_for_uncached_prompt_tokens_and_decode_for_output() -> None:
    rates = rates_after().rates()

    assert rates is not None
    assert (rates.input, rates.cache_read, rates.output) == (1_000_000_000, 0, 6_000_000_000)


def test_the_measured_price_of_a_usual_call_is_what_it_cost() -> None:
    tariff = rates_after().tariff()

    assert tariff is not None
    paid = call_cost(USAGE, tariff, time=0.0)
    assert paid is not None
    assert paid.effective_nanos == 4_000_000


def test_a_price_is_unknown_until_five_calls_were_measured() -> None:
    assert rates_after(4).tariff() is None


def test_the_price_follows_the_load() -> None:
    rates = rates_after()
    for n in range(50):
        rates.learn(400_000, USAGE, prefill_s=0.25, decode_s=0.75, now=6_000.0 + n)
    measured = rates.rates()

    assert measured is not None
    assert measured.output is not None
    assert 600_000_000 <= measured.output < 700_000_000


def test_a_long_pause_leaves_an_unknown_price_rather_than_an_old_one() -> None:
    rates = rates_after()
    rates.learn(4_000_000, Usage(), prefill_s=0.0, decode_s=0.0, now=10.0**9)

    assert rates.rates() is None


def test_a_price_is_rounded_up_so_that_it_is_no_less_than_the_cost() -> None:
    rates = rates_after(nanos=4_000_001).rates()

    assert rates is not None
    assert rates.output is not None
    assert rates.output > 6_000_000_000
