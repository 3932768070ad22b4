"""Formats times, money and names for the pages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import floor, log10
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from dashboards.board import ObjectiveStatus, OpenAlert, ReroutedCall, StateSpan
from dashboards.reports import is_tag
from dashboards.savings_headline import SavingsHeadline
from dashboards.views.alerts import AlertCalls
from dashboards.views.cache_health import MissReasonSums
from dashboards.views.code_words import code_words
from dashboards.views.costs import CostsView
from dashboards.views.latency import HealthWindow
from dashboards.views.steps import NextStep
from slo.alert import format_amount, format_rough_duration
from slo.budgets.budget import EVERY, BudgetUnit
from slo.objectives.verdict import ObjectiveVerdict
from slo.usage import TAG_PREFIX

#: Outcomes of calls that nothing answered.
_ENDS: Final = {
    "refused": "refused",
    "failed": "failed",
    "broken": "broke off",
    "hung_up": "the caller left",
}
#: Amounts from here on are shown as a dollar by three digits.
_WHOLE_DOLLAR: Final = 0.9995
#: For what nobody knows.
UNKNOWN: Final = "?"
_MINUS: Final = "\N{MINUS SIGN}"
_MINUTE_S: Final = 60.0
_WEEK_S: Final = 7 * 86_400.0
#: Units of times beside now, the longest first.
_SPANS: Final = ((86_400.0, "d"), (3_600.0, "h"), (_MINUTE_S, "min"))
_BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Version/", "Safari"),
)
_SYSTEMS: Final = ("Windows", "iPhone", "iPad", "Android", "Mac OS X", "Linux")
_PERCENT: Final = 100
_MONEY_DIGITS: Final = 6
#: Share and number of failed calls of the last hour that are bad, whatever objectives say.
_BAD_ERROR_SHARE: Final = 0.05
_MIN_ERRORS: Final = 3
_UNMET_TONES: Final[dict[str, str]] = {
    ObjectiveVerdict.MISSED: "bad",
    ObjectiveVerdict.AT_RISK: "warn",
}
_NANOS_PER_DOLLAR: Final = 1_000_000_000


def clock_time(moment: float) -> str:
    """A time to the second, in UTC."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}"


