"""A cost report in three to six sentences, computed from its figures."""

from datetime import timedelta
from typing import Final

from dashboards.cost_reports import CostSums
from dashboards.formatting import change, daily_costs, percentage, share, usd
from dashboards.report_summary.read_report import ReadReport, earlier_hit_rate, month_and_year
from dashboards.savings_headline import SavingsHeadline
from dashboards.views.costs import CostSeries, CostsView
from slo.alert import single_line

_MAX_NAME_CHARS: Final = 40


def summary_sentences(read: ReadReport, total: CostSums) -> list[str]:
    """The report in three to six sentences."""
    if not read.report.rows:
        return ["No calls in this period."]
    sentences = [
        _spend_sentence(read, total),
        _dearest_sentence(read, total),
        _saved_sentence(read.report.savings),
        _calls_sentence(read, total),
        read.earlier_limits,
        _outlook_sentence(read),
    ]
    if total.unpriced:
        sentences.append(f"{total.unpriced:,} attempts have no known price and are in no cost.")
    return [sentence for sentence in sentences if sentence]


def _spend_sentence(read: ReadReport, total: CostSums) -> str:
    now = total.cost_nanos
    if now is None:
        return f"The spend is not known: none of {total.attempts:,} attempts has a known price."
    before = None if read.costs is None else read.costs.before.cost_nanos
    if read.costs is None or before is None:
        return f"Spend was {usd(now)}."
    if read.unknown_before or not before:
        after = f"after none in {read.earlier_words}"
        return f"Spend was {usd(now)}, {read.unknown_before or after}."
    if now == before:
        return f"Spend was {usd(now)}, the same as in {read.earlier_words}."
    verb = "rose" if now > before else "fell"
    size = change((now, before)).lstrip("+−")  # noqa: RUF001 - a minus sign
    text = f"Spend {verb} {size} to {usd(now)} vs {read.earlier_name} ({usd(before)})"
    return f"{text}{_driver(read.costs, now - before)}."


def _driver(costs: CostsView, moved: int) -> str:
    """The value whose cost changed most in the direction of all."""
    changes = {
        _series_name(costs, series): (series.sums.cost_nanos or 0) - (series.before.cost_nanos or 0)
        for series in costs.series
    }
    if len(changes) < 2:
        return ""
    name, nanos = max(changes.items(), key=lambda item: item[1] if moved > 0 else -item[1])
    adverb = "mostly by" if 2 * abs(nanos) >= abs(moved) else "led by"
    return f", {adverb} {name} ({_signed_usd(nanos)})"


def _dearest_sentence(read: ReadReport, total: CostSums) -> str:
    costs = read.costs
    series = [] if costs is None else [row for row in costs.series if not row.is_others]
    if costs is None or len(series) < 2 or not total.cost_nanos:
        return ""
    first = series[0]
    name = _series_name(costs, first)
    part = share(first.sums.cost_nanos, total.cost_nanos)
    return f"{name[0].upper()}{name[1:]} cost most: {usd(first.sums.cost_nanos)}, {part} of all."


def _saved_sentence(saved: SavingsHeadline | None) -> str:
    if saved is None or saved.saved_share is None or not saved.saved_nanos:
        return ""
    amount, part = usd(abs(saved.saved_nanos)), percentage(abs(saved.saved_share))
    about = "" if saved.is_measured else "an estimated "
    text = f"Thriftgate saved {about}{amount}, {part} of what sending directly would have cost"
    if saved.saved_nanos < 0:
        text = f"Sending directly would have cost {about}{amount} less, {part}"
    if saved.running_nanos:
        text += f", with {usd(saved.running_nanos)} for running the gateway taken off"
    if not saved.is_measured:
        return f"{text}."
    low, high = usd(saved.saved_low_nanos), usd(saved.saved_high_nanos)
    return f"{text}; by control arms it is 95 % sure to lie between {low} and {high}."


def _calls_sentence(read: ReadReport, total: CostSums) -> str:
    if not total.calls:
        return ""
    hits = share(total.usage.cache_read, total.usage.prompt_tokens)
    failed = f"{share(total.errors, total.calls)} of" if total.errors else "None of"
    text = f"{failed} {total.calls:,} calls failed"
    if not total.usage.prompt_tokens:
        return f"{text}."
    text += f", and {hits} of all prompt tokens were read from caches"
    if read.costs is None or not read.costs.before.prompt_tokens:
        return f"{text}."
    return f"{text}, {earlier_hit_rate(read.costs)} in {read.earlier_words}."


def _outlook_sentence(read: ReadReport) -> str:
    """The forecast of a month that is running; else the dearest day."""
    forecast = read.forecast
    if forecast is not None and forecast.forecast_nanos is not None:
        low, high = usd(forecast.low_nanos), usd(forecast.high_nanos)
        return (
            f"{month_and_year(forecast)} should come to {usd(forecast.forecast_nanos)}, 95 % sure"
            f" to lie between {low} and {high}, if days go on as in the last four weeks."
        )
    costs = read.costs
    if costs is None or costs.unit != "day" or len(costs.starts) < 2:
        return ""
    days = daily_costs(costs)
    if sum(nanos > 0 for nanos in days) < 2:
        return ""
    place = max(range(len(days)), key=days.__getitem__)
    day = costs.first + timedelta(days=place)
    return f"The dearest day was {day.day} {day:%B} with {usd(days[place])}."


def _series_name(costs: CostsView, series: CostSeries) -> str:
    """A value with its dimension in a sentence, such as ``feature support``."""
    if series.is_others:
        return f"all other {costs.by}s"
    return f"{costs.by} {single_line(series.name, _MAX_NAME_CHARS)}"


def _signed_usd(nanos: int) -> str:
    return f"+{usd(nanos)}" if nanos > 0 else usd(nanos)
