"""Segments that were removed, hidden or truncated while they were open: their lines are rescued.

A cleaner of old files, or a file system mounted over the folder, takes a segment's name. Its bytes
live for as long as a descriptor is open, so that is where they are read from. A rotation of logs
takes the bytes and leaves the name: the lines that the ledger lacks are taken from memory.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from proxy.store.journal import segments
from proxy.store.journal.lines import strip_frame

_log = logging.getLogger(__name__)

#: Seconds for which a removal is noted.
_NOTED_FOR_S: Final = 3_600.0
#: Lines that are read at once.
_LINES_PER_READ: Final = 250


class UnshippedLines:
    """Lines of a segment that the ledger lacks, the newest of which memory has.

    Attributes:
        dropped: Lines, older than those in memory, that the ledger lacks.
    """

    def __init__(self, most_bytes: int) -> None:
        self.dropped = 0
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0

    def add(self, framed: bytes) -> None:
        """Add a line that was written, as it stands in the segment."""
        self._lines.append(framed)
        self._bytes += len(framed)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._lines.popleft())
            self.dropped += 1

    def forget(self, count: int) -> None:
        """Forget the oldest lines, which are in the ledger now."""
        dropped = min(count, self.dropped)
        self.dropped -= dropped
        for _ in range(min(count - dropped, len(self._lines))):
            self._bytes -= len(self._lines.popleft())

    def in_memory(self) -> list[bytes]:
        """Receipts in JSON, oldest first."""
        return [strip_frame(framed) for framed in self._lines]


@dataclass(slots=True)
class _Source:
    """A descriptor to read lines from, and those to give before them."""

    file: BinaryIO
    path: Path
    lines: Sequence[bytes]
    start: int = 0


class RemovedSegments:
    """Open segments without a name or their bytes, oldest first, and how far each was read.

    Attributes:
        count: Files that were removed or truncated while they were open.
        lost: Receipts that neither a file nor memory had any more.
    """

    def __init__(self, folder: Path) -> None:
        self.count = self.lost = 0
        self._folder = folder
        self._noted_at = float("-inf")
        self._sources: deque[_Source] = deque()

    @property
    def notice(self) -> str | None:
        """A note for operators about removals of the last hour; None without any."""
        if time.monotonic() - self._noted_at > _NOTED_FOR_S:
            return None
        lost = f"{self.lost} receipts were lost with them, and" if self.lost else "but"
        return (
            f"files of the journal in {self._folder} were removed or truncated while it used them;"
            f" what could be read of them was written anew, {lost} a kill in that moment loses"
            " receipts: find what removes or truncates them"
        )

    def take_over(self, file: int, path: Path, size: int, unshipped: UnshippedLines) -> None:
        """Count a removal, log it, and keep the lines to be written anew.

        Args:
            file: Its descriptor, open for reading; it is closed once read, and what is at its path
                is removed then.
            size: Bytes that were written to it; where it has less, lines come from memory.
        """
        is_truncated = os.fstat(file).st_size < size
        lost = unshipped.dropped if is_truncated else 0
        lines = unshipped.in_memory() if is_truncated else ()
        self._sources.append(_Source(os.fdopen(file, "rb"), path, lines))
        self.add(path, is_truncated=is_truncated, lost=lost)

    def add(self, path: Path, *, is_truncated: bool, lost: int = 0) -> None:
        """Count a removal and log it."""
        self.count += 1
        self.lost += lost
        self._noted_at = time.monotonic()
        _log.error(
            "%s was %s while the journal used it; what it held is written anew%s."
            " Find what %s files in %s",
            path.name,
            "truncated" if is_truncated else "removed",
            f", but for {lost} receipts, which are lost" if lost else "",
            "truncates" if is_truncated else "removes",
            self._folder,
        )

    def next_lines(self) -> Sequence[bytes]:
        """The next receipts in JSON; none once all were read."""
        while self._sources:
            source = self._sources[0]
            if source.lines:
                lines, source.lines = source.lines, ()
                return lines
            if lines := self._read(source):
                return lines
        return []

    def _read(self, source: _Source) -> Sequence[bytes]:
        """The next lines of its file, which is closed where it has no more."""
        try:
            pieces = segments.read(source.file, source.start, _LINES_PER_READ, sealed=True)
        except OSError:
            _log.exception("a removed segment of the journal cannot be read back")
            pieces = segments.SegmentLines([], source.start, [])
        for line in pieces.torn:
            _log.error("a removed segment held a torn line, which began %r", line[:80])
        if pieces.end > source.start:
            source.start = pieces.end
            return pieces.lines
        self._sources.popleft()
        with source.file, suppress(OSError):
            if segments.is_at(source.file.fileno(), source.path):
                source.path.unlink()
        return []
