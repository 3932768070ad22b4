"""What a call costs: published prices as exact integers, and one rounding at the end.

A price is nano-dollars (1e-9 US dollars) per million tokens, so $2.50 per million is
2_500_000_000. Factors (a discount, a regional uplift) are fractions. Nothing here is a float but
the time of the call.
"""

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from slo.usage import Usage

_MILLION = 1_000_000
_DAY = 86_400
_WHOLE = Fraction(1)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On what terms a call was served.

    Attributes:
        service_tier: "" for standard, else ``batch``, ``flex``, ``priority``, ``ultrafast``.
        region: "" for anywhere, else where processing was bound to, such as ``us`` or ``eu``.
        fast: Whether the provider's fast mode was on.
    """

    service_tier: str = ""
    region: str = ""
    fast: bool = False


STANDARD = Terms()


class Cost(msgspec.Struct, frozen=True):
    """What a call cost, in nano-dollars.

    Attributes:
        list_nanos: At the published prices valid when it was made.
        effective_nanos: The same after the route's contracted discount.
    """

    list_nanos: int
    effective_nanos: int


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-dollars per million tokens of each bucket; None where the price is unknown."""

    input: int | None = None
    cache_read: int | None = None
    write_5m: int | None = None
    write_30m: int | None = None
    write_1h: int | None = None
    write_12h: int | None = None
    output: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of the whole call once its prompt, cached tokens included, is above a size."""

    above: int
    rates: Rates


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one service tier; ``steps`` ascend."""

    rates: Rates
    steps: tuple[Step, ...] = ()

    def rates_for(self, prompt: int) -> Rates:
        """The rates of a call with this many prompt tokens."""
        rates = self.rates
        for step in self.steps:
            if prompt <= step.above:
                break
            rates = step.rates
        return rates


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A part of some weekdays, in UTC.

    Attributes:
        weekdays: Monday is 0.
        start: Seconds since midnight; included.
        end: Seconds since midnight; excluded.
    """

    weekdays: frozenset[int]
    start: int
    end: int


class OffPeak(msgspec.Struct, frozen=True, kw_only=True):
    """A factor on every rate, outside the peak windows and on holidays.

    Attributes:
        factor: What rates are multiplied by.
        peak: When it does not apply.
        holidays: Days since 1970-01-01 (UTC) that have no peak.
    """

    factor: Fraction
    peak: tuple[Window, ...]
    holidays: frozenset[int] = frozenset()

    def at(self, at: float) -> Fraction:
        """The factor at this time, in seconds since the epoch."""
        day, second = divmod(at, _DAY)
        weekday = (int(day) + 3) % 7  # 1970-01-01 was a Thursday
        is_peak = int(day) not in self.holidays and any(
            weekday in window.weekdays and window.start <= second < window.end
            for window in self.peak
        )
        return _WHOLE if is_peak else self.factor


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Published prices from one moment on.

    Attributes:
        since: Seconds since the epoch.
        sheets: By service tier; "" is the standard one. A tier that is not here has no known price.
        regions: The uplift of processing bound to a region; a region that is not here has none.
        fast: The factor of fast mode; None where its price is unknown.
        off_peak: Hours with another price; None for none.
    """

    since: float = float("-inf")
    sheets: Mapping[str, Sheet]
    regions: Mapping[str, Fraction] = {}
    fast: Fraction | None = None
    off_peak: OffPeak | None = None

    def factor(self, at: float, terms: Terms) -> Fraction | None:
        """What all rates are multiplied by; None where that is unknown."""
        factor = self.regions.get(terms.region, _WHOLE)
        if self.off_peak is not None:
            factor *= self.off_peak.at(at)
        if terms.fast:
            return None if self.fast is None else factor * self.fast
        return factor


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """One route's prices through time.

    Attributes:
        periods: Ascending by ``since``.
        discount: The contracted part, 0 to 1, that is taken off the published price.
    """

    periods: tuple[Period, ...]
    discount: Fraction = Fraction(0)

    def period(self, at: float) -> Period | None:
        """The prices valid at this time; None before the first known."""
        for period in reversed(self.periods):
            if period.since <= at:
                return period
        return None


def cost(usage: Usage, tariff: Tariff, at: float, terms: Terms = STANDARD) -> Cost | None:
    """What a call made ``at`` this time cost; None if the price of any token of it is unknown.

    Args:
        usage: Its tokens.
        tariff: The route's prices.
        at: When the call was made, in seconds since the epoch.
        terms: On what terms it was served.
    """
    period = tariff.period(at)
    sheet = period.sheets.get(terms.service_tier) if period is not None else None
    if period is None or sheet is None:
        return None
    total = _total(usage, sheet.rates_for(usage.prompt) if sheet.steps else sheet.rates)
    if total is None:
        return None
    parts = _MILLION
    if period.off_peak is not None or terms.region or terms.fast:
        factor = period.factor(at, terms)
        if factor is None:
            return None
        total *= factor.numerator
        parts *= factor.denominator
    listed = _half_up(total, parts)
    off = tariff.discount.numerator
    if off == 0:
        return Cost(listed, listed)
    whole = tariff.discount.denominator
    return Cost(listed, _half_up(total * (whole - off), parts * whole))


def _total(usage: Usage, rates: Rates) -> int | None:
    """Tokens times rates, in nano-dollars times a million; None if a needed rate is unknown."""
    total = 0
    for tokens, rate in (
        (usage.input, rates.input),
        (usage.cache_read, rates.cache_read),
        (usage.write_5m, rates.write_5m),
        (usage.write_30m, rates.write_30m),
        (usage.write_1h, rates.write_1h),
        (usage.write_12h, rates.write_12h),
        (usage.output + usage.reasoning, rates.output),
    ):
        if tokens:
            if rate is None:
                return None
            total += tokens * rate
    return total


def _half_up(amount: int, parts: int) -> int:
    """``amount / parts`` to the nearest integer, halves upwards; for amounts of 0 and more."""
    return (2 * amount + parts) // (2 * parts)
