"""Reads and sums cost reports; a long one is kept as bytes until it is fetched."""

import pickle
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from dashboards.cost_reports import CostReport, Dimension, cost_report
from dashboards.report_periods import time_buckets
from dashboards.report_summary.read_report import ReadReport, is_running_month
from dashboards.reports import Part, ReportPeriod, ordered_parts, reads_receipts
from dashboards.views.comparisons import MonthForecasts
from dashboards.views.costs import CostDimension, CostsView
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.rollups.spend_sums import costs, known_cost
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.counted_savings import SavingsScope, read_headline
from proxy.store.sql.views.readers import Readers

#: Rows of a report that have forecasts; those of more rows have none.
_MAX_FORECASTS: Final = 1_000
#: Layers of a report's chart, beside that of all others.
_CHART_SERIES: Final = 8
_CHART_DIMENSIONS: Final[Mapping[str, CostDimension]] = {
    "team": "team",
    "feature": "feature",
    "model": "model",
    "key": "key",
    "route": "route",
    "provider": "provider",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """A question for a cost report."""

    scope: SavingsScope
    by: tuple[Dimension, ...]
    providers: Mapping[str, str]
    now: float

    @property
    def today(self) -> date:
        """The day of now in the period's time zone."""
        return datetime.fromtimestamp(self.now, ZoneInfo(self.scope.period.zone)).date()


def read_cost_report(readers: Readers, question: ReportQuestion) -> ReadReport:
    """A report; blocks, for minutes where it reads millions of receipts.

    It has no headline until arms were compared: another figure than that of other pages would not
    be better than none. Of one end user or tag it has none either: sums of savings tell none apart.
    """
    scope = question.scope
    report = cost_report(readers.reports, scope.period, question.by, question.providers, scope.only)
    if scope.measurement is not None and not reads_receipts(scope.only.values):
        report = replace(report, savings=read_headline(readers, scope))
    return ReadReport(
        report=report,
        names={
            team: name
            for team, name in readers.team_names().items()
            if scope.only.teams is None or team in scope.only.teams
        },
        costs=costs_over_time(readers, question, chart_dimension(report)),
        forecasts=row_forecasts(readers, question, len(report.rows)),
        read_at=question.now,
    )


def costs_over_time(
    readers: Readers, question: ReportQuestion, by: CostDimension
) -> CostsView | None:
    """The calls of a report over time by one dimension, beside an earlier period; blocks.

    None where they are those of one end user or tag, or too long a time for a chart.
    """
    period, only = question.scope.period, question.scope.only
    try:
        buckets = time_buckets(period)
    except ValueError:
        return None
    if reads_receipts(only.values):
        return None
    return costs_view(
        readers,
        CostsQuestion(
            by=by,
            top=_CHART_SERIES,
            period=period,
            buckets=buckets,
            only=only,
            providers=question.providers,
            today=question.today,
            now=question.now,
            compare="month" if period.first.day == 1 else "previous",
        ),
    )


def chart_dimension(report: CostReport) -> CostDimension:
    """The first of a report's dimensions that rollups know and that has several values."""
    for place, name in enumerate(report.by):
        if name in _CHART_DIMENSIONS and len({row.values[place] for row in report.rows}) > 1:
            return _CHART_DIMENSIONS[name]
    return "feature"


def row_forecasts(
    readers: Readers, question: ReportQuestion, rows: int
) -> Mapping[tuple[str, ...], int | None] | None:
    """Forecasts of the running month by the values of rows; blocks.

    None for other periods, for rows that are parts of a month, or that rollups do not know, and for
    very many rows.
    """
    scope, today = question.scope, question.today
    parts = {"upstream" if name == "provider" else name for name in question.by}
    if (
        not is_running_month(scope.period, today)
        or rows > _MAX_FORECASTS
        or reads_receipts((*parts, *scope.only.values))
        or parts & {"day", "month"}
    ):
        return None
    forecasts = MonthForecasts(today, scope.period.zone)
    sums = _forecast_sums(readers, question, ordered_parts(parts), forecasts.edges)
    return {values: forecasts.of(nanos).forecast_nanos for values, nanos in sums.items()}


def _forecast_sums(
    readers: Readers, question: ReportQuestion, parts: Sequence[Part], edges: Sequence[int]
) -> Mapping[tuple[str, ...], Sequence[int | None]]:
    """Costs between edges by the values of a report's rows, None for unknown."""
    query = SumQuery(
        place=lambda rows: [part_column(rows, part) for part in parts],
        addends=costs,
        only=question.scope.only,
        hour_addends=costs,
    )
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        sums = bucket_sums(connection, edges, query)
    by_values = defaultdict[tuple[str, ...], list[Counter[str]]](
        lambda: [Counter() for _ in edges[1:]]
    )
    for (bucket, *values), numbers in sums.items():
        named: dict[str, str] = dict(zip(parts, values, strict=True))
        upstream = named.get("upstream", "")
        named["provider"] = question.providers.get(upstream) or upstream
        by_values[tuple(named[name] for name in question.by)][bucket].update(numbers)
    return {values: [*map(known_cost, buckets)] for values, buckets in by_values.items()}


def pack_cost_report(readers: Readers, question: ReportQuestion) -> bytes:
    """A report as bytes; blocks as ``read_cost_report`` does."""
    return zlib.compress(pickle.dumps(read_cost_report(readers, question)))


def unpack_cost_report(packed: bytes) -> ReadReport:
    """The report of ``pack_cost_report``."""
    report: ReadReport = pickle.loads(zlib.decompress(packed))  # noqa: S301 - of a process of ours
    return report


def has_more_receipts(readers: Readers, periods: Sequence[ReportPeriod], count: int) -> bool:
    """True if periods have more receipts than so many, which are found in a moment."""
    return readers.reports.has_more_receipts(periods, count)
