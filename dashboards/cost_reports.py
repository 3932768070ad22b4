"""Cost reports by any dimensions, in days or months of a time zone, that add up to the ledger."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

from dashboards.reports import (
    ALL_CALLS,
    Part,
    ReportPeriod,
    Reports,
    Spend,
    SpendFilter,
    TagPart,
    ordered_parts,
    reads_receipts,
    tag_part,
)
from dashboards.savings_headline import SavingsHeadline
from slo.usage import MAX_TAG_KEYS, TAG_KEY, TAG_PREFIX, Usage

FixedDimension = Literal[
    "team", "feature", "model", "key", "user", "route", "provider", "upstream", "day", "month"
]
Dimension = FixedDimension | TagPart
"""Dimensions of a cost report; a team and a key by id, an end user by its keyed hash."""

DIMENSIONS: Final[tuple[FixedDimension, ...]] = get_args(FixedDimension)
DIMENSION_NAMES: Final = f"{', '.join(DIMENSIONS)}, or tag:KEY for a key of metadata"
#: Users and tags beyond the dearest ones, and calls whose receipts are no longer kept.
OTHER_VALUES: Final = "(others)"

_BUCKETS: Final = Usage.__struct_fields__
_NANO_DIGITS: Final = 9


class CostSums(msgspec.Struct, frozen=True):
    """Calls, tokens and costs of one row, summed.

    Attributes:
        calls: Calls, however many attempts each took.
        attempts: Attempts to answer them.
        answered: Calls that had a first content byte.
        estimated: Attempts whose usage was counted by the gateway.
        unpriced: Attempts at no known price; the two sums of costs leave them out.
        priced_list_nanos: Known cost at published prices in 1e-9 US dollars.
        priced_nanos: The same after discounts.
        usage: Tokens of all attempts.
    """

    calls: int = 0
    attempts: int = 0
    answered: int = 0
    errors: int = 0
    estimated: int = 0
    unpriced: int = 0
    priced_list_nanos: int = 0
    priced_nanos: int = 0
    usage: Usage = Usage()

    @property
    def list_nanos(self) -> int | None:
        """The known list cost; None where all that could have a cost has no known price."""
        return self.priced_list_nanos or (None if self.unpriced else 0)

    @property
    def cost_nanos(self) -> int | None:
        """The known effective cost; None as for ``list_nanos``."""
        return self.priced_nanos or (None if self.unpriced else 0)

    @property
    def tokens(self) -> int:
        """All tokens, of prompts and of answers."""
        return self.usage.prompt_tokens + self.usage.generated_tokens

    def plus(self, other: "CostSums", times: int = 1) -> "CostSums":
        """The sums of both, the other's so many times; -1 takes them away."""
        counts = {
            name: getattr(self, name) + times * getattr(other, name) for name in _COUNTED_FIELDS
        }
        usage = {
            name: getattr(self.usage, name) + times * getattr(other.usage, name)
            for name in _BUCKETS
        }
        return CostSums(**counts, usage=Usage(**usage))


_COUNTED_FIELDS: Final = tuple(name for name in CostSums.__struct_fields__ if name != "usage")


