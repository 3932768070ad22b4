"""Reports of listed spends as they are read: with costs over time beside an earlier period."""

from collections.abc import Sequence
from typing import Any, cast

from dashboards.cost_reports import CostReport, CostRow, CostSums, Dimension
from dashboards.report_periods import period_before, time_buckets
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod
from dashboards.views.costs import CostSeries, CostsView, CostTable, MonthForecast, cost_amounts
from slo.usage import Usage

_NO_FORECAST = MonthForecast(
    month="2026-11", spent_nanos=0, forecast_nanos=None, known_days=0, method="Needs 7 days."
)


def sums_of(nanos: int | None, calls: int = 1, **fields: Any) -> CostSums:
    """Sums of calls at a cost, at twice that list cost; None is unknown."""
    return CostSums(
        calls=calls,
        attempts=calls,
        answered=calls,
        priced_list_nanos=2 * (nanos or 0),
        priced_nanos=nanos or 0,
        usage=Usage(input=10, output=5),
        **({"unpriced": calls} if nanos is None else {}) | fields,
    )


def costs_of(period: ReportPeriod, *series: tuple[str, int, int], **changes: Any) -> CostsView:
    """Costs by feature, each a name with its cost on the first day, now and before."""
    buckets, earlier = time_buckets(period), period_before(period)
    total, before = (
        sum_up([sums_of(nanos) for _, *amounts in series for nanos in amounts[place : place + 1]])
        for place in (0, 1)
    )
    fields: dict[str, Any] = {
        "first": period.first,
        "last": period.days[-1].first,
        "tz": period.zone,
        "by": "feature",
        "unit": buckets.unit,
        "starts": buckets.starts,
        "end": buckets.edges[-1],
        "series": [
            CostSeries(
                value=name,
                name=name,
                is_others=name == "(others)",
                sums=cost_amounts(sums_of(now)),
                before=cost_amounts(sums_of(then)),
                cost_nanos=[now, *[0] * (len(buckets.starts) - 1)],
                calls=[1, *[0] * (len(buckets.starts) - 1)],
            )
            for name, now, then in series
        ],
        "table": cast("CostTable", None),  # reports have rows of their own
        "filter_names": {},
        "total": cost_amounts(total),
        "estimated_nanos": 0,
        "before": cost_amounts(before),
        "before_first": earlier.first,
        "before_last": earlier.days[-1].first,
        "before_end": earlier.bounds[1],
        "before_nanos": (),
        "unattributed_nanos": 0,
        "unattributed_share": None,
        "unpriced_share": None,
        "month": _NO_FORECAST,
        "forecast": (),
    }
    return CostsView(**(fields | changes))


def sum_up(sums: Sequence[CostSums]) -> CostSums:
    """The sums of all."""
    total = CostSums()
    for one in sums:
        total = total.plus(one)
    return total


def a_read_report(
    period: ReportPeriod,
    by: tuple[Dimension, ...],
    rows: Sequence[tuple[tuple[str, ...], CostSums]],
    **changes: Any,
) -> ReadReport:
    """A report of these rows, read after its period, without savings or costs over time."""
    report = CostReport(
        period=period, by=by, rows=tuple(CostRow(values, sums) for values, sums in rows)
    )
    fields: dict[str, Any] = {
        "report": report,
        "names": {},
        "costs": None,
        "forecasts": None,
        "read_at": float(period.bounds[1] + 86_400),
    }
    return ReadReport(**(fields | changes))
