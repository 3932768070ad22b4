"""The cost of a call: published prices as exact integers, and one rounding at the end.

A price is nano-dollars (1e-9 US dollars) per million tokens, so $2.50 per million is
2_500_000_000. Factors (a discount, a regional uplift) are fractions. Nothing here is a float but
the time of the call.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction

import msgspec

from slo.usage import Usage

_MILLION = 1_000_000
_DAY = 86_400
_WHOLE = Fraction(1)
NO_DISCOUNT = Fraction(0)
"""The discount of a route without one."""


class BillingTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms on which a call was served.

    Attributes:
        service_tier: "" for standard, else ``batch``, ``flex``, ``priority``, ``ultrafast``.
        region: "" for anywhere, else where processing was bound to, such as ``us`` or ``eu``.
        fast: True if the provider's fast mode was on.
    """

    service_tier: str = ""
    region: str = ""
    fast: bool = False


STANDARD_TERMS = BillingTerms()


class CallCost(msgspec.Struct, frozen=True):
    """The cost of a call, in nano-dollars.

    Attributes:
        list_nanos: At the published prices valid when it was made.
        effective_nanos: The same after the route's contracted discount.
    """

    list_nanos: int
    effective_nanos: int


class CacheEffect(msgspec.Struct, frozen=True):
    """The effect of a provider's cache on a call's list cost, in nano-dollars.

    Attributes:
        read_saved_nanos: Amount that the tokens it read cost less than plain input.
        write_extra_nanos: Amount that the tokens it wrote cost more; below 0 where they cost less.
    """

    read_saved_nanos: int
    write_extra_nanos: int