@dataclass(frozen=True, slots=True)
class CostRow:
    """Sums of one combination of values, which stand in the order of the report's dimensions."""

    values: tuple[str, ...]
    sums: CostSums


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Rows of a period by dimensions: by time where they have times, then the dearest first.

    Attributes:
        by: Its dimensions, each once.
        rows: One for each combination of values that made a call.
        savings: Headline of what was saved in the period; None where nobody read it.
    """

    period: ReportPeriod
    by: tuple[Dimension, ...]
    rows: tuple[CostRow, ...]
    savings: SavingsHeadline | None = None

    @property
    def total(self) -> CostSums:
        """The sums of all rows."""
        total = CostSums()
        for row in self.rows:
            total = total.plus(row.sums)
        return total


def cost_report(
    reports: Reports,
    period: ReportPeriod,
    by: Sequence[Dimension],
    providers: Mapping[str, str] = MappingProxyType({}),
    only: SpendFilter = ALL_CALLS,
) -> CostReport:
    """The costs of a period by these dimensions; every row of the ledger is in exactly one row.

    Args:
        reports: Where they are read: once a day or month if asked by these.
        period: Days of a time zone.
        by: Dimensions; one that comes twice counts once.
        providers: The provider of each upstream; one that is not in it is its own provider.
        only: The calls that count.
    """
    dimensions = tuple(dict.fromkeys(by))
    sums_by_values: dict[tuple[str, ...], CostSums] = {}
    for times, part_of_period in _time_slices(period, dimensions):
        for named, sums in _slice_sums(reports, part_of_period, dimensions, only):
            upstream = named.get("upstream", "")
            values = {**named, **times, "provider": providers.get(upstream) or upstream}
            key = tuple(values[dimension] for dimension in dimensions)
            sums_by_values[key] = sums_by_values.get(key, CostSums()).plus(sums)
    rows = (CostRow(values, sums) for values, sums in sums_by_values.items())
    return CostReport(
        period=period, by=dimensions, rows=tuple(sorted(rows, key=_dearest_first(dimensions)))
    )


def read_dimensions(texts: Iterable[str]) -> tuple[Dimension, ...]:
    """The dimensions of texts with commas, each once; the team where they name none.

    Raises:
        ValueError: There is no such dimension, or too many are tags.
    """
    fixed: dict[str, Dimension] = {name: name for name in DIMENSIONS}
    names = [name.strip() for name in ",".join(texts).split(",") if name.strip()] or ["team"]
    dimensions = {name: fixed.get(name) or _tag_dimension(name) for name in names}
    if len(dimensions.keys() - fixed.keys()) > MAX_TAG_KEYS:
        raise ValueError(f"{names[-1]}: a report has at most {MAX_TAG_KEYS} tags.")
    return tuple(dimensions.values())


def known_sum(costs: Iterable[int | None]) -> int | None:
    """The sum of the known costs; None where it is nothing and one is unknown."""
    nanos = list(costs)
    return sum(filter(None, nanos)) or (None if None in nanos else 0)


def usd_decimal(nanos: int | None) -> Decimal | None:
    """Nano-dollars as US dollars with all nine digits; None for what is not known."""
    if nanos is None:
        return None
    digits = tuple(map(int, str(abs(nanos))))
    return Decimal((int(nanos < 0), digits, -_NANO_DIGITS))


def months_of(period: ReportPeriod) -> tuple[ReportPeriod, ...]:
    """Its calendar months, first to last; the first and the last may be parts of months."""
    months: list[ReportPeriod] = []
    first = period.first
    while first < period.end:
        end = min(next_month(first), period.end)
        months.append(ReportPeriod(first=first, end=end, zone=period.zone))
        first = end
    return tuple(months)


def next_month(day: date) -> date:
    """The first day of the month after a day's."""
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _dearest_first(by: Sequence[Dimension]) -> Callable[[CostRow], tuple[object, ...]]:
    """The key by which rows are sorted: by time, then by cost; unknown cost last, then others."""
    times = [place for place, name in enumerate(by) if name in {"day", "month"}]

    def key(row: CostRow) -> tuple[object, ...]:
        cost = row.sums.cost_nanos
        moments = (row.values[place] for place in times)
        return (*moments, OTHER_VALUES in row.values, cost is None, -(cost or 0), row.values)

    return key


def _tag_dimension(name: str) -> TagPart:
    key = name.removeprefix(TAG_PREFIX)
    if key == name or not TAG_KEY.fullmatch(key):
        raise ValueError(f"{name}: there are {DIMENSION_NAMES}.")
    return tag_part(key)


def _time_slices(
    period: ReportPeriod, by: Sequence[Dimension]
) -> Iterator[tuple[dict[str, str], ReportPeriod]]:
    """Parts of a period that rows do not mix, with their day and month by name."""
    if "day" in by:
        for part in period.days:
            day = part.first.isoformat()
            yield {"day": day, "month": day[:7]}, part
    elif "month" in by:
        for part in months_of(period):
            yield {"month": part.first.isoformat()[:7]}, part
    else:
        yield {}, period


def _slice_sums(
    reports: Reports, period: ReportPeriod, by: Sequence[Dimension], only: SpendFilter
) -> Iterator[tuple[dict[str, str], CostSums]]:
    """Sums with their values by part; what no receipt tells comes last, as ``OTHER_VALUES``.

    Users and tags are read before the sums over all of them: a call that is booked in between is
    one of the others, and none is counted twice.
    """
    parts = _parts_to_read(by)
    if not reads_receipts(parts):
        for row in reports.spend(period, parts, only):
            yield _named_values(row, parts), _sums(row)
        return
    rest = tuple(part for part in parts if not reads_receipts((part,)))
    others: dict[str, str] = {part: OTHER_VALUES for part in parts if part not in rest}
    by_rest: dict[tuple[str, ...], CostSums] = {}
    for row in reports.spend(period, parts, only):
        sums = _sums(row)
        key = row.values(rest)
        by_rest[key] = by_rest.get(key, CostSums()).plus(sums)
        yield _named_values(row, parts), sums
    for row in reports.spend(period, rest, only):
        rest_sums = _sums(row).plus(by_rest.get(row.values(rest), CostSums()), -1)
        if rest_sums != CostSums():
            yield {**_named_values(row, rest), **others}, rest_sums


def _parts_to_read(by: Sequence[Dimension]) -> tuple[Part, ...]:
    """The parts of the ledger's rows that these dimensions are made of."""
    times = {"day", "month"}
    parts = {"upstream" if name == "provider" else name for name in by if name not in times}
    return ordered_parts(parts)


def _named_values(row: Spend, parts: Sequence[Part]) -> dict[str, str]:
    return {part: row.value(part) for part in parts}


def _sums(row: Spend) -> CostSums:
    return CostSums(
        calls=row.calls,
        attempts=row.attempts,
        answered=row.answered,
        errors=row.errors,
        estimated=row.estimated,
        unpriced=row.unpriced,
        priced_list_nanos=row.list_nanos or 0,
        priced_nanos=row.cost_nanos or 0,
        usage=row.usage,
    )
