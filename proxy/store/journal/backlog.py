"""Receipts that the disk has not taken: in memory within a bound, beyond it lines of the log."""

import logging
from collections import deque
from collections.abc import Sequence
from itertools import islice

from proxy.store.journal.lines import frame, strip_frame
from proxy.store.journal.logged_receipts import LOGGER_NAME, MARKER, to_log_line

_log = logging.getLogger(LOGGER_NAME)


class Backlog:
    """Framed receipts, oldest first; its owner holds a lock.

    Attributes:
        size: Bytes of them.
        lost: Receipts that stand in the log alone.
    """

    def __init__(self, bound: int) -> None:
        """Begin with none.

        Args:
            bound: Bytes that are kept.
        """
        self._bound = bound
        self._framed: deque[bytes] = deque()
        self.size = 0
        self.lost = 0

    def __bool__(self) -> bool:
        """True if one waits."""
        return bool(self._framed)

    @property
    def oldest(self) -> bytes:
        """The one that waited longest."""
        return self._framed[0]

    def add(self, framed: bytes) -> None:
        """Keep a receipt, or write it to the log where there is no more room."""
        if self.size + len(framed) > self._bound:
            self._log(framed)
            return
        self._framed.append(framed)
        self.size += len(framed)

    def drop_oldest(self) -> None:
        """Drop the one that waited longest: it is kept elsewhere now."""
        self.size -= len(self._framed.popleft())

    def lines(self, most: int) -> list[bytes]:
        """Receipts in JSON, oldest first."""
        return [strip_frame(framed) for framed in islice(self._framed, most)]

    def forget(self, lines: Sequence[bytes]) -> None:
        """Drop from the oldest on those that are among these receipts in JSON."""
        shipped = {frame(line) for line in lines}
        while self._framed and self._framed[0] in shipped:
            self.drop_oldest()

    def log_all(self) -> int:
        """Write all to the log, whole; how many receipts that were."""
        count = len(self._framed)
        for framed in self._framed:
            self._log(framed)
        self._framed.clear()
        self.size = 0
        return count

    def _log(self, framed: bytes) -> None:
        self.lost += 1
        _log.critical("%s%s", MARKER, to_log_line(framed))
