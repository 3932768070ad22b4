"""A cost report as CSV and as a document: the figures of its page, dollars with all digits."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from dashboards.cost_formats import csv_text, savings_document, usd_text
from dashboards.cost_reports import CostRow, CostSums, usd_decimal
from dashboards.report_summary.read_report import ReadReport
from dashboards.report_summary.sentences import summary_sentences

_FIGURES: Final[Mapping[str, Callable[[CostSums], int | Decimal | None]]] = {
    "calls": lambda sums: sums.calls,
    "attempts": lambda sums: sums.attempts,
    "errors": lambda sums: sums.errors,
    "input_tokens": lambda sums: sums.usage.prompt_tokens,
    "cache_read_tokens": lambda sums: sums.usage.cache_read,
    "cache_write_tokens": lambda sums: sums.usage.cache_write_tokens,
    "output_tokens": lambda sums: sums.usage.generated_tokens,
    "list_cost_usd": lambda sums: usd_decimal(sums.list_nanos),
    "cost_usd": lambda sums: usd_decimal(sums.cost_nanos),
    "unpriced_attempts": lambda sums: sums.unpriced,
    "estimated_attempts": lambda sums: sums.estimated,
}


#: Column of what a row comes to in the whole month.
_FORECAST: Final = "forecast_usd"


def cost_csv(read: ReadReport) -> str:
    """The rows as CSV, teams by their names; an unknown cost is empty, its attempts are counted.

    Of the running month they have a forecast.
    """
    report, header = read.report, [*read.report.by, *_FIGURES]
    if read.forecasts is not None:
        header.append(_FORECAST)
    rows = (
        [
            *read.shown_values(row),
            *(figure(row.sums) for figure in _FIGURES.values()),
            *([] if read.forecasts is None else [usd_decimal(read.forecasts.get(row.values))]),
        ]
        for row in report.rows
    )
    return csv_text(header, rows)


def cost_document(read: ReadReport) -> dict[str, Any]:
    """A report for JSON, as its page shows it; money as decimal texts, null where unknown."""
    report, costs, forecast = read.report, read.costs, read.forecast
    return {
        "from": report.period.first.isoformat(),
        "to": (report.period.end - timedelta(days=1)).isoformat(),
        "zone": report.period.zone,
        "by": list(report.by),
        "rows": [_document_row(read, row) for row in report.rows],
        "total": _document_figures(report.total),
        "earlier": None
        if costs is None
        else {
            "from": costs.before_first.isoformat(),
            "to": costs.before_last.isoformat(),
            "calls": costs.before.calls,
            "cost_usd": usd_text(costs.before.cost_nanos),
        },
        "forecast": None
        if forecast is None
        else {
            "cost_usd": usd_text(forecast.forecast_nanos),
            "low_usd": usd_text(forecast.low_nanos),
            "high_usd": usd_text(forecast.high_nanos),
        },
        "sentences": summary_sentences(read, report.total),
        "savings": None if report.savings is None else savings_document(report.savings),
    }


def _document_row(read: ReadReport, row: CostRow) -> dict[str, Any]:
    by = read.report.by
    values: dict[str, Any] = dict(zip(by, read.shown_values(row), strict=True))
    if "team" in by:
        values["team_id"] = row.values[by.index("team")]
    if read.forecasts is not None:
        values[_FORECAST] = usd_text(read.forecasts.get(row.values))
    return values | _document_figures(row.sums)


def _document_figures(sums: CostSums) -> dict[str, int | str | None]:
    figures = {name: figure(sums) for name, figure in _FIGURES.items()}
    return {
        name: f"{figure:f}" if isinstance(figure, Decimal) else figure
        for name, figure in figures.items()
    }
