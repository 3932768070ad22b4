from datetime import UTC, datetime
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slo.price import (
    BillingTerms,
    CallCost,
    OffPeakDiscount,
    PeakWindow,
    PricePeriod,
    PriceSheet,
    PriceStep,
    Tariff,
    TokenRates,
    cache_effect,
    call_cost,
    call_pricing,
)
from slo.usage import Usage

DOLLAR = 1_000_000_000
BUCKETS = ("input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output")
FULL = TokenRates(
    input=10 * DOLLAR,
    cache_read=DOLLAR,
    write_5m=12_500_000_000,
    write_30m=12_500_000_000,
    write_1h=20 * DOLLAR,
    write_12h=25 * DOLLAR,
    output=50 * DOLLAR,
)


def plain(rates: TokenRates = FULL, discount: str = "0", **more: object) -> Tariff:
    period = PricePeriod(sheets={"": PriceSheet(rates=rates)}, **more)  # type: ignore[arg-type]
    return Tariff(periods=(period,), discount=Fraction(discount))


def seconds(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


def paid(usage: Usage, tariff: Tariff, time: float = 0.0, **terms: object) -> CallCost | None:
    return call_cost(usage, tariff, time, BillingTerms(**terms))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bucket", "dollars"),
    [
        ("input", "10"),
        ("cache_read", "1"),
        ("write_5m", "12.5"),
        ("write_30m", "12.5"),
        ("write_1h", "20"),
        ("write_12h", "25"),
        ("output", "50"),
        ("reasoning", "50"),
    ],
)
def test_a_million_tokens_of_a_bucket_cost_its_price(bucket: str, dollars: str) -> None:
    nanos = int(Fraction(dollars) * DOLLAR)
    assert call_cost(Usage(**{bucket: 1_000_000}), plain(), 0.0) == CallCost(nanos, nanos)


def test_buckets_are_added_up() -> None:
    # 1,000 at $10, 2,000 at $1, 3,000 at $12.50 and 4,000 at $20, 600 at $50 per million.
    usage = Usage(
        input=1000, cache_read=2000, write_5m=3000, write_1h=4000, output=500, reasoning=100
    )
    assert call_cost(usage, plain(), 0.0) == CallCost(159_500_000, 159_500_000)


def test_no_tokens_cost_nothing_even_where_no_price_is_known() -> None:
    assert call_cost(Usage(), plain(TokenRates()), 0.0) == CallCost(0, 0)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_token_of_unknown_price_makes_the_whole_cost_unknown(bucket: str) -> None:
    priced = {name: DOLLAR for name in BUCKETS if name != bucket}
    usage = Usage(**dict.fromkeys(BUCKETS, 10))
    assert call_cost(usage, plain(TokenRates(**priced)), 0.0) is None
    spared = Usage(**dict.fromkeys(priced, 10))
    assert call_cost(spared, plain(TokenRates(**priced)), 0.0) is not None


@pytest.mark.parametrize(
    ("nanos_per_million", "tokens", "nanos"),
    [(499_999, 1, 0), (500_000, 1, 1), (1_499_999, 1, 1), (1_500_000, 1, 2), (500_000, 3, 2)],
)
def test_a_cost_is_rounded_once_and_halves_go_up(
    nanos_per_million: int, tokens: int, nanos: int
) -> None:
    assert call_cost(
        Usage(input=tokens), plain(TokenRates(input=nanos_per_million)), 0.0
    ) == CallCost(nanos, nanos)


def test_a_discount_lowers_the_effective_cost_only_and_before_rounding() -> None:
    tariff = plain(TokenRates(input=1_500_000), discount="0.12")
    # 1.5 nano-dollars at list, 1.32 after the discount: 2 and 1.
    assert call_cost(Usage(input=1), tariff, 0.0) == CallCost(2, 1)


