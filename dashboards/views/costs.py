"""Costs over time, stacked by one dimension: what a page shows and ``/api/v1/costs`` answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import isqrt
from typing import Final, Literal

from dashboards.cost_reports import CostSums
from dashboards.report_periods import BucketUnit
from dashboards.reports import ReportPeriod, TagPart

FixedCostDimension = Literal[
    "team", "feature", "model", "key", "user", "route", "upstream", "provider"
]
CostDimension = FixedCostDimension | TagPart
"""A dimension that costs are stacked by."""
RowSort = Literal["cost", "change", "calls", "name"]
"""The order of rows: the dearest, those that grew most in dollars, most calls, by name."""

#: The value of calls that name none: no feature, no user. A filter takes it, too.
NO_VALUE: Final = "(none)"
#: The value of all that is not among the dearest.
OTHERS: Final = "(others)"
_TOKENS_PER_UNIT: Final = 1_000_000
_CALLS_PER_UNIT: Final = 1_000
#: Days before today that a forecast is made of, and how many of them it needs.
FORECAST_DAYS: Final = 28
_MIN_FORECAST_DAYS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAmounts:
    """Calls, tokens and costs, summed; costs in nano-dollars.

    Attributes:
        calls: Calls, however many attempts each took.
        attempts: Attempts to answer them.
        answered: Calls that had a first content byte: neither failed before it nor refused.
        estimated_attempts: Attempts whose usage was counted by the gateway.
        unpriced_attempts: Attempts at no known price; the costs leave them out.
        prompt_tokens: Tokens of prompts, however they were billed.
        cache_read_tokens: Those of them that a provider's cache had.
        generated_tokens: Tokens of answers, reasoning included.
        list_nanos: Known cost at published prices; null where none is known.
        cost_nanos: The same after discounts.
        idle_nanos: The part of it that no call caused: idle time of engines.
        nanos_per_call: Cost of all attempts, idle time left out, by the answered calls; null
            without these or a known cost.
        nanos_per_1k_calls: The same of 1,000 such calls.
        nanos_per_1k_attempts: The same cost, of 1,000 attempts without the last ones of calls that
            got no answer: that of a model or route, whose attempts before another answered are no
            calls of its own.
        nanos_per_1m_tokens: Cost of a million tokens of prompts and answers.
    """

    calls: int
    attempts: int
    answered: int
    errors: int
    estimated_attempts: int
    unpriced_attempts: int
    prompt_tokens: int
    cache_read_tokens: int
    generated_tokens: int
    list_nanos: int | None
    cost_nanos: int | None
    idle_nanos: int
    nanos_per_call: int | None
    nanos_per_1k_calls: int | None
    nanos_per_1k_attempts: int | None
    nanos_per_1m_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSeries:
    """One layer of the stack.

    Attributes:
        value: The value as a filter takes it: an id of a team or key; ``(none)`` for none.
        name: The same as people call it.
        is_others: True for the layer of all that is not among the dearest.
        sums: Sums of the period.
        cost_nanos: Cost of each bucket; null where none is known.
        calls: Calls of each bucket.
    """

    value: str
    name: str
    is_others: bool
    sums: CostAmounts
    before: CostAmounts
    cost_nanos: Sequence[int | None]
    calls: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostColumn:
    """A value of the second dimension of a table of costs."""

    value: str
    name: str
    is_others: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTableRow:
    """A value of the first dimension, all others together, or all together.

    Attributes:
        change_nanos: Cost less that of the earlier period; null where one is unknown.
        cells: Cost by the columns; null where none is known.
    """

    value: str
    name: str
    is_others: bool
    sums: CostAmounts
    before: CostAmounts
    change_nanos: int | None
    cells: Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """Costs by one or two dimensions: some rows and columns, and all else, which add up.

    Attributes:
        across: The dimension of the columns; null for none.
        find: A text that the names of the rows have, whatever its case.
        first_row: Number of rows before the first one here.
        row_count: Rows of all pages.
        first_column: The same of columns, the dearest first.
        others: All that is in no row here; null where that is nothing.
        grew_most: The value whose cost grew most in dollars, of those that were read; null where
            none did.
    """

    across: CostDimension | None
    sort: RowSort
    find: str
    first_row: int
    row_count: int
    first_column: int
    column_count: int
    columns: Sequence[CostColumn]
    rows: Sequence[CostTableRow]
    others: CostTableRow | None
    total: CostTableRow
    grew_most: CostTableRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayForecast:
    """Expected cost of a day to come, and its 95 % band, in nano-dollars."""

    day: date
    cost_nanos: int
    low_nanos: int
    high_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthForecast:
    """Cost of the current calendar month, and what it should come to.

    Attributes:
        month: The month, such as ``2026-11``.
        spent_nanos: Known cost so far, today included; null where no call has a known price.
        forecast_nanos: Cost of the whole month, by estimate; null where too little is known.
        low_nanos: Lower end of its 95 % band, by the spread of the known days; null likewise.
        high_nanos: Upper end.
        days: The days after today; none where too little is known.
        before_nanos: Known cost of the same days of the month before; null likewise, and in the
            first minutes of a month.
        before_first: The first of these days.
        before_last: The last, included.
        known_days: Whole days before today that the estimate is made of.
        method: The way it is computed, in a sentence.
    """

    month: str
    spent_nanos: int | None
    forecast_nanos: int | None
    known_days: int
    method: str
    low_nanos: int | None = None
    high_nanos: int | None = None
    days: Sequence[DayForecast] = ()
    before_nanos: int | None = 0
    before_first: date | None = None
    before_last: date | None = None

    @property
    def missing_days(self) -> int:
        """Whole days with costs that an estimate still needs."""
        return max(_MIN_FORECAST_DAYS - self.known_days, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsView:
    """Costs of a period.

    Attributes:
        last: The last day, included.
        starts: The beginning of each bucket, in seconds since the epoch.
        end: End of the last bucket, the same.
        filter_names: Names of teams and keys that it is filtered by, by their ids.
        series: The layers, the dearest first, and all others last.
        estimated_nanos: The part of the cost whose usage the gateway counted, as no upstream said
            it; null where a filter by users or tags hides it.
        before: Sums of the period that this one is compared with.
        before_first: The first day of that period.
        before_last: Its last day, included.
        before_end: Time at which it ends, in seconds since the epoch: on its last day at the
            quarter of an hour of now where the period goes on.
        before_nanos: Known cost of those of its buckets that stand for these, in their order, at
            most as many; null where no call has a known price.
        unattributed_nanos: Cost of calls that name no feature.
        unattributed_share: Its share of the cost; null where there was none.
        unpriced_share: The share of attempts at no known price; null without attempts.
        month: The current month so far; its filters are those of the period.
        forecast: Days to come that the chart of a period that ends today adds.
        first_call: Day of the ledger's first call, whatever the filters; null without any.
    """

    first: date
    last: date
    tz: str
    by: CostDimension
    unit: BucketUnit
    starts: Sequence[int]
    end: int
    series: Sequence[CostSeries]
    table: CostTable
    filter_names: Mapping[str, str]
    total: CostAmounts
    estimated_nanos: int | None
    before: CostAmounts
    before_first: date
    before_last: date
    before_end: int
    before_nanos: Sequence[int | None]
    unattributed_nanos: int
    unattributed_share: float | None
    unpriced_share: float | None
    month: MonthForecast
    forecast: Sequence[DayForecast]
    first_call: date | None = None


def cost_amounts(sums: CostSums, idle_nanos: int = 0) -> CostAmounts:
    """Sums as a view shows them, with what a unit costs.

    Args:
        sums: Calls, tokens and costs.
        idle_nanos: The part of the costs that no call caused, in nano-dollars.
    """
    called = None if sums.cost_nanos is None else sums.cost_nanos - idle_nanos
    return CostAmounts(
        calls=sums.calls,
        attempts=sums.attempts,
        answered=sums.answered,
        errors=sums.errors,
        estimated_attempts=sums.estimated,
        unpriced_attempts=sums.unpriced,
        prompt_tokens=sums.usage.prompt_tokens,
        cache_read_tokens=sums.usage.cache_read,
        generated_tokens=sums.usage.generated_tokens,
        list_nanos=sums.list_nanos,
        cost_nanos=sums.cost_nanos,
        idle_nanos=idle_nanos,
        nanos_per_call=_per_unit(called, sums.answered, 1),
        nanos_per_1k_calls=_per_unit(called, sums.answered, _CALLS_PER_UNIT),
        nanos_per_1k_attempts=_per_unit(
            called, sums.attempts - sums.calls + sums.answered, _CALLS_PER_UNIT
        ),
        nanos_per_1m_tokens=_per_unit(called, sums.tokens, _TOKENS_PER_UNIT),
    )


def share(part: int, whole: int) -> float | None:
    """A part of a whole, from 0 to 1; None where the whole is nothing."""
    return part / whole if whole else None


def value_label(value: str, names: Mapping[str, str]) -> str:
    """A value of a dimension as people call it, by the names of ids."""
    return names.get(value, value) if value else NO_VALUE


def month_forecast(
    today: date, spent: int | None, spent_today: int, past: Sequence[tuple[date, int | None]]
) -> MonthForecast:
    """The cost of a day's month by what it cost so far and by the last four weeks.

    Args:
        today: The day that is not over yet.
        spent: Cost of the month so far, today included, in nano-dollars; None where unknown.
        spent_today: Cost of today so far.
        past: Consecutive days up to yesterday with their cost: those of the last four weeks count,
            where it is known.
    """
    learned = [(day, nanos) for day, nanos in past if 0 < (today - day).days <= FORECAST_DAYS]
    days = [(day, nanos) for day, nanos in learned if nanos is not None]
    while days and not days[0][1]:  # before the first call there is nothing to learn from
        days.pop(0)
    forecast = MonthForecast(
        month=f"{today:%Y-%m}",
        spent_nanos=spent,
        forecast_nanos=None,
        known_days=len(days),
        method=f"Needs {_MIN_FORECAST_DAYS} whole days with costs before today.",
    )
    if spent is None:
        return replace(forecast, method="No call of this month has a known price.")
    if len(days) < _MIN_FORECAST_DAYS:
        return forecast
    expected = sum(_weekday_mean(days, (today.weekday() + n) % 7) for n in range(_days_left(today)))
    # Today counts as its weekday's mean, or as what it cost already where that is more.
    rest = max(expected - min(spent_today, _weekday_mean(days, today.weekday())), 0)
    width = _band_width([nanos for _, nanos in days], _days_left(today))
    return replace(
        forecast,
        forecast_nanos=spent + rest,
        low_nanos=spent + max(rest - width, 0),
        high_nanos=spent + rest + width,
        days=[_day_forecast(days, today + timedelta(days=n)) for n in range(1, _days_left(today))],
        method=(
            "Cost so far, and for each day left the mean of its weekday in the last"
            f" {FORECAST_DAYS} days of UTC; for today less what it cost already."
        ),
    )


def charted_days(
    period: ReportPeriod, unit: BucketUnit, month: MonthForecast, today: date
) -> Sequence[DayForecast]:
    """The days after today that a chart of days adds to a period that ends with it.

    To a month so far these are all, to other periods a third of their length at most.
    """
    days = (period.end - period.first).days
    if unit != "day" or period.end != today + timedelta(days=1):
        return ()
    return month.days if period.first == today.replace(day=1) else month.days[: max(days // 3, 1)]


def _day_forecast(known: Sequence[tuple[date, int]], day: date) -> DayForecast:
    nanos = _weekday_mean(known, day.weekday())
    width = _band_width([cost for _, cost in known], 1)
    low, high = max(nanos - width, 0), nanos + width
    return DayForecast(day=day, cost_nanos=nanos, low_nanos=low, high_nanos=high)


def _weekday_mean(days: Sequence[tuple[date, int]], weekday: int) -> int:
    """The mean cost of a weekday; that of all days where none of it has a known cost."""
    same = [nanos for day, nanos in days if day.weekday() == weekday]
    same = same or [nanos for _, nanos in days]
    return sum(same) // len(same)


def _band_width(costs: Sequence[int], days_left: int) -> int:
    """Half of the 95 % band of what so many days cost together, which spread as days before did."""
    mean = sum(costs) // len(costs)
    variance = sum((nanos - mean) ** 2 for nanos in costs) // (len(costs) - 1)
    return 2 * isqrt(variance * days_left)


def _days_left(today: date) -> int:
    """Days to the end of the month, today included."""
    after = date(today.year + today.month // 12, today.month % 12 + 1, 1)
    return (after - today).days


def _per_unit(nanos: int | None, count: int, unit: int) -> int | None:
    """Cost of a unit of what was counted, rounded; None where nothing was or it is unknown."""
    return None if nanos is None or not count else (2 * unit * nanos + count) // (2 * count)
