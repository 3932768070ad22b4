"""Reads and sums cost reports; a long one is kept as bytes until it is fetched."""

import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from dashboards.cost_reports import CostReport, Dimension, cost_report
from dashboards.report_periods import time_buckets
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod, reads_receipts
from dashboards.views.costs import CostDimension, CostsView
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.counted_savings import SavingsScope, read_headline
from proxy.store.sql.views.readers import Readers

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
        names=readers.team_names(),
        costs=costs_over_time(readers, question, chart_dimension(report)),
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
            today=datetime.fromtimestamp(question.now, ZoneInfo(period.zone)).date(),
            compare="month" if period.first.day == 1 else "previous",
        ),
    )


def chart_dimension(report: CostReport) -> CostDimension:
    """The first of a report's dimensions that rollups know and that has several values."""
    for place, name in enumerate(report.by):
        if name in _CHART_DIMENSIONS and len({row.values[place] for row in report.rows}) > 1:
            return _CHART_DIMENSIONS[name]
    return "feature"


def pack_cost_report(readers: Readers, question: ReportQuestion) -> bytes:
    """A report as bytes; blocks as ``read_cost_report`` does."""
    return zlib.compress(pickle.dumps(read_cost_report(readers, question)))


def unpack_cost_report(packed: bytes) -> ReadReport:
    """The report of ``pack_cost_report``."""
    report: ReadReport = pickle.loads(zlib.decompress(packed))  # noqa: S301 - of a process of ours
    return report


def has_more_receipts(readers: Readers, period: ReportPeriod, count: int) -> bool:
    """True if a period has more receipts than so many, which are found in a moment."""
    return readers.reports.has_more_receipts(period, count)