def iso_time(moment: float) -> str:
    """The same as machines read it."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


def ago(moment: float, now: float) -> str:
    """A time beside now: 5 min ago, in 2 d; its day from a week on."""
    away = now - moment
    if abs(away) >= _WEEK_S:
        date_time = datetime.fromtimestamp(moment, UTC)
        return f"{date_time.day} {date_time:%b %Y}"
    if abs(away) < _MINUTE_S:
        return "just now"
    size, unit = next((size, unit) for size, unit in _SPANS if abs(away) >= size)
    span = f"{abs(away) / size:.0f} {unit}"
    return f"{span} ago" if away > 0 else f"in {span}"


def duration_text(seconds: float) -> str:
    """A time span in the two largest units that say something."""
    return format_rough_duration(seconds)


def money(nanos: int | None) -> str:
    """Nano-dollars as dollars: six digits where that is close enough; ? where it is unknown."""
    if nanos is None:
        return UNKNOWN
    is_tiny = abs(nanos) < _NANOS_PER_DOLLAR // 10**_MONEY_DIGITS
    return exact_usd(nanos if is_tiny else round(nanos, _MONEY_DIGITS - 9))


def usd(nanos: int | None) -> str:
    """Nano-dollars as dollars to read at a glance; ? where it is unknown.

    Cents from a dollar on, below that three significant digits: $1,234.56, $0.0123.
    """
    if nanos is None:
        return UNKNOWN
    dollars, sign = abs(nanos) / _NANOS_PER_DOLLAR, _MINUS if nanos < 0 else ""
    if dollars == 0 or dollars >= _WHOLE_DOLLAR:
        return f"{sign}${dollars:,.2f}"
    digits = 2 - floor(log10(dollars))
    return f"{sign}${dollars:.{digits}f}"


def dollars(nanos: int | None) -> str:
    """Nano-dollars as people say them: cents from ten cents on; ? where it is unknown."""
    if nanos is None or abs(nanos) * 10 < _NANOS_PER_DOLLAR:
        return usd(nanos)
    return f"{_MINUS if nanos < 0 else ''}${Decimal(abs(nanos)).scaleb(-9):,.2f}"


def exact_usd(nanos: int | None) -> str:
    """Nano-dollars as dollars with every digit; ? where it is unknown."""
    return UNKNOWN if nanos is None else _with_minus(format_amount(BudgetUnit.USD, nanos))


def how_sure(headline: SavingsHeadline) -> str:
    """The interval of a saving and the way it was measured; else that it is an estimate."""
    low, high = headline.saved_low_nanos, headline.saved_high_nanos
    if not headline.is_measured:
        return "Estimated; no control arm has measured it yet"
    measured = f"measured by control arms on {percentage(headline.measured_share)} of spend"
    return f"95 %: {usd(low)}\N{EN DASH}{usd(high)}, {measured}"


def estimated_part(nanos: int | None) -> str:
    """The part of a cost that is estimated: ``$0.15 of it estimated``; "" for nothing."""
    return f"{usd(nanos)} of it estimated" if nanos else ""


def step_change(nanos: int) -> str:
    """The change of a cost by a step of the waterfall, in words that have no sign."""
    if not nanos:
        return usd(0)
    return f"saved {usd(-nanos)}" if nanos < 0 else f"cost {usd(nanos)} more"


def step_saving(step: NextStep) -> str:
    """The saving of a step not taken yet: a month, 1,000 calls, or ? where it is unknown."""
    bound = f"{step.bound} " if step.bound else ""
    if step.month_nanos is not None:
        return f"saves {bound}{usd(step.month_nanos)}/month"
    if step.nanos_per_1k_calls is not None:
        return f"saves {bound}{usd(step.nanos_per_1k_calls)} per 1,000 calls"
    return f"saves {UNKNOWN}"


def rate(nanos: int | None) -> str:
    """A price per million tokens; ? where it is unknown."""
    if nanos is None:
        return UNKNOWN
    return f"${nanos / _NANOS_PER_DOLLAR:,.6f}".rstrip("0").rstrip(".")


def percentage(part: float | None) -> str:
    """A part of 1 in percent; ? where it is unknown."""
    return UNKNOWN if part is None else _with_minus(f"{part * _PERCENT:.1f} %")


def signed_percent(change: float | None) -> str:
    """A change in percent with its sign: whole from ten percent on, else with a decimal."""
    if change is None:
        return UNKNOWN
    text = f"{change * _PERCENT:+.{0 if abs(change) * 10 >= 1 else 1}f} %"
    return "±0 %" if not text.strip("+-0. %") else _with_minus(text)


def _with_minus(text: str) -> str:
    """A number whose hyphen in front becomes a minus sign."""
    return f"{_MINUS}{text[1:]}" if text.startswith("-") else text


def tokens(count: int | None) -> str:
    """A number of tokens to read at a glance: 950, 12.3 k, 4.5 M, 3.1 B; ? where it is unknown."""
    if count is None:
        return UNKNOWN
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def chart_usd(nanos: int | None) -> str:
    """Nano-dollars as dollars for a chart; "" for what is unknown."""
    return "" if nanos is None else f"{Decimal(nanos).scaleb(-9):f}".rstrip("0").rstrip(".")


def change(now_and_before: tuple[int | None, int | None]) -> str:
    """The change between two amounts in percent, with its sign; "new" where nothing was before."""
    now, before = now_and_before
    if now is None or before is None:
        return UNKNOWN
    if not before:
        return "new" if now else "0 %"
    return _with_minus(f"{(now - before) * _PERCENT / before:+,.0f} %")


def spark_points(values: Sequence[int | None]) -> str:
    """Points of a line through values, in a box of 100 by 24: the lowest is 0 or below it."""
    numbers = [value or 0 for value in values]
    low, high = min([0, *numbers]), max([0, *numbers])
    step, scale = 100 / max(len(numbers) - 1, 1), 22 / (high - low or 1)
    return " ".join(
        f"{place * step:.1f},{23 - (number - low) * scale:.1f}"
        for place, number in enumerate(numbers)
    )


def daily_costs(costs: CostsView) -> list[int]:
    """The cost of each bucket of a period, of all series together, in nano-dollars."""
    return [
        sum(nanos or 0 for nanos in bucket)
        for bucket in zip(*(series.cost_nanos for series in costs.series), strict=True)
    ]


def local_iso(moment: float, zone: str) -> str:
    """A moment as the clocks of a time zone show it, in ISO 8601 without the zone."""
    return f"{datetime.fromtimestamp(moment, ZoneInfo(zone)):%Y-%m-%dT%H:%M:%S}"


def period_presets(now: float, zone: str) -> list[tuple[str, str, str]]:
    """Usual periods up to today in a time zone: name, first day and last day."""
    today = datetime.fromtimestamp(now, ZoneInfo(zone)).date()
    month = today.replace(day=1)
    last_month = month - timedelta(days=1)
    periods = [
        ("Today", today, today),
        ("7 days", today - timedelta(days=6), today),
        ("30 days", today - timedelta(days=29), today),
        ("90 days", today - timedelta(days=89), today),
        ("This month", month, today),
        ("Last month", last_month.replace(day=1), last_month),
    ]
    return [(name, first.isoformat(), last.isoformat()) for name, first, last in periods]


def browser_name(agent: str) -> str:
    """A browser and its system, such as Firefox 140 on Linux; the header itself for others."""
    for token, name in _BROWSERS:
        version = agent.partition(token)[2].partition(".")[0]
        if version.isdecimal():
            system = next((system for system in _SYSTEMS if system in agent), "")
            return f"{name} {version} on {system}" if system else f"{name} {version}"
    return agent


def day(text: str) -> date:
    """A day of its text, such as ``2026-12-01``."""
    return date.fromisoformat(text)


def month_name(month: str) -> str:
    """The name of a month such as ``2026-12``: December."""
    return f"{day(f'{month}-01'):%B}"


def bucket_name(start: float, zone: str, unit: str) -> str:
    """The name of an hour, day, week or month by its beginning in a time zone."""
    forms = {"month": "%Y-%m", "week": "%Y-%m-%d", "day": "%Y-%m-%d"}
    return datetime.fromtimestamp(start, ZoneInfo(zone)).strftime(forms.get(unit, "%Y-%m-%d %H:%M"))


def with_params(params: Mapping[str, str], **changed: str) -> str:
    """A query string with some parameters changed; those set to "" are left out."""
    return urlencode({name: value for name, value in {**params, **changed}.items() if value})


def value_filter(dimension: str, value: str) -> dict[str, str]:
    """The parameter that filters by a value of a dimension."""
    if is_tag(dimension):
        return {"tag": f"{dimension.removeprefix(TAG_PREFIX)}:{value}"}
    return {dimension: value}


def first_by_feature(rows: Iterable[MissReasonSums]) -> dict[tuple[str, str], MissReasonSums]:
    """The first of the rows of each team's feature."""
    first: dict[tuple[str, str], MissReasonSums] = {}
    for row in rows:
        first.setdefault((row.team, row.feature), row)
    return first


