"""A cost report with its names, and the same calls over time beside an earlier period."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from dashboards.cost_reports import CostReport, CostRow, next_month
from dashboards.formatting import share
from dashboards.reports import ReportPeriod
from dashboards.views.comparisons import comparison_name, known_part
from dashboards.views.costs import CostsView, MonthForecast


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """A report as it was read.

    Attributes:
        names: The teams' names by id.
        costs: The same calls over time by one dimension, beside an earlier period; None where
            that would read receipts, or the period is too long for a chart.
        forecasts: Cost of the whole month by the values of rows, None where too little is known
            of one; None where the report is not of the running month, or its rows have none.
        read_at: Time at which reading began, in seconds since the epoch.
    """

    report: CostReport
    names: Mapping[str, str]
    costs: CostsView | None
    forecasts: Mapping[tuple[str, ...], int | None] | None
    read_at: float

    @property
    def forecast(self) -> MonthForecast | None:
        """The forecast of the month that the report is about so far; None for other periods."""
        period = self.report.period
        today = datetime.fromtimestamp(self.read_at, ZoneInfo(period.zone)).date()
        if self.costs is None or not is_running_month(period, today):
            return None
        return self.costs.month

    @property
    def earlier_name(self) -> str:
        """The earlier period in words; "" for none."""
        costs = self.costs
        if costs is None:
            return ""
        return comparison_name(costs.first, costs.last, costs.before_first, costs.before_last)

    @property
    def earlier_limits(self) -> str:
        """A sentence on the part of the earlier period that is compared; "" for all of it."""
        costs = self.costs
        if costs is None or self.unknown_before:
            return ""
        end = datetime.fromtimestamp(costs.before_end, ZoneInfo(costs.tz))
        is_day = costs.before_first == costs.before_last
        hour = f"is counted up to {end:%H:%M}{'' if is_day else ' of its last day'}"
        known_days = known_part(costs.before_first, costs.before_last, costs.first_call)
        limits = [hour] if f"{end:%H:%M}" != "00:00" else []
        limits += (
            [known_days.replace("of which calls are known", "has calls")] if known_days else []
        )
        return f"The earlier period {' and '.join(limits)}." if limits else ""

    @property
    def unknown_before(self) -> str:
        """``no calls known before 17 Oct`` where that holds for the earlier period; else ""."""
        costs = self.costs
        if costs is None or costs.first_call is None or costs.first_call <= costs.before_last:
            return ""
        return known_part(costs.before_first, costs.before_last, costs.first_call)

    @property
    def earlier_words(self) -> str:
        """The earlier period behind "in": ``October 2026``, ``the previous 30 days``."""
        name = self.earlier_name
        return f"the {name}" if name.startswith("previous") else name

    def shown_values(self, row: CostRow) -> tuple[str, ...]:
        """The values of a row, a team by its name; one without a name by its id."""
        return tuple(
            self.names.get(value, value) if dimension == "team" else value
            for dimension, value in zip(self.report.by, row.values, strict=True)
        )


def is_running_month(period: ReportPeriod, today: date) -> bool:
    """True for the month of today, whole or up to today or later."""
    return period.first == today.replace(day=1) and today < period.end <= next_month(today)


def month_and_year(forecast: MonthForecast) -> str:
    """The month of a forecast in words, such as ``December 2026``."""
    return f"{date.fromisoformat(f'{forecast.month}-01'):%B %Y}"


def earlier_hit_rate(costs: CostsView) -> str:
    """The part of prompt tokens that caches had in the earlier period."""
    return share(costs.before.cache_read_tokens, costs.before.prompt_tokens)
