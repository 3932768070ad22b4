"""Imports receipts that only a log has into the ledger, each once."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from proxy.errors import OperatorError
from proxy.records.receipt import Receipt
from proxy.store.journal.logged_receipts import MARKER, receipt_from_log
from proxy.store.store import Store

#: Receipts that are booked at once, and bytes of a line that are read at most.
_RECEIPTS_PER_BATCH: Final = 250
_MAX_LINE_BYTES: Final = 1 << 20
#: Refused lines that are named.
_MAX_NAMED_REFUSALS: Final = 50


class ReceiptImport:
    """Receipts of logs on their way into the ledger.

    Args:
        oldest: Seconds since the epoch; what is older may have been in the ledger and been deleted.

    Attributes:
        found: Receipts among them.
        booked: Receipts that the ledger lacked.
        refused: Reasons for refused lines, with file and number; the first of them.
    """

    def __init__(self, store: Store, oldest: float) -> None:
        self._store = store
        self._oldest = oldest
        self._teams = {team.id for team in store.teams.all()}
        self._waiting: list[tuple[str, Receipt]] = []
        self.lines = self.found = self.booked = self.refusals = 0
        self.refused: list[str] = []

    def read(self, name: str, file: BinaryIO) -> None:
        """Book the receipts of a log.

        Raises:
            StoreError: The database is away.
        """
        for number, line in enumerate(_lines(file), 1):
            self.lines += 1
            where = f"{name}:{number}"
            try:
                receipt = _read_receipt(line)
            except OperatorError as why:
                self.found += 1
                self._refuse(where, str(why))
                continue
            if receipt is None:
                continue
            self.found += 1
            if why_not := self._why_not(receipt):
                self._refuse(where, why_not)
                continue
            self._waiting.append((where, receipt))
            if len(self._waiting) >= _RECEIPTS_PER_BATCH:
                self._book()
        self._book()

    def _why_not(self, receipt: Receipt) -> str:
        """Reason that a receipt is not for this ledger; "" if it is."""
        if receipt.team not in self._teams:
            return f"this ledger has no team {receipt.team[:60]!r}: is it another gateway's log?"
        if receipt.started < self._oldest:
            return (
                "it is older than THRIFTGATE_RETENTION_DAYS, so the ledger may have had it and"
                " deleted it"
            )
        return ""

    def _book(self) -> None:
        """Book what waits; where the database refuses all of it, one by one."""
        waiting, self._waiting = self._waiting, []
        try:
            self.booked += self._store.book([receipt for _, receipt in waiting])
        except OperatorError:
            for where, receipt in waiting:
                try:
                    self.booked += self._store.book([receipt])
                except OperatorError as why:
                    self._refuse(where, f"the database does not take it: {why}")

    def _refuse(self, where: str, why: str) -> None:
        self.refusals += 1
        if len(self.refused) < _MAX_NAMED_REFUSALS:
            self.refused.append(f"{where}: {why}.")


def _read_receipt(line: bytes) -> Receipt | None:
    """The receipt in a line of a log; None where it holds none."""
    if len(line) >= _MAX_LINE_BYTES:
        if MARKER.encode() in line:
            raise OperatorError(f"it is longer than {_MAX_LINE_BYTES:,} bytes")
        return None
    return receipt_from_log(line.decode("utf8", "replace"))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long, its beginning."""
    while line := file.readline(_MAX_LINE_BYTES):
        yield line
        while line and not line.endswith(b"\n") and len(line) >= _MAX_LINE_BYTES:
            line = file.readline(_MAX_LINE_BYTES)