def names_of(rows: Iterable[object], value: str = "value", name: str = "name") -> dict[str, str]:
    """The names that rows have for values, by these two attributes of theirs."""
    return {getattr(row, value): getattr(row, name) for row in rows}


def seconds(value: float | None) -> str:
    """A time span to three digits, in milliseconds below a second; a dash where there was none."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:,.3g} s"


def column_title(title: str) -> str:
    """A title of a column of numbers, as the macro of tables marks it."""
    return f"#{title}"


def call_price(nanos: int | None) -> str:
    """The cost of a call, as ``money``; an unknown price in words."""
    return "no known price" if nanos is None else money(nanos)


def unit_amount(of: int | None, unit: BudgetUnit) -> str:
    """So much of a budget's unit; ? where it is unknown."""
    if of is None:
        return UNKNOWN
    return money(of) if unit is BudgetUnit.USD else f"{of:,}"


def share(part: int | None, whole: int) -> str:
    """A part in percent of the whole; ? where it is unknown."""
    return UNKNOWN if part is None or whole <= 0 else f"{part * _PERCENT / whole:.1f} %"


def feature_name(name: str) -> str:
    """A feature, or whose calls are meant."""
    return {EVERY: "every feature", "": "(none)"}.get(name, name)


def subject_name(name: str) -> str:
    """The owner of a budget's counter or of an objective."""
    return {EVERY: "everyone", "": "(none named)"}.get(name, name)


