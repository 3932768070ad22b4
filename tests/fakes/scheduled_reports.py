"""Scheduled reports, and a ledger with calls of two teams in one week."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proxy.records.receipt import Receipt
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.policies.reports import ReportInterval, ScheduledReport
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import START, a_receipt

#: The week of the calls, and a moment in the week after at which its report is due.
WEEK = "2026-W39"
DUE = datetime(2026, 9, 28, 3, tzinfo=UTC).timestamp()
#: A moment in the week of the calls.
BEFORE = START
ADDRESS = "ann@example.com"


def a_scheduled_report(**changes: Any) -> ScheduledReport:
    """A weekly report by feature for one address."""
    fields: dict[str, Any] = {
        "name": "weekly",
        "by": ("team", "feature"),
        "every": ReportInterval.WEEK,
        "mail_to": (ADDRESS,),
    }
    return ScheduledReport(**(fields | changes))


def open_store(folder: Path) -> Store:
    """A store with a migrated SQLite database."""
    return Store.open(migrated_sqlite(folder / "thriftgate.db"), folder / "journal")


def keep(store: Store, *receipts: Receipt) -> None:
    """Put receipts into the ledger."""
    inserter(store._engine)(receipts)


def calls_of_two_teams(store: Store) -> tuple[str, str]:
    """The ids of two teams that made two calls each, at costs of nine digits."""
    ids = [store.teams.create(name, now=START).id for name in ("assistants", "search")]
    keep(
        store,
        *(
            a_receipt(n, team=ids[n % 2], feature=("<b>", "=1+1")[n // 2], cost_nanos=10**9 + n)
            for n in range(4)
        ),
    )
    return ids[0], ids[1]
