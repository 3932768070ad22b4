"""``/api/v1/reports/scheduled/NAME/send``: a scheduled report, sent by hand."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.report_periods import PERIOD_EXAMPLES, last_period, named_period, period_name
from dashboards.reports import ReportPeriod
from proxy.errors import CallerError, OperatorError
from proxy.pages.resources.api import Resource
from proxy.pages.viewing import Clock, RecordChange, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.services.alerts.http_sender import DeliveryFailure, HttpMessage, HttpSender
from proxy.services.reports.mail_server import AddressedMail
from proxy.services.reports.report_content import report_content
from proxy.services.reports.report_delivery import configured_senders
from proxy.services.reports.report_senders import ReportSenders
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.settings import Settings
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.store import Store
from slo.policies.reports import ScheduledReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The result of one message: ``failure`` is "" where the recipient's server took it."""

    recipient: str
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentReportView:
    """A report that was sent by hand, with the result for each recipient."""

    name: str
    period: str
    results: Sequence[DeliveryResult]


class SendRequest(BaseModel):
    """The period to report, ``2026-W47`` or ``2026-11``; "" is the last whole one."""

    period: Annotated[str, Field(max_length=20)] = ""


@dataclass(eq=False)
class ReportSending(Resource):
    """Sends scheduled reports at once, as often as people want."""

    tag = "reports"

    _store: Store
    _reloader: Reloader
    _settings: Settings
    _record: RecordChange
    _now: Clock
    _underway: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._figures = SavingsFigures(
            self._store, lambda: self._reloader.snapshot.catalog, self._now
        )

    @route("POST", "/reports/scheduled/{name}/send", name="send_report")
    async def send(self, viewer: SignedIn, name: str, request: SendRequest) -> SentReportView:
        """Sends a scheduled report now; what its schedule sends stays as it is."""
        check_allowed(viewer, Action.SEND_MESSAGES)
        report = self._find(name)
        period = self._period(report, request.period)
        (senders,), problems = configured_senders([report], self._settings)
        if problems:
            raise CallerError(" ".join(problems), code="not_configured")
        if name in self._underway:
            raise CallerError(f"{name} is being sent now.", code="already_sending", status=409)
        self._underway.add(name)
        try:
            messages = await self._store.ask(self._messages, senders, period)
            results = await _send(senders, messages)
        except OperatorError as error:
            raise CallerError(f"It cannot be built: {error}.", code="invalid_report") from None
        finally:
            self._underway.discard(name)
        await self._record(_change(viewer, name, period, results))
        return SentReportView(name=name, period=period_name(period), results=results)

    def _find(self, name: str) -> ScheduledReport:
        for report in self._reloader.snapshot.policies.reports:
            if report.name == name:
                return report
        raise CallerError(
            "There is no report of this name in the policies file.",
            code="unknown_report",
            status=404,
        )

    def _period(self, report: ScheduledReport, name: str) -> ReportPeriod:
        if not name:
            return last_period(report.every, report.time_zone, self._now())
        try:
            period = named_period(report.every, name, report.time_zone)
        except ValueError:
            raise CallerError(
                f"period: a {report.every} is written as {PERIOD_EXAMPLES[report.every]}.",
                code="invalid_period",
                param="period",
            ) from None
        if period.bounds[1] > self._now():
            raise CallerError(
                f"period: {name} has not ended.", code="invalid_period", param="period"
            )
        return period

    def _messages(
        self, senders: ReportSenders, period: ReportPeriod
    ) -> Mapping[str, HttpMessage | AddressedMail]:
        """The message to each recipient; blocks."""
        content = report_content(self._store, senders.scheduled, period, self._figures)
        return {
            recipient: senders.message(content, recipient, self._now())
            for recipient in senders.recipients
        }


async def _send(
    senders: ReportSenders, messages: Mapping[str, HttpMessage | AddressedMail]
) -> list[DeliveryResult]:
    """Sends all messages at once, each within its own deadline."""
    async with HttpSender() as http:
        failures = await asyncio.gather(
            *(senders.send(http, message) for message in messages.values())
        )
    return [delivery_result(to, failure) for to, failure in zip(messages, failures, strict=True)]


def delivery_result(recipient: str, failure: DeliveryFailure | None) -> DeliveryResult:
    """The result for one recipient, with what its server said."""
    message = "" if failure is None else f"{failure.reason}. {failure.detail}".rstrip(" .") + "."
    return DeliveryResult(recipient=recipient, failure=message)


def _change(
    viewer: Viewer, name: str, period: ReportPeriod, results: Sequence[DeliveryResult]
) -> AuditedChange:
    return AuditedChange(
        who=viewer.name,
        action="send report",
        subject=name,
        after={
            "period": period_name(period),
            "sent": sum(not result.failure for result in results),
            "failed": sum(bool(result.failure) for result in results),
        },
    )
