"""Deliveries of scheduled reports: each period goes to each recipient once, by one process.

::

    schedule ── due ─┬─ sent ─────── never again
                     ├─ failed ───── due later, or given up
                     └─ (nothing) ── due again after the lease: its process is gone

One row for each report, period and recipient. A report that is new gets a row without a recipient
for the period before, from which on its periods count: it is sent first when a period ends. What
ended while no gateway ran is scheduled by the next one.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import date
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Engine, and_, func, select, update

from dashboards.reports import ReportPeriod
from proxy.store.sql import schema
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import read_records, read_value, record_of, upsert
from slo.alert import single_line

_MAX_REASON_CHARS: Final = 200
#: Periods of one report that are scheduled at once, the newest: those of half a year of weeks.
MAX_PERIODS: Final = 26
_ADD: Final = upsert(schema.report_deliveries)
_UNSENT: Final = {"tries": 0, "sent": None, "why": ""}


class ReportDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A report of one period for one recipient, sent or yet to be sent.

    Attributes:
        begins: The period's first day.
        ends: The day after its last.
        recipient: ``mailto:`` and an address, or ``webhook``.
        due: Time of the next try, in seconds since the epoch; None for never.
        sent: Time at which the recipient's server took it; None while none did.
        why: Reason that it did not; "" if nothing failed since.
    """

    report: str
    begins: date
    ends: date
    recipient: str
    due: float | None = None
    tries: int = 0
    sent: float | None = None
    why: str = ""


class ReportDeliveries:
    """The deliveries in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def schedule(
        self,
        report: str,
        recipients: Collection[str],
        last: ReportPeriod,
        periods_after: Callable[[date], Iterable[ReportPeriod]],
        due: float,
    ) -> int:
        """Schedule the periods that ended since the report was last scheduled; how many.

        Args:
            last: The last period that ended.
            periods_after: The periods that end after a day, up to the last one.
            due: Time from which they are to be sent, in seconds since the epoch.
        """
        table = schema.report_deliveries.c
        newest = select(func.max(table.ends)).where(table.report == report)
        newest_end = read_value(self._engine, newest)
        if newest_end is None:
            self._add(report, [""], [last], None)
            return 0
        if newest_end >= last.end.isoformat():
            return 0
        periods = list(periods_after(date.fromisoformat(newest_end)))[-MAX_PERIODS:]
        self._add(report, recipients, periods, due)
        return len(periods)

    def claim_due(
        self, report: str, recipients: Collection[str], now: float, lease: float
    ) -> ReportDelivery | None:
        """Claims the delivery that is longest due; nobody else gets it meanwhile. None for none.

        Args:
            now: Seconds since the epoch.
            lease: Seconds after which it is due again, unless it was ``sent`` or ``failed``.
        """
        table = schema.report_deliveries
        is_due = and_(
            table.c.report == report,
            table.c.recipient.in_(list(recipients)),
            table.c.due <= now,
        )
        longest = select(table).where(is_due).order_by(table.c.due, table.c.ends).limit(1)
        if read_value(self._engine, longest) is None:
            return None
        with write_transaction(self._engine) as connection:
            locked = longest.with_for_update(skip_locked=True)
            row = connection.execute(locked).mappings().first()
            if row is None:
                return None
            delivery = record_of(row, ReportDelivery)
            connection.execute(update(table).where(_row_of(delivery)).values(due=now + lease))
        return delivery

    def mark_sent(self, delivery: ReportDelivery, now: float) -> None:
        """Note that the recipient's server took a report."""
        self._update(delivery, {"sent": now, "due": None, "why": ""})

    def mark_failed(self, delivery: ReportDelivery, why: str, due: float | None) -> None:
        """Note that it did not, and when to try again.

        Args:
            due: Time of the next try, in seconds since the epoch; None to give up.
        """
        reason = single_line(why, _MAX_REASON_CHARS)
        self._update(delivery, {"tries": delivery.tries + 1, "due": due, "why": reason})

    def last_deliveries(self, report: str, most: int) -> list[ReportDelivery]:
        """The deliveries of a report, the latest period first."""
        table = schema.report_deliveries
        newest = table.c.ends.desc(), table.c.recipient
        query = (
            select(table)
            .where(table.c.report == report, table.c.recipient != "")
            .order_by(*newest)
            .limit(most)
        )
        return read_records(self._engine, query, ReportDelivery)

    def _add(
        self,
        report: str,
        recipients: Iterable[str],
        periods: Iterable[ReportPeriod],
        due: float | None,
    ) -> None:
        named = list(recipients)
        rows = [
            {
                **_UNSENT,
                "report": report,
                "ends": period.end.isoformat(),
                "recipient": recipient,
                "begins": period.first.isoformat(),
                "due": due,
            }
            for period in periods
            for recipient in named
        ]
        with write_transaction(self._engine) as connection:
            connection.execute(_ADD, rows)

    def _update(self, delivery: ReportDelivery, noted: dict[str, object]) -> None:
        change = update(schema.report_deliveries).where(_row_of(delivery)).values(**noted)
        with write_transaction(self._engine) as connection:
            connection.execute(change)


def _row_of(delivery: ReportDelivery) -> ColumnElement[bool]:
    table = schema.report_deliveries.c
    return and_(
        table.report == delivery.report,
        table.ends == delivery.ends.isoformat(),
        table.recipient == delivery.recipient,
    )