def test_the_price_is_the_one_valid_in_the_second_of_the_call() -> None:
    change = seconds(2026, 10, 7)
    tariff = Tariff(
        periods=(
            PricePeriod(sheets={"": PriceSheet(rates=TokenRates(cache_read=200_000_000))}),
            PricePeriod(
                since=change, sheets={"": PriceSheet(rates=TokenRates(cache_read=100_000_000))}
            ),
        )
    )
    usage = Usage(cache_read=1_000_000)
    assert call_cost(usage, tariff, change - 0.001) == CallCost(200_000_000, 200_000_000)
    assert call_cost(usage, tariff, change) == CallCost(100_000_000, 100_000_000)


def test_before_the_first_known_price_the_cost_is_unknown() -> None:
    tariff = Tariff(periods=(PricePeriod(since=100.0, sheets={"": PriceSheet(rates=FULL)}),))
    assert call_cost(Usage(input=1), tariff, 99.9) is None
    assert call_cost(Usage(input=1), Tariff(periods=()), 99.9) is None


HAIKU = Tariff(
    periods=(
        PricePeriod(
            sheets={
                "": PriceSheet(
                    rates=TokenRates(input=100_000_000, cache_read=10_000_000, output=500_000_000),
                    steps=(
                        PriceStep(
                            above=100_000,
                            rates=TokenRates(
                                input=500_000_000, cache_read=50_000_000, output=2_500_000_000
                            ),
                        ),
                    ),
                )
            }
        ),
    )
)


def test_a_long_prompt_makes_the_whole_call_dearer_cached_tokens_and_output_included() -> None:
    below = Usage(input=40_000, cache_read=60_000, output=1000)
    above = Usage(input=40_001, cache_read=60_000, output=1000)
    assert call_cost(below, HAIKU, 0.0) == CallCost(5_100_000, 5_100_000)
    assert call_cost(above, HAIKU, 0.0) == CallCost(25_500_500, 25_500_500)


def test_of_several_steps_the_highest_passed_counts() -> None:
    sheet = PriceSheet(
        rates=TokenRates(input=1),
        steps=(
            PriceStep(above=10, rates=TokenRates(input=2)),
            PriceStep(above=20, rates=TokenRates(input=3)),
        ),
    )
    assert [sheet.rates_for(prompt).input for prompt in (10, 11, 20, 21)] == [1, 2, 2, 3]


def test_a_service_tier_that_is_not_listed_has_no_known_price() -> None:
    sheets = {"": PriceSheet(rates=FULL), "batch": PriceSheet(rates=TokenRates(input=5 * DOLLAR))}
    tariff = Tariff(periods=(PricePeriod(sheets=sheets),))
    million = Usage(input=1_000_000)
    assert paid(million, tariff, service_tier="batch") == CallCost(5 * DOLLAR, 5 * DOLLAR)
    assert paid(million, tariff, service_tier="flex") is None
    assert paid(Usage(write_12h=1), tariff, service_tier="batch") is None


def test_batch_region_fast_and_discount_multiply() -> None:
    sheets = {"": PriceSheet(rates=FULL), "batch": PriceSheet(rates=TokenRates(input=5 * DOLLAR))}
    period = PricePeriod(sheets=sheets, regions={"us": Fraction("1.1")}, fast=Fraction(2))
    tariff = Tariff(periods=(period,), discount=Fraction("0.1"))
    million = Usage(input=1_000_000)
    assert paid(million, tariff, service_tier="batch", region="us") == CallCost(
        5_500_000_000, 4_950_000_000
    )
    assert paid(million, tariff, region="us", fast=True) == CallCost(22 * DOLLAR, 19_800_000_000)
    assert paid(million, tariff, region="eu") == CallCost(10 * DOLLAR, 9 * DOLLAR)


def test_fast_mode_without_a_listed_factor_has_no_known_price() -> None:
    assert paid(Usage(input=1), plain(), fast=True) is None


