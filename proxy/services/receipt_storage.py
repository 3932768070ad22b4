"""Stores receipts, and hands them to all who read them.

A receipt is in the journal before anyone counts it. Without room for more, no call is taken; at the
end, the log says where the receipts are that did not reach the ledger.
"""

import logging
from collections.abc import Callable, Sequence

from proxy.errors import Unready
from proxy.records.amounts import quantity
from proxy.records.receipt import Receipt
from proxy.services.telemetry.telemetry import Telemetry
from proxy.store.errors import StoreError
from proxy.store.store import Store

_log = logging.getLogger("thriftgate")


class ReceiptDispatcher:
    """Hands each receipt to all who read receipts: the journal before all that count.

    Args:
        others: Other receivers of each receipt, also where it cannot be stored.
    """

    def __init__(
        self, store: Store, telemetry: Telemetry, others: Sequence[Callable[[Receipt], None]] = ()
    ) -> None:
        self._store = store
        self._telemetry = telemetry
        self._others = list(others)
        self.listen = self._others.append  # takes one more receiver, which must not block

    def keep(self, receipt: Receipt) -> None:
        """Keep the receipt; once this returns, the process may die and it is not lost."""
        try:
            self._store.keep(receipt)
            self._telemetry.observe(receipt)
        finally:
            for hear in self._others:
                hear(receipt)

    async def receipts(self, call_id: str, team: str) -> Sequence[Receipt]:
        """The receipts of a team's call, by attempt; none if it made no such call.

        Raises:
            Unready: The database is away.
        """
        try:
            return await self._store.ask(self._store.ledger.call_receipts, call_id, team)
        except StoreError as error:
            raise Unready(
                "The gateway cannot read the ledger just now; try again in a moment.",
                code="ledger_unavailable",
                retry_after=5.0,
            ) from error


def capacity_trouble(store: Store) -> str:
    """Reason that no receipt could be kept, by the journal or else by the database; "" for none."""
    if store.journal.is_full or (store.journal.is_exhausted and store.drain.trouble):
        return "The gateway cannot keep receipts just now, so it takes no calls."
    return ""


def close_store(opened: Store, grace: float) -> None:
    """Close the store, and log where receipts are that are not in the ledger yet."""
    drained = opened.close(grace)
    if lost := opened.journal.lost_receipts:
        lines = quantity(lost, "receipt")
        _log.critical("%s could be kept nowhere else than in this log", lines)
    elif not drained and opened.journal.has_segments():
        _log.warning("Receipts stay in the journal; the next start puts them into the ledger")
    elif not drained:
        _log.critical(
            "The ledger may lack receipts: the journal's segments are gone from %s",
            opened.journal.folder,
        )
