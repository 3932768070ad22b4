"""Sends scheduled reports when their periods have ended, each once, whichever gateway does it.

::

    a period ends ─ two hours ─ scheduled (a row per recipient) ─ claimed ─ built ─ sent
                                                                    └─ again later, if it fails

Gateways share the rows by their database. A report is sent twice only where a process dies between
the recipient's answer and the note of it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from dashboards.report_periods import last_period, period_name, periods_after
from dashboards.reports import ReportPeriod
from proxy.app_context import AppContext
from proxy.configuration import Snapshot
from proxy.errors import OperatorError
from proxy.services.alerts.http_sender import DeliveryFailure, HttpMessage, HttpSender
from proxy.services.reports.mail_server import MAIL_DEADLINE_S, AddressedMail
from proxy.services.reports.report_content import report_content
from proxy.services.reports.report_senders import (
    ReportSenders,
    report_senders,
    report_variables,
)
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.settings import Settings, upstream_keys
from proxy.store.errors import StoreError
from proxy.store.sql.report_deliveries import ReportDelivery
from proxy.store.store import Store
from slo.policies.reports import ScheduledReport

_log = logging.getLogger("thriftgate.reports")

#: Seconds after a period's end until its report is built. Calls of its last hour have ended by
#: then, and idle time of replicas is booked.
SETTLE_S: Final = 2 * 3_600.0
#: Seconds between two looks at what is due.
POLL_INTERVAL_S: Final = 30.0
#: Seconds after which an unconfirmed delivery is due again.
LEASE_S: Final = 600.0
#: Failed tries after which a report is given up: more than two days.
MAX_TRIES: Final = 60
#: The same where the recipient's server refuses the mail itself.
MAX_REFUSALS: Final = 6
_FIRST_PAUSE_S: Final = 60.0
_MAX_PAUSE_S: Final = 3_600.0


class ReportScheduler:
    """Schedules and sends reports.

    Args:
        http: Posts to webhooks; closed by its opener.
    """

    def __init__(
        self,
        store: Store,
        senders: Sequence[ReportSenders],
        http: HttpSender,
        figures: SavingsFigures,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._deliveries = store.report_deliveries
        self._senders = tuple(senders)
        self._http = http
        self._figures = figures
        self._now = now

    def update(self, senders: Sequence[ReportSenders]) -> None:
        """Send these reports from now on."""
        self._senders = tuple(senders)

    async def run(self) -> None:
        """Schedule and send what is due, without end."""
        while True:
            await self._store.wait_until_online()
            try:
                await self.send_due()
            except StoreError as error:
                _log.warning("Reports wait for the database: %s", error)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def send_due(self) -> None:
        """Schedule the periods that have ended, and send what is due now."""
        for senders in self._senders:
            if self._store.drain.trouble is None:
                await self._schedule(senders)
            while (claimed := await self._claim(senders)) is not None:
                await self._deliver(senders, claimed)

    async def _schedule(self, senders: ReportSenders) -> None:
        scheduled, now = senders.scheduled, self._now()
        last = last_period(scheduled.every, scheduled.time_zone, now - SETTLE_S)
        after = partial(periods_after, last=last, every=scheduled.every)
        schedule = self._deliveries.schedule
        await self._store.ask(schedule, scheduled.name, senders.recipients, last, after, now)

    async def _claim(self, senders: ReportSenders) -> ReportDelivery | None:
        claim, name = self._deliveries.claim_due, senders.scheduled.name
        return await self._store.ask(claim, name, senders.recipients, self._now(), LEASE_S)

    async def _deliver(self, senders: ReportSenders, claimed: ReportDelivery) -> None:
        """Build and send a report, and note how it went."""
        began, zone = self._now(), senders.scheduled.time_zone
        period = ReportPeriod(first=claimed.begins, end=claimed.ends, zone=zone)
        try:
            message = await self._store.ask(self._message, senders, claimed.recipient, period)
        except OperatorError as error:
            await self._fail(claimed, period, DeliveryFailure(str(error)))
            return
        if self._now() > began + LEASE_S - 2 * MAIL_DEADLINE_S:
            return  # the lease ends, and another gateway may send it
        failure = await senders.send(self._http, message)
        if failure is not None:
            await self._fail(claimed, period, failure)
            return
        await self._store.ask(self._deliveries.mark_sent, claimed, self._now())
        named = claimed.report, period_name(period), claimed.recipient
        _log.info("The report `%s` of %s was sent to %s", *named)

    def _message(
        self, senders: ReportSenders, recipient: str, period: ReportPeriod
    ) -> HttpMessage | AddressedMail:
        """The message to a recipient; blocks."""
        content = report_content(self._store, senders.scheduled, period, self._figures)
        return senders.message(content, recipient, self._now())

    async def _fail(
        self, claimed: ReportDelivery, period: ReportPeriod, failure: DeliveryFailure
    ) -> None:
        """Try again later, or give up."""
        tries = claimed.tries + 1
        is_over = tries >= (MAX_REFUSALS if failure.is_refused else MAX_TRIES)
        pause = max(retry_pause_s(tries), min(failure.retry_after or 0.0, _MAX_PAUSE_S))
        due = None if is_over else self._now() + pause
        _log.log(
            logging.ERROR if is_over else logging.WARNING,
            "The report `%s` of %s was not sent to %s, and %s: %s",
            claimed.report,
            period_name(period),
            claimed.recipient,
            "is given up" if is_over else f"is tried again in {pause:.0f} s",
            failure.reason,
        )
        await self._store.ask(self._deliveries.mark_failed, claimed, failure.reason, due)


def retry_pause_s(tries: int) -> float:
    """Seconds to wait after so many failed tries: a minute, then twice as long, up to an hour."""
    return float(min(_FIRST_PAUSE_S * 2 ** min(tries - 1, 10), _MAX_PAUSE_S))


def configured_senders(
    reports: Sequence[ScheduledReport], settings: Settings
) -> tuple[list[ReportSenders], list[str]]:
    """As ``report_senders``, with the values of this process's environment variables."""
    return report_senders(reports, settings, upstream_keys(report_variables(reports)))


@asynccontextmanager
async def running_reports(context: AppContext) -> AsyncIterator[None]:
    """Sends the policies' reports, and those of each later policies file, in the block."""
    catalog = context.catalog
    senders = _logged_senders(context.policies.reports, context.settings)

    figures = SavingsFigures(context.opened, lambda: catalog, context.now)
    async with HttpSender() as http:
        scheduler = ReportScheduler(context.opened, senders, http, figures, context.now)

        async def prepare(snapshot: Snapshot) -> Callable[[], None]:
            def commit() -> None:
                nonlocal catalog
                catalog = snapshot.catalog
                scheduler.update(_logged_senders(snapshot.policies.reports, context.settings))

            return commit

        context.follow(prepare)
        running = context.tasks.keep(scheduler.run)
        try:
            yield
        finally:
            context.tasks.end(running)
            await asyncio.wait([running])


def _logged_senders(reports: Sequence[ScheduledReport], settings: Settings) -> list[ReportSenders]:
    senders, lacking = configured_senders(reports, settings)
    for why in lacking:
        _log.warning("%s", why)
    return senders
