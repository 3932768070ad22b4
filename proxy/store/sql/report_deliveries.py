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
from typing import Any, Final

import msgspec
from sqlalchemy import Engine, Row, and_, func, select, text, update

from dashboards.reports import ReportPeriod
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.timestamps import micros, seconds
from slo.alert import single_line

_MAX_REASON_CHARS: Final = 200
#: Periods of one report that are scheduled at once, the newest: those of half a year of weeks.
MAX_PERIODS: Final = 26
_ADD: Final = text(
    "INSERT INTO report_deliveries (report, ends, recipient, begins, due, tries, why)"
    " VALUES (:report, :ends, :recipient, :begins, :due, 0, '') ON CONFLICT DO NOTHING"
)


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
        with read_transaction(self._engine) as connection:
            newest_end = connection.execute(newest).scalar()
        if newest_end is None:
            self._add(report, [""], [last], None)
            return 0
        if newest_end >= last.end.isoformat():
            return 0
        periods = list(periods_after(date.fromisoformat(newest_end)))[-MAX_PERIODS:]
        self._add(report, recipients, periods, micros(due))
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
            table.c.due <= micros(now),
        )
        longest = select(table).where(is_due).order_by(table.c.due, table.c.ends).limit(1)
        with read_transaction(self._engine) as connection:
            if connection.execute(longest).first() is None:
                return None
        with write_transaction(self._engine) as connection:
            row = connection.execute(longest.with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            claimed = and_(
                table.c.report == report,
                table.c.ends == row.ends,
                table.c.recipient == row.recipient,
            )
            connection.execute(update(table).where(claimed).values(due=micros(now + lease)))
        return _delivery(row)

    def mark_sent(self, delivery: ReportDelivery, now: float) -> None:
        """Note that the recipient's server took a report."""
        self._update(delivery, {"sent": micros(now), "due": None, "why": ""})

    def mark_failed(self, delivery: ReportDelivery, why: str, due: float | None) -> None:
        """Note that it did not, and when to try again.

        Args:
            due: Time of the next try, in seconds since the epoch; None to give up.
        """
        self._update(
            delivery,
            {
                "tries": delivery.tries + 1,
                "due": None if due is None else micros(due),
                "why": single_line(why, _MAX_REASON_CHARS),
            },
        )

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
        with read_transaction(self._engine) as connection:
            return [_delivery(row) for row in connection.execute(query)]

    def _add(
        self,
        report: str,
        recipients: Iterable[str],
        periods: Iterable[ReportPeriod],
        due: int | None,
    ) -> None:
        named = list(recipients)
        rows = [
            {
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
        table = schema.report_deliveries
        is_it = and_(
            table.c.report == delivery.report,
            table.c.ends == delivery.ends.isoformat(),
            table.c.recipient == delivery.recipient,
        )
        with write_transaction(self._engine) as connection:
            connection.execute(update(table).where(is_it).values(**noted))


def _delivery(row: Row[Any]) -> ReportDelivery:
    return ReportDelivery(
        report=row.report,
        begins=date.fromisoformat(row.begins),
        ends=date.fromisoformat(row.ends),
        recipient=row.recipient,
        due=None if row.due is None else seconds(row.due),
        tries=row.tries,
        sent=None if row.sent is None else seconds(row.sent),
        why=row.why,
    )
