"""Segments that were removed, moved or hidden while they were open: their lines are read back.

A cleaner of old files, or a file system mounted over the folder, takes a segment's name. Its bytes
live for as long as a descriptor is open, so that is where they are read from.
"""

import logging
import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from proxy.store.journal import segments

_log = logging.getLogger(__name__)

#: Seconds for which a removal is noted.
_NOTED_FOR_S: Final = 3_600.0
#: Lines that are read at once.
_LINES_PER_READ: Final = 250


class RemovedSegments:
    """Open segments without a name, oldest first, and how far each was read.

    Args:
        folder: Folder of the journal.

    Attributes:
        count: Files that were removed while they were open.
    """

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._folder = folder
        self._noted_at = float("-inf")
        self._files: deque[tuple[BinaryIO, int]] = deque()

    def note(self, path: Path) -> None:
        """Count a removal and log it."""
        self.count += 1
        self._noted_at = time.monotonic()
        _log.error(
            "%s was removed while the journal used it; what it held is written anew."
            " Find what removes files in %s",
            path.name,
            self._folder,
        )

    @property
    def notice(self) -> str | None:
        """A note for operators about removals of the last hour; None without any."""
        if time.monotonic() - self._noted_at > _NOTED_FOR_S:
            return None
        return (
            f"files of the journal in {self._folder} were removed while it used them; what they"
            " held was written anew, but a kill in that moment loses receipts: find what removes"
            " them"
        )

    def add(self, file: int) -> None:
        """Take over a removed segment's descriptor, open for reading; it is closed once read."""
        self._files.append((os.fdopen(file, "rb"), 0))

    def next_lines(self) -> list[bytes]:
        """The next receipts in JSON; none once all were read."""
        while self._files:
            file, start = self._files.popleft()
            try:
                pieces = segments.read(file, start, _LINES_PER_READ, sealed=True)
            except OSError:
                _log.exception("a removed segment of the journal cannot be read back")
                pieces = segments.SegmentLines([], start, [])
            for line in pieces.torn:
                _log.error("a removed segment held a torn line, which began %r", line[:80])
            if pieces.end > start:
                self._files.appendleft((file, pieces.end))
            else:
                with suppress(OSError):
                    file.close()
            if pieces.lines:
                return pieces.lines
        return []