WEEKDAYS = frozenset(range(5))
DEEPSEEK = plain(
    TokenRates(input=300_000_000),
    off_peak=OffPeakDiscount(
        factor=Fraction("0.5"),
        peak=(
            PeakWindow(weekdays=WEEKDAYS, start=3600, end=4 * 3600),
            PeakWindow(weekdays=WEEKDAYS, start=6 * 3600, end=10 * 3600),
        ),
        holidays=frozenset({int(seconds(2026, 10, 1) // 86_400)}),
    ),
)


@pytest.mark.parametrize(
    ("moment", "nanos"),
    [
        ((2026, 11, 20, 0, 59, 59), 150_000_000),  # a Friday
        ((2026, 11, 20, 1, 0, 0), 300_000_000),
        ((2026, 11, 20, 3, 59, 59), 300_000_000),
        ((2026, 11, 20, 4, 0, 0), 150_000_000),
        ((2026, 11, 20, 5, 59, 59), 150_000_000),
        ((2026, 11, 20, 6, 0, 0), 300_000_000),
        ((2026, 11, 20, 9, 59, 59), 300_000_000),
        ((2026, 11, 20, 10, 0, 0), 150_000_000),
        ((2026, 11, 21, 2, 0, 0), 150_000_000),  # a Saturday
        ((2026, 11, 22, 7, 0, 0), 150_000_000),
        ((2026, 11, 23, 7, 0, 0), 300_000_000),
        ((2026, 10, 1, 2, 0, 0), 150_000_000),  # a holiday on a Thursday
        ((2026, 10, 2, 2, 0, 0), 300_000_000),
    ],
)
def test_off_peak_hours_begin_and_end_to_the_second(moment: tuple[int, ...], nanos: int) -> None:
    assert call_cost(Usage(input=1_000_000), DEEPSEEK, seconds(*moment)) == CallCost(nanos, nanos)


counts = st.integers(0, 2_000_000)
usages = st.builds(Usage, **dict.fromkeys((*BUCKETS, "reasoning"), counts))
prices = st.integers(0, 200 * DOLLAR)
rates = st.builds(TokenRates, **dict.fromkeys(BUCKETS, prices))
fractions = st.fractions(0, 1, max_denominator=1000)
terms = st.builds(
    BillingTerms,
    service_tier=st.sampled_from(["", "batch"]),
    region=st.sampled_from(["", "us"]),
    fast=st.booleans(),
)


@st.composite
def tariffs(draw: st.DrawFn) -> Tariff:
    period = PricePeriod(
        sheets={"": PriceSheet(rates=draw(rates)), "batch": PriceSheet(rates=draw(rates))},
        regions={"us": Fraction(11, 10)},
        fast=Fraction(2),
        off_peak=draw(st.none() | st.just(OffPeakDiscount(factor=Fraction(1, 2), peak=()))),
    )
    return Tariff(periods=(period,), discount=draw(fractions))


def expect_cost(cost: CallCost | None) -> CallCost:
    assert cost is not None
    return cost


@given(usages, tariffs(), terms)
def test_a_cost_is_whole_and_never_above_its_list_price(
    usage: Usage, tariff: Tariff, terms: BillingTerms
) -> None:
    cost = expect_cost(call_cost(usage, tariff, 0.0, terms))
    assert type(cost.list_nanos) is int
    assert type(cost.effective_nanos) is int
    assert 0 <= cost.effective_nanos <= cost.list_nanos


@pytest.mark.slow
@given(usages, tariffs(), terms)
def test_a_cost_is_the_sum_over_its_buckets_but_for_one_rounding_each(
    usage: Usage, tariff: Tariff, terms: BillingTerms
) -> None:
    names = (*BUCKETS, "reasoning")
    whole = expect_cost(call_cost(usage, tariff, 0.0, terms)).list_nanos
    parts = [
        expect_cost(call_cost(Usage(**{name: getattr(usage, name)}), tariff, 0.0, terms)).list_nanos
        for name in names
    ]
    assert abs(whole - sum(parts)) <= ceil((len(names) + 1) / 2)


@pytest.mark.slow
@given(usages, tariffs(), terms, st.sampled_from((*BUCKETS, "reasoning")), counts)
def test_more_tokens_never_cost_less(
    usage: Usage, tariff: Tariff, terms: BillingTerms, bucket: str, more: int
) -> None:
    grown = {name: getattr(usage, name) for name in (*BUCKETS, "reasoning")}
    grown[bucket] += more
    dearer = expect_cost(call_cost(Usage(**grown), tariff, 0.0, terms))
    cheaper = expect_cost(call_cost(usage, tariff, 0.0, terms))
    assert dearer.list_nanos >= cheaper.list_nanos
    assert dearer.effective_nanos >= cheaper.effective_nanos


@pytest.mark.slow
@given(usages, tariffs())
def test_a_cost_equals_that_of_exact_fractions(usage: Usage, tariff: Tariff) -> None:
    sheet = tariff.periods[0].sheets[""].rates
    exact = Fraction(usage.reasoning * (sheet.output or 0))
    exact += sum(getattr(usage, name) * getattr(sheet, name) for name in BUCKETS)
    off_peak = tariff.periods[0].off_peak
    exact *= Fraction(1, 1_000_000) * (off_peak.factor if off_peak else 1)
    cost = expect_cost(call_cost(usage, tariff, 0.0))
    assert cost.list_nanos == (exact + Fraction(1, 2)) // 1
    assert cost.effective_nanos == (exact * (1 - tariff.discount) + Fraction(1, 2)) // 1


@pytest.mark.slow
@given(usages, tariffs(), terms, st.lists(counts))
def test_a_prompt_is_priced_with_many_outputs_as_with_each(
    usage: Usage, tariff: Tariff, terms: BillingTerms, outputs: list[int]
) -> None:
    prompt = replace(usage, output=0, reasoning=0)
    prices = call_pricing(prompt, tariff, 0.0, terms)
    assert prices is not None
    assert prices.effective_nanos(prompt, outputs) == [
        expect_cost(call_cost(replace(prompt, output=output), tariff, 0.0, terms)).effective_nanos
        for output in outputs
    ]


@pytest.mark.parametrize("missing", ["input", "output"])
def test_the_cost_of_prompt_and_output_is_unknown_where_a_price_is(missing: str) -> None:
    tariff = plain(replace(FULL, **{missing: None}))
    prompt = Usage(input=1)
    prices = call_pricing(prompt, tariff, 0.0)
    assert prices is not None
    assert prices.effective_nanos(prompt, [0, 1]) is None
    free = prices.effective_nanos(Usage(), [0, 0])
    assert free == [0, 0]


@given(
    usage=st.builds(Usage, **{name: st.integers(0, 10**6) for name in (*BUCKETS, "reasoning")}),
    fast=st.booleans(),
)
def test_without_its_cache_a_call_would_cost_what_plain_input_does(
    *, usage: Usage, fast: bool
) -> None:
    tariff, terms = plain(fast=Fraction("1.5"), discount="0.1"), BillingTerms(fast=fast)
    effect = cache_effect(usage, tariff, 0.0, terms)
    uncached = Usage(input=usage.prompt_tokens, output=usage.output, reasoning=usage.reasoning)

    assert effect is not None
    assert effect.read_saved_nanos >= 0
    with_cache, without = (expect_cost(call_cost(u, tariff, 0.0, terms)) for u in (usage, uncached))
    difference = without.list_nanos - with_cache.list_nanos
    assert abs(effect.read_saved_nanos - effect.write_extra_nanos - difference) <= 2


def test_the_effect_of_a_cache_of_unknown_price_is_unknown() -> None:
    tariff = plain(replace(FULL, cache_read=None))

    assert cache_effect(Usage(input=5, cache_read=5), tariff, 0.0) is None
    assert cache_effect(Usage(input=5), tariff, 0.0) is not None
    assert cache_effect(Usage(input=5), Tariff(periods=()), 0.0) is None


def test_a_tariff_that_names_no_discount_has_none() -> None:
    tariff = Tariff(periods=plain().periods)

    assert call_cost(Usage(input=7), tariff, 0.0) == CallCost(70_000, 70_000)
