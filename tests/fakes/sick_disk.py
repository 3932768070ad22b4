"""A disk that can be told to fail, and the lines of a journal that are on it."""

import errno
import os
from pathlib import Path

from proxy.store.journal.segments import Disk, list_segments, read


class SickDisk:
    """A disk that can be told to fail.

    It refuses all writes, or as a full one all but those to allocated blocks, takes parts of them,
    or cannot sync.
    """

    def __init__(self) -> None:
        self.refuses = False
        self.is_full = False
        self._allocated: set[int] = set()
        self.takes: int | None = None
        self.cannot_sync = False
        self.syncs = 0
        self.disk = Disk(write=self._write, sync=self._sync, allocate=self._allocate)

    def _write(self, file: int, line: bytes) -> int:
        if self.refuses or (self.is_full and os.fstat(file).st_ino not in self._allocated):
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, line[: self.takes])

    def _allocate(self, file: int, start: int, length: int) -> None:
        if self.refuses or self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.posix_fallocate(file, start, length)
        self._allocated.add(os.fstat(file).st_ino)

    def _sync(self, file: int) -> None:
        if self.cannot_sync:
            raise OSError(errno.EIO, "Input/output error")
        self.syncs += 1


def read_lines(folder: Path) -> tuple[list[bytes], int]:
    """All lines in the folder, and how many are torn."""
    lines, torn = [], 0
    for path in list_segments(folder):
        with path.open("rb") as file:
            pieces = read(file, 0, 10_000, sealed=True)
        lines += pieces.lines
        torn += len(pieces.torn)
    return lines, torn