def level_name(name: str) -> str:
    """A fallback level, or what calls ask for."""
    return name or "as asked"


def unmet_objectives(objectives: Iterable[ObjectiveStatus]) -> list[ObjectiveStatus]:
    """Objectives that are missed or at risk, the worst first."""
    unmet = [objective for objective in objectives if objective.verdict in _UNMET_TONES]
    return sorted(unmet, key=lambda objective: objective.verdict != ObjectiveVerdict.MISSED)


def health_headline(
    shown: tuple[Sequence[ObjectiveStatus], HealthWindow | None],
) -> tuple[str, str, str]:
    """The state of objectives and errors together: its tone, its words, and the path to its cause.

    Args:
        shown: Objectives, and calls of the last hour; None where these are unknown.
    """
    objectives, recent = shown
    now = "/now?by=route&window=1h"
    calls, errors = (1, 0) if recent is None else (recent.calls, recent.errors)
    if errors >= _MIN_ERRORS and errors >= _BAD_ERROR_SHARE * calls:
        return "bad", f"{share(errors, calls)} errors", now
    counts = Counter(objective.verdict for objective in objectives)
    for verdict, tone in _UNMET_TONES.items():
        if counts[verdict]:
            return tone, f"{counts[verdict]} of {len(objectives)} {verdict}", "/objectives"
    if not calls:
        return "", "No calls", now
    if not objectives:
        return ("", "?", now) if recent is None else ("good", "Calls are answered", now)
    return "good", f"{counts[ObjectiveVerdict.OK]} of {len(objectives)} ok", "/objectives"


def counted_calls(calls: AlertCalls | None) -> str:
    """The number of an alert's calls: ``Its 92 calls``; ``Its calls`` where it is unknown."""
    if calls is None:
        return "Its calls"
    among = f" among the newest {calls.among:,} attempts" if calls.among else ""
    return f"Its {calls.count:,} {'call' if calls.count == 1 else 'calls'}{among}"


def span_time(spans: Iterable[StateSpan]) -> float:
    """Seconds of spans, one after the other."""
    return sum(span.ended - span.began for span in spans)


def alert_facts(alert: OpenAlert) -> str:
    """The facts of an alert with every digit, on one line."""
    return ", ".join(f"{name}: {value}" for name, value in alert.facts)


def call_ending(call: ReroutedCall) -> str:
    """The outcome of a rerouted call, with its error in words; "" where it was answered."""
    ending = _ENDS.get(call.outcome, "")
    return f"{ending}: {code_words(call.error)}" if ending and call.error else ending


def objective_reason(status: ObjectiveStatus) -> str:
    """The reason for an objective's state; for a healthy one, whether it keeps its error budget."""
    if status.why or status.state != "healthy" or not status.counted:
        return status.why
    is_within = status.burn is not None and status.burn <= 1
    return "within its error budget" if is_within else "not missed beyond chance"
