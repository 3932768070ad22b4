"""``/api/v1/reports/scheduled``: reports of the policies file, and their deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.access import Action, Viewer
from dashboards.report_periods import current_period, period_name
from dashboards.reports import ReportPeriod
from proxy.pages.resources.api import Resource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.services.reports.report_delivery import SETTLE_S, configured_senders
from proxy.settings import Settings
from proxy.store.sql.report_deliveries import ReportDelivery
from proxy.store.store import Store
from slo.budgets.budget import EVERY
from slo.policies.reports import ScheduledReport
from slo.usage import TAG_PREFIX

#: Deliveries of one report that are shown.
MAX_DELIVERIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """A report of one period for one recipient.

    Attributes:
        period: The period's name: ``2026-W47`` or ``2026-11``.
        recipient: ``mailto:`` and an address, or ``webhook``.
        state: ``sent``, ``due``, ``failing`` (it is tried again) or ``given up``.
        sent: Time at which the recipient's server accepted it, in seconds since the epoch; null
            until then.
        due: Time of the next try; null for none.
        failed_tries: Number of tries that failed.
        why: Reason of the last failure; "" for none.
    """

    period: str
    recipient: str
    state: str
    sent: float | None
    due: float | None
    failed_tries: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledReportView:
    """A scheduled report.

    Attributes:
        team: The team it is about; ``*`` for all.
        by: The dimensions that its costs are grouped by.
        every: ``week`` or ``month``.
        time_zone: The time zone in which its weeks or months begin.
        recipients: Recipients that can be reached.
        problems: Reasons that further recipients cannot be reached, in sentences.
        next_period: Name of the period that is reported next.
        next_due: Time at which it is sent, in seconds since the epoch.
        deliveries: The last deliveries, the latest period first; null if they are unknown now.
    """

    name: str
    team: str
    by: Sequence[str]
    every: str
    time_zone: str
    recipients: Sequence[str]
    problems: Sequence[str]
    next_period: str
    next_due: float
    deliveries: Sequence[DeliveryView] | None


@dataclass(eq=False)
class ReportDeliveriesResource(Resource):
    """Scheduled reports as viewers see them."""

    tag = "reports"

    _store: Store
    _ask: StoreQuestions
    _reloader: Reloader
    _settings: Settings
    _now: Clock

    @route("GET", "/reports/scheduled", name="list_scheduled_reports")
    async def list(self, viewer: SignedIn) -> Sequence[ScheduledReportView]:
        """Scheduled reports: when they are due next, and what was sent or failed."""
        check_allowed(viewer, Action.SEE_COSTS)
        reports = self._reloader.snapshot.policies.reports
        if not reports:
            return []
        if viewer.teams is not None:
            own = await self._own_teams(viewer.teams)
            reports = tuple(report for report in reports if report.team in own - {EVERY})
        by_report = await self._ask("report deliveries", lambda: self._read(reports)) or {}
        return [self._view(report, by_report.get(report.name)) for report in reports]

    async def tag_dimensions(self, viewer: Viewer) -> Sequence[str]:
        """The tags that calls of a viewer's teams may have, as dimensions, in order."""
        rules = self._reloader.snapshot.policies.tags
        if viewer.teams is not None and rules:
            own = await self._own_teams(viewer.teams)
            rules = tuple(rule for rule in rules if rule.team in own | {EVERY})
        return sorted({TAG_PREFIX + key for rule in rules for key in rule.keys})

    async def _own_teams(self, ids: frozenset[str]) -> frozenset[str]:
        """Ids and names of these teams."""
        teams = await self._ask("teams", self._store.teams.all) or ()
        return ids | {team.name for team in teams if team.id in ids}

    def _read(self, reports: Sequence[ScheduledReport]) -> Mapping[str, Sequence[ReportDelivery]]:
        """The last deliveries of each report, by the report's name; blocks."""
        last = self._store.report_deliveries.last_deliveries
        return {report.name: last(report.name, MAX_DELIVERIES) for report in reports}

    def _view(
        self, report: ScheduledReport, deliveries: Sequence[ReportDelivery] | None
    ) -> ScheduledReportView:
        (senders,), problems = configured_senders([report], self._settings)
        following = current_period(report.every, report.time_zone, self._now() - SETTLE_S)
        return ScheduledReportView(
            name=report.name,
            team=report.team,
            by=report.by,
            every=report.every,
            time_zone=report.time_zone,
            recipients=senders.recipients,
            problems=problems,
            next_period=period_name(following),
            next_due=following.bounds[1] + SETTLE_S,
            deliveries=None
            if deliveries is None
            else [_delivery_view(delivery, report.time_zone) for delivery in deliveries],
        )


def _delivery_view(delivery: ReportDelivery, zone: str) -> DeliveryView:
    period = ReportPeriod(first=delivery.begins, end=delivery.ends, zone=zone)
    return DeliveryView(
        period=period_name(period),
        recipient=delivery.recipient,
        state=_state(delivery),
        sent=delivery.sent,
        due=delivery.due,
        failed_tries=delivery.tries,
        why=delivery.why,
    )


def _state(delivery: ReportDelivery) -> str:
    if delivery.sent is not None:
        return "sent"
    if delivery.due is None:
        return "given up"
    return "failing" if delivery.why else "due"
