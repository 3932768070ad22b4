"""Builds the content of a scheduled report from the ledger, as a mail and as an event."""

from dataclasses import dataclass
from typing import Any

import msgspec

from dashboards.cost_reports import read_dimensions
from dashboards.report_mail import ReportMail, report_mail
from dashboards.report_periods import period_name
from dashboards.report_summary.files import cost_document
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from proxy.errors import OperatorError
from proxy.services.alerts.http_sender import HttpMessage, rfc3339
from proxy.services.alerts.webhook import signed_event
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store
from slo.alert import stable_id
from slo.budgets.budget import EVERY
from slo.policies.reports import ScheduledReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContent:
    """A report that is ready to be sent."""

    scheduled: ScheduledReport
    read: ReadReport

    def mail(self) -> ReportMail:
        """The report as a mail."""
        team = "" if self.scheduled.team == EVERY else self.scheduled.team
        return report_mail(self.scheduled.name, self.read, team)

    def event(self, secret: str, time: float) -> HttpMessage:
        """The report as a CloudEvent, signed as alerts are; its id is the period's."""
        period = period_name(self.read.report.period)
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": stable_id("report", self.scheduled.name, period),
            "source": "urn:thriftgate",
            "type": "thriftgate.reports.cost",
            "time": rfc3339(time),
            "datacontenttype": "application/json",
            "data": {
                "report": self.scheduled.name,
                "team": None if self.scheduled.team == EVERY else self.scheduled.team,
                "period": period,
                **cost_document(self.read),
            },
        }
        return signed_event(msgspec.json.encode(event), secret, time)


def report_content(
    store: Store, scheduled: ScheduledReport, period: ReportPeriod, figures: SavingsFigures
) -> ReportContent:
    """The report of a period; blocks.

    Raises:
        OperatorError: There is no such team.
        StoreError: The database is away.
    """
    teams = {team.id: team.name for team in store.teams.all()}
    only = ALL_CALLS
    if scheduled.team != EVERY:
        team_ids = frozenset(id_ for id_, name in teams.items() if scheduled.team in {id_, name})
        if not team_ids:
            raise OperatorError(f"there is no team {scheduled.team}")
        only = SpendFilter(teams=team_ids)
    return ReportContent(
        scheduled=scheduled,
        read=figures.read_report(period, read_dimensions(scheduled.by), only),
    )
