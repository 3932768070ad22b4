"""The summary of a cost report: headline figures, sentences and the dearest rows.

The page, its print view, the mail and the JSON of a report show these figures; each is made here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from heapq import nlargest
from types import MappingProxyType
from typing import Final, Literal

from dashboards.cost_reports import CostRow, CostSums, next_month
from dashboards.formatting import change, estimated_part, exact_usd, percentage, share, tokens, usd
from dashboards.report_summary.read_report import ReadReport, earlier_hit_rate, month_and_year
from dashboards.report_summary.sentences import summary_sentences
from dashboards.savings_headline import SavingsHeadline
from dashboards.views.costs import NO_VALUE, MonthForecast
from slo.alert import single_line

_MAX_NAME_CHARS: Final = 80
_ALL: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFigure:
    """A headline figure.

    Attributes:
        value: The figure to read at a glance.
        exact: The same with all its digits; "" where ``value`` has them.
        note: The comparison, or the parts it is made of.
        tone: ``good`` or ``bad`` where it is that; else "".
    """

    title: str
    value: str
    exact: str = ""
    note: str = ""
    tone: Literal["", "good", "bad"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """A row of a report.

    Attributes:
        names: Its dimensions as texts of one line.
        part: Its part of the cost, from 0 to 1.
        forecast_nanos: Its cost of the whole running month; None where it is not known.
    """

    names: Sequence[str]
    sums: CostSums
    part: float
    forecast_nanos: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSummary:
    """The parts of a report that people read.

    Attributes:
        title: The period as people call it.
        last: Its last day, included.
        days: The days of the period, and whose they are.
        figures: Headline figures, that of costs first.
        sentences: Three to six sentences; one where there were no calls.
        dimensions: Titles of the columns that are no figures.
        rows: The dearest rows, the dearest first.
        rest: Sums of all other rows, and their number.
    """

    read: ReadReport
    title: str
    last: date
    days: str
    total: CostSums
    figures: Sequence[SummaryFigure]
    sentences: Sequence[str]
    dimensions: Sequence[str]
    rows: Sequence[SummaryRow]
    rest: CostSums
    rest_count: int


def report_summary(
    read: ReadReport, most_rows: int, filters: Mapping[str, str] = _ALL
) -> ReportSummary:
    """The summary of a report with so many rows, the dearest; it blocks on very many.

    Args:
        filters: The only value of each dimension that counts, which the title names.
    """
    report, total = read.report, read.report.total
    dearest = nlargest(most_rows, report.rows, key=lambda row: row.sums.priced_nanos)
    rest = total
    for row in dearest:
        rest = rest.plus(row.sums, -1)
    last = report.period.end - timedelta(days=1)
    return ReportSummary(
        read=read,
        title=_title(read, last, filters),
        last=last,
        days=f"{report.period.first} to {last}, days in {report.period.zone}",
        total=total,
        figures=_figures(read, total),
        sentences=summary_sentences(read, total),
        dimensions=[dimension.capitalize() for dimension in report.by],
        rows=[_row(read, row, total) for row in dearest],
        rest=rest,
        rest_count=len(report.rows) - len(dearest),
    )


def _title(read: ReadReport, last: date, filters: Mapping[str, str]) -> str:
    only = [
        single_line(read.names.get(value, value), _MAX_NAME_CHARS)
        if name == "team"
        else f"{name} {single_line(value, _MAX_NAME_CHARS)}"
        for name, value in filters.items()
    ]
    return f"Costs of {', '.join([*only, _period_words(read, last)])}"


def _period_words(read: ReadReport, last: date) -> str:
    first, end = read.report.period.first, read.report.period.end
    is_month = first.day == 1 and end == next_month(first)
    if is_month or read.forecast is not None:
        return f"{first:%B %Y}{'' if read.forecast is None else ' so far'}"
    return f"{first}" if first == last else f"{first} to {last}"


def _row(read: ReadReport, row: CostRow, total: CostSums) -> SummaryRow:
    whole = total.priced_nanos
    return SummaryRow(
        names=[single_line(value, _MAX_NAME_CHARS) or NO_VALUE for value in read.shown_values(row)],
        sums=row.sums,
        part=row.sums.priced_nanos / whole if whole > 0 else 0.0,
        forecast_nanos=(read.forecasts or {}).get(row.values),
    )


def _figures(read: ReadReport, total: CostSums) -> list[SummaryFigure]:
    """The headline figures; what is not known or does not differ is left out."""
    figures = [_spend(read, total)]
    if (forecast := read.forecast) is not None:
        figures.append(_forecast(forecast))
    saved = read.report.savings
    if saved is not None and saved.saved_share is not None:
        figures.append(_savings(saved))
    figures += [_calls(read, total), _hit_rate(read, total)]
    if total.unpriced:
        note = "attempts without a known price, which are in no cost"
        figures.append(
            SummaryFigure(title="Unpriced", value=f"{total.unpriced:,}", note=note, tone="bad")
        )
    return figures


def _spend(read: ReadReport, total: CostSums) -> SummaryFigure:
    note = ""
    if read.costs is not None:
        before = read.costs.before.cost_nanos
        note = f"{change((total.cost_nanos, before))} vs {read.earlier_name} ({usd(before)})"
        note = f"none in {read.earlier_words}" if before == 0 else note
        note = read.unknown_before or note
        note = "; ".join(filter(None, (note, estimated_part(read.costs.estimated_nanos))))
    return SummaryFigure(
        title="Spend",
        value=usd(total.cost_nanos),
        exact=exact_usd(total.cost_nanos),
        note=note,
    )


def _forecast(forecast: MonthForecast) -> SummaryFigure:
    outlook = (
        f"for all of {month_and_year(forecast)}, from {forecast.known_days} days;"
        f" {usd(forecast.low_nanos)}–{usd(forecast.high_nanos)}"  # noqa: RUF001
    )
    return SummaryFigure(
        title="Forecast",
        value=usd(forecast.forecast_nanos),
        note=forecast.method if forecast.forecast_nanos is None else outlook,
    )


def _savings(saved: SavingsHeadline) -> SummaryFigure:
    note = f"{percentage(saved.saved_share)} of {usd(saved.direct_nanos)} sent directly"
    if saved.is_measured:
        note += f"; measured {usd(saved.saved_low_nanos)} … {usd(saved.saved_high_nanos)}"
    else:
        note = f"estimated; {note}"
    if saved.running_nanos:
        note += f"; {usd(saved.running_nanos)} for running the gateway taken off"
    if saved.uncounted:
        note += f"; {len(saved.uncounted)} not counted"
    return SummaryFigure(
        title="Saved",
        value=usd(saved.saved_nanos),
        exact=exact_usd(saved.saved_nanos),
        note=note,
        tone="bad" if saved.saved_nanos < 0 else "good" if saved.saved_nanos else "",
    )


def _calls(read: ReadReport, total: CostSums) -> SummaryFigure:
    note = f"{share(total.errors, total.calls)} failed" if total.calls else ""
    if read.costs is not None and read.costs.before.calls and total.calls:
        note += f"; {change((total.calls, read.costs.before.calls))} vs {read.earlier_name}"
    return SummaryFigure(title="Calls", value=f"{total.calls:,}", note=note)


def _hit_rate(read: ReadReport, total: CostSums) -> SummaryFigure:
    prompt = total.usage.prompt_tokens
    note = f"of {tokens(prompt)} prompt tokens"
    if read.costs is not None and read.costs.before.prompt_tokens:
        note += f"; {earlier_hit_rate(read.costs)} in {read.earlier_words}"
    return SummaryFigure(
        title="Cache hit rate", value=share(total.usage.cache_read, prompt), note=note
    )