class TokenRates(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-dollars per million tokens of each bucket; None where the price is unknown."""

    input: int | None = None
    cache_read: int | None = None
    write_5m: int | None = None
    write_30m: int | None = None
    write_1h: int | None = None
    write_12h: int | None = None
    output: int | None = None


class PriceStep(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of the whole call once its prompt, cached tokens included, is above a size."""

    above: int
    rates: TokenRates


class PriceSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one service tier; ``steps`` ascend."""

    rates: TokenRates
    steps: tuple[PriceStep, ...] = ()

    def rates_for(self, prompt: int) -> TokenRates:
        """The rates of a call with this many prompt tokens."""
        rates = self.rates
        for step in self.steps:
            if prompt <= step.above:
                break
            rates = step.rates
        return rates


class PeakWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A span of hours on some weekdays, in UTC.

    Attributes:
        weekdays: Monday is 0.
        start: Seconds since midnight; included.
        end: Seconds since midnight; excluded.
    """

    weekdays: frozenset[int]
    start: int
    end: int


class OffPeakDiscount(msgspec.Struct, frozen=True, kw_only=True):
    """A factor on every rate, outside the peak windows and on holidays.

    Attributes:
        peak: Windows in which it does not apply.
        holidays: Days since 1970-01-01 (UTC) that have no peak.
    """

    factor: Fraction
    peak: tuple[PeakWindow, ...]
    holidays: frozenset[int] = frozenset()

    def at(self, time: float) -> Fraction:
        """The factor at this time, in seconds since the epoch."""
        day, second = divmod(time, _DAY)
        weekday = (int(day) + 3) % 7  # 1970-01-01 was a Thursday
        is_peak = int(day) not in self.holidays and any(
            weekday in window.weekdays and window.start <= second < window.end
            for window in self.peak
        )
        return _WHOLE if is_peak else self.factor


class PricePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Published prices from one moment on.

    Attributes:
        since: Seconds since the epoch.
        sheets: By service tier; "" is the standard one. A tier that is not here has no known price.
        regions: The uplift of processing bound to a region; a region that is not here has none.
        fast: The factor of fast mode; None where its price is unknown.
    """

    since: float = float("-inf")
    sheets: Mapping[str, PriceSheet]
    regions: Mapping[str, Fraction] = {}
    fast: Fraction | None = None
    off_peak: OffPeakDiscount | None = None

    def factor(self, time: float, terms: BillingTerms) -> Fraction | None:
        """The factor on all rates; None if it is unknown."""
        factor = self.regions.get(terms.region, _WHOLE)
        if self.off_peak is not None:
            factor *= self.off_peak.at(time)
        if terms.fast:
            return None if self.fast is None else factor * self.fast
        return factor


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """One route's prices through time.

    Attributes:
        periods: Ascending by ``since``.
        discount: The contracted part, 0 to 1, that is taken off the published price.
    """

    periods: tuple[PricePeriod, ...]
    discount: Fraction = NO_DISCOUNT

    def period(self, time: float) -> PricePeriod | None:
        """The prices valid at this time; None before the first known."""
        for period in reversed(self.periods):
            if period.since <= time:
                return period
        return None

    def next_change(self, time: float) -> float | None:
        """Time of the next price change after this time; None if none is known."""
        return next((period.since for period in self.periods if period.since > time), None)


class CallPricing(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of one call, which do not depend on its output.

    Attributes:
        numerator: Factor on the rates, as published.
        denominator: Divisor of the result.
        effective_numerator: Factor on the rates, after the contracted discount.
        effective_denominator: Divisor of that result.
    """

    rates: TokenRates
    numerator: int
    denominator: int
    effective_numerator: int
    effective_denominator: int

    def cost(self, usage: Usage) -> CallCost | None:
        """The cost of this usage; None if the price of any token of it is unknown."""
        total = _output_total(usage.output + usage.reasoning, self.rates)
        prompt = _prompt_total(usage, self.rates)
        if total is None or prompt is None:
            return None
        total += prompt
        listed = _divide_half_up(total * self.numerator, self.denominator)
        factor = (self.effective_numerator, self.effective_denominator)
        if factor == (self.numerator, self.denominator):
            return CallCost(listed, listed)
        return CallCost(listed, _divide_half_up(total * factor[0], factor[1]))

    def cache_effect(self, usage: Usage) -> CacheEffect | None:
        """The effect of the cache on this usage's list cost; None if a price is unknown."""
        rates = self.rates
        cached = Usage(cache_read=usage.cache_read)
        written = Usage(
            write_5m=usage.write_5m,
            write_30m=usage.write_30m,
            write_1h=usage.write_1h,
            write_12h=usage.write_12h,
        )
        effects = []
        for usage_part in (cached, written):
            plain = _prompt_total(Usage(input=usage_part.prompt_tokens), rates)
            actual = _prompt_total(usage_part, rates)
            if plain is None or actual is None:
                return None
            effects.append((plain - actual) * self.numerator)
        saved, extra = effects[0], -effects[1]
        return CacheEffect(
            _divide_half_up(saved, self.denominator), _divide_half_up(extra, self.denominator)
        )

    def effective_nanos(self, prompt: Usage, outputs: Collection[int]) -> list[int] | None:
        """The effective nano-dollars of a prompt with each of these outputs; None if unknown.

        Args:
            prompt: A usage that has generated nothing.
        """
        base, rate = _prompt_total(prompt, self.rates), self.rates.output
        if base is None:
            return None
        if rate is None:
            if any(outputs):
                return None
            rate = 0
        numerator, denominator = self.effective_numerator, self.effective_denominator
        return [
            _divide_half_up((base + output * rate) * numerator, denominator) for output in outputs
        ]


def call_pricing(
    usage: Usage, tariff: Tariff, time: float, terms: BillingTerms = STANDARD_TERMS
) -> CallPricing | None:
    """The prices of a call made at ``time``; None if they are unknown.

    Args:
        time: Time of the call, in seconds since the epoch.
    """
    period = tariff.period(time)
    sheet = period.sheets.get(terms.service_tier) if period is not None else None
    if period is None or sheet is None:
        return None
    numerator, denominator = 1, _MILLION
    if period.off_peak is not None or terms.region or terms.fast:
        factor = period.factor(time, terms)
        if factor is None:
            return None
        numerator, denominator = factor.numerator, _MILLION * factor.denominator
    effective_numerator, effective_denominator = numerator, denominator
    if (off := tariff.discount) is not NO_DISCOUNT:
        effective_numerator *= off.denominator - off.numerator
        effective_denominator *= off.denominator
    return CallPricing(
        rates=sheet.rates_for(usage.prompt_tokens) if sheet.steps else sheet.rates,
        numerator=numerator,
        denominator=denominator,
        effective_numerator=effective_numerator,
        effective_denominator=effective_denominator,
    )


def cache_effect(
    usage: Usage, tariff: Tariff, time: float, terms: BillingTerms = STANDARD_TERMS
) -> CacheEffect | None:
    """The effect of the cache on a call's list cost; None if a price is unknown."""
    pricing = call_pricing(usage, tariff, time, terms)
    return None if pricing is None else pricing.cache_effect(usage)


def call_cost(
    usage: Usage, tariff: Tariff, time: float, terms: BillingTerms = STANDARD_TERMS
) -> CallCost | None:
    """The cost of a call made at ``time``; None if the price of any token of it is unknown."""
    pricing = call_pricing(usage, tariff, time, terms)
    return None if pricing is None else pricing.cost(usage)


def _prompt_total(usage: Usage, rates: TokenRates) -> int | None:
    """Prompt tokens times rates, in nano-dollars times a million; None if a rate is unknown."""
    total = 0
    priced = [(usage.input, rates.input), (usage.cache_read, rates.cache_read)]
    if usage.cache_write_tokens:
        priced += (
            (usage.write_5m, rates.write_5m),
            (usage.write_30m, rates.write_30m),
            (usage.write_1h, rates.write_1h),
            (usage.write_12h, rates.write_12h),
        )
    for tokens, rate in priced:
        if tokens:
            if rate is None:
                return None
            total += tokens * rate
    return total


def _output_total(tokens: int, rates: TokenRates) -> int | None:
    """Generated tokens times their rate, in nano-dollars times a million; None if unknown."""
    if not tokens:
        return 0
    return None if rates.output is None else tokens * rates.output


def _divide_half_up(amount: int, parts: int) -> int:
    """``amount / parts`` to the nearest integer, halves upwards."""
    return (2 * amount + parts) // (2 * parts)
