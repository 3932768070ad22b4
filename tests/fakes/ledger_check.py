"""True if the ledger holds what was delivered: each call once, and the sums right."""

from dataclasses import dataclass
from datetime import date

from sqlalchemy import func, select

from dashboards.reports import ReportPeriod
from proxy.store.journal.segments import list_segments
from proxy.store.sql import schema
from proxy.store.sql.database import open_database, read_transaction
from proxy.store.sql.ledger.receipt_ledger import ReceiptLedger
from proxy.store.sql.views.ledger_reports import LedgerReports
from tests.fakes.load import Load
from tests.fakes.serve_process import ServeProcess

_EVER = ReportPeriod(first=date(2020, 1, 1), end=date(2100, 1, 1), zone="UTC")


@dataclass(frozen=True, kw_only=True)
class LedgerCheck:
    """Compares the ledger with the calls that were delivered.

    Attributes:
        delivered: Calls whose answers arrived whole.
        kept: Calls in the ledger, those that were broken off included.
        lost: Delivered calls that are not in the ledger exactly once.
        doubled: Calls with more than one final receipt.
        adrift: Sums in which the rollups differ from the calls.
        undrained: Segments of the journal that are left.
    """

    delivered: int
    kept: int
    lost: list[str]
    doubled: int
    adrift: dict[str, tuple[int, int]]
    undrained: int

    @property
    def is_whole(self) -> bool:
        return not (self.lost or self.doubled or self.adrift or self.undrained)


def check_ledger(gateway: ServeProcess, load: Load) -> LedgerCheck:
    """The reckoning, once the gateway has stopped."""
    engine = open_database(gateway.database_url)
    calls = schema.calls.c
    sums = {"calls": func.sum(calls.final), "attempts": func.count()}
    sums |= {name: func.coalesce(func.sum(calls[name]), 0) for name in schema.BUCKETS}
    sums |= {name: func.coalesce(func.sum(calls[name]), 0) for name in ("list_nanos", "cost_nanos")}
    finals = select(calls.call_id).where(calls.final == 1).group_by(calls.call_id)
    try:
        ledger = ReceiptLedger(engine, gateway.folder / "journal")
        (spend,) = LedgerReports(engine).spend(_EVER, ())
        with read_transaction(engine) as connection:
            folded = connection.execute(select(*(sums[name].label(name) for name in sums))).one()
            twice = len(connection.execute(finals.having(func.count() > 1)).all())
        rolled = {"calls": spend.calls, "attempts": spend.attempts}
        rolled |= {name: getattr(spend.usage, name) for name in schema.BUCKETS}
        rolled |= {"list_nanos": spend.list_nanos or 0, "cost_nanos": spend.cost_nanos or 0}
        return LedgerCheck(
            delivered=len(load.delivered),
            kept=ledger.count_calls(),
            lost=ledger.missing_calls(load.delivered),
            doubled=twice,
            adrift={
                name: (int(getattr(folded, name)), rolled[name])
                for name in sums
                if int(getattr(folded, name)) != rolled[name]
            },
            undrained=len(list_segments(gateway.folder / "journal")),
        )
    finally:
        engine.dispose()
