"""The local journal: a receipt is safe from kill -9 once appended, and from a power cut soon after.

``append`` is called on the event loop just before the last bytes of an answer leave; it makes one
write of one line and nothing else. A thread does what may take long: syncing to disk, beginning
new segments, and trying again what a full or broken disk refused.

On a full disk lines go, in this order,

- to the reserve: a segment whose blocks were allocated in advance
- to memory, from where the drain takes them straight to the database if that lives
- to the log, but for prompts, if memory is full or the process stops; ``receipts import`` reads
  them there.

Twenty times a second it looks if the open segment is still at its path, as long as it was
written. Of one that was removed, or hidden by a mount, all lines are read back and written anew; of
one that was truncated, those that memory has. How many it has not is counted as lost.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from proxy.store.journal import segments
from proxy.store.journal.backlog import Backlog
from proxy.store.journal.lines import frame
from proxy.store.journal.removed_segments import RemovedSegments, UnshippedLines
from proxy.store.journal.segments import Disk, JournalLimits

_log = logging.getLogger(__name__)

#: Seconds between two attempts to allocate a reserve.
_RESTOCK_PAUSE_S: Final = 1.0


class Journal:
    """An append-only record of receipts in a folder that several processes may share.

    Attributes:
        folder: Its folder; it is made again if it is removed.
        removed: Files of the journal that were removed or truncated while it used them.
    """

    def __init__(
        self, folder: Path, *, bounds: JournalLimits | None = None, disk: Disk | None = None
    ) -> None:
        self.folder = folder
        self._bounds = bounds or JournalLimits()
        self._disk = disk or Disk()
        self._name = f"{os.getpid()}-{token_hex(4)}"
        self._count = 0
        self._backlog = Backlog(self._bounds.backlog)
        self._size = 0
        self._unshipped = UnshippedLines(self._bounds.unshipped)
        self._dirty = False
        self._refusal: str | None = None
        self._unsynced: str | None = None
        self._lock = threading.Lock()  # the open segment and the backlog
        self._turn = threading.Lock()  # one `sync` at a time
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="journal", daemon=True)
        self._reserve: tuple[int, Path] | None = None  # allocated, and not in use yet
        self._room: int | None = None  # the reserve's bytes while it is appended to
        self._restock_at = 0.0
        self._retired: list[tuple[int, Path, int, UnshippedLines]] = []  # to sync and close
        self.removed = RemovedSegments(folder)
        self._is_closed = False
        self._file, self._segment = self._begin()
        segments.remove_orphaned_reserves(folder)
        self._restock()
        self._restock_at = 0.0

    def start(self) -> None:
        """Begin to sync in the background."""
        self._thread.start()

    def append(self, line: bytes) -> None:
        """Record a receipt in JSON (see ``lines.encode``); never raises, never waits for a sync.

        What the disk refuses goes to the reserve, then is kept in memory and tried again; beyond
        the bound of that it goes to the log, as the last place there is.
        """
        framed = frame(line)
        with self._lock:
            was_written = not self._backlog and self._write(framed)
            if not was_written and not self._write_to_reserve(framed):
                self._backlog.add(framed)

    @property
    def segment(self) -> Path | None:
        """The file now appended to; None once closed, or where none can be made."""
        return self._segment if self._file >= 0 else None

    @property
    def trouble(self) -> str | None:
        """A description of what is wrong with the disk; None while all is well."""
        return self._refusal or self._unsynced

    @property
    def waiting_bytes(self) -> int:
        """Bytes in memory that the disk has not taken yet."""
        return self._backlog.size

    @property
    def is_full(self) -> bool:
        """True if new calls must be refused, because their receipts could not be kept."""
        return self._backlog.size * 2 >= self._bounds.backlog

    @property
    def is_exhausted(self) -> bool:
        """True if the disk takes nothing and the reserve is used up."""
        return bool(self._backlog) and self._reserve is None

    @property
    def lost_receipts(self) -> int:
        """Receipts that stand in the log alone."""
        return self._backlog.lost

    @property
    def _written_bytes(self) -> int:
        """Bytes that the open segment has, unless somebody truncated it."""
        return self._size if self._room is None else self._room

    @property
    def spare_bytes(self) -> int:
        """Bytes that are allocated behind the open segment's lines."""
        return 0 if self._room is None else self._room - self._size

    def has_segments(self) -> bool:
        """True unless its folder is gone or has no segments, its own or others'."""
        try:
            return bool(segments.list_segments(self.folder))
        except OSError:  # it is there, and cannot be read now
            return True

    def oldest_waiting(self, most: int) -> list[bytes]:
        """Receipts in JSON that are in memory alone, oldest first; they stay there."""
        with self._lock:
            return self._backlog.lines(most)

    def forget_oldest(self, lines: Sequence[bytes]) -> None:
        """Drop receipts from memory that ``oldest_waiting`` gave and that are kept elsewhere now.

        The disk may have taken some of them meanwhile.
        """
        with self._lock:
            self._backlog.forget(lines)

    def note_shipped(self, path: Path, lines: int) -> None:
        """Note that the next lines of a segment are in the ledger."""
        with self._lock:  # of one that was truncated, nobody can tell which lines those were
            if path == self._segment and segments.is_at(self._file, path, self._written_bytes):
                self._unshipped.forget(lines)

    def sync(self) -> None:
        """Write what waits, sync it to disk, and begin a new segment if this one is long enough."""
        with self._turn:
            self._release_retired()
            self._replace_removed()
            if self._reserve is None:
                self._restock()
            self._write_removed_anew(self._bounds.backlog // 4)
            self._retry()
            if self._dirty:
                self._sync()
            if self._room is None and self._size >= self._bounds.segment:
                self._rotate()

    def close(self) -> None:
        """Sync and let go of the open segment; whatever it holds can still be drained.

        So can what is in memory alone; ``log_waiting`` is its last resort.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.sync()
        with self._lock:
            file, self._file, self._is_closed = self._file, -1, True
            reserve, self._reserve = self._reserve, None
        if file >= 0:
            end = None if self._room is None else self._size
            self._release(file, self._segment, self._written_bytes, self._unshipped, end)
        self._write_removed_anew(self._bounds.backlog)
        if reserve is not None:
            with suppress(OSError):
                reserve[1].unlink()
            os.close(reserve[0])

    def log_waiting(self) -> int:
        """Write what is in memory alone to the log, whole; how many receipts that were."""
        with self._lock:
            return self._backlog.log_all()

    def _tend(self) -> None:
        while not self._stop.wait(self._bounds.unsynced):
            self.sync()

    def _write(self, framed: bytes) -> bool:
        if self._file < 0:
            self._refuse("it is closed" if self._is_closed else "its folder is gone")
            return False
        if self._room is not None and self._size + len(framed) > self._room:
            self._refuse("the reserve is used up")
            return False
        try:
            written = self._disk.write(self._file, framed)
        except OSError as error:
            self._refuse(error.strerror or str(error))
            return False
        self._size += written
        self._dirty = True
        if written < len(framed):  # what was written is a torn line; the whole is tried again
            self._refuse("the disk took only a part of a line")
            return False
        self._unshipped.add(framed)
        return True

    def _write_to_reserve(self, framed: bytes) -> bool:
        """True if the line went to the reserve, which is appended to from now on.

        One that is longer than all of the reserve leaves it to others.
        """
        if self._room is not None:
            return self._size + len(framed) <= self._room and self._write(framed)
        if self._reserve is None or len(framed) > self._bounds.reserve:
            return False
        if self._file >= 0:
            retired = self._file, self._segment, self._size, self._unshipped
            self._retired.append(retired)
        self._unshipped = UnshippedLines(self._bounds.unshipped)
        self._file, path = self._reserve
        self._reserve, self._room, self._size = None, self._bounds.reserve, 0
        self._segment = segments.take_into_use(path)
        return self._write(framed)

    def _restock(self) -> None:
        """Allocate a reserve where there is none; leave the one in use, as there is room again."""
        if self._is_closed or time.monotonic() < self._restock_at:
            return
        self._restock_at = time.monotonic() + _RESTOCK_PAUSE_S
        try:
            made = segments.create_reserve(self.folder, self._name, self._allocate)
        except OSError as error:
            if self._refusal is None and self._unsynced is None:
                self._unsynced = f"the journal has no reserve: {error.strerror or error}"
                _log.warning("the journal cannot allocate its reserve: %s", error)
            return
        with self._lock:
            self._reserve = made
        if self._room is not None:
            self._rotate()

    def _allocate(self, file: int) -> None:
        self._disk.allocate(file, 0, self._bounds.reserve)

    def _refuse(self, why: str) -> None:
        if self._refusal is None:
            _log.error("the journal cannot write: %s", why)
            self._refusal = f"the journal cannot write: {why}"

    def _retry(self) -> None:
        while self._backlog:
            with self._lock:  # line by line, so that an append never waits for more than one
                if not self._write(self._backlog.oldest):
                    return
                self._backlog.drop_oldest()
        if self._room is None and self._file >= 0:
            self._refusal = None

    def _release_retired(self) -> None:
        with self._lock:
            retired, self._retired = self._retired, []
        for segment in retired:
            self._release(*segment)

    def _replace_removed(self) -> None:
        """Leave files that were removed or truncated; begin a segment where there is none."""
        reserve = self._reserve
        if reserve is not None and not segments.is_at(*reserve, self._bounds.reserve):
            with self._lock:
                is_unused = self._reserve is reserve
                if is_unused:
                    self._reserve = None
            if is_unused:
                self._restock_at = 0.0
                self.removed.take_over(*reserve, 0, UnshippedLines(0))
        with self._lock:
            file, path, size = self._file, self._segment, self._written_bytes
        if self._is_closed or (file >= 0 and segments.is_at(file, path, size)):
            return
        if not self._rotate() and file >= 0:
            self._append_to(-1, path)

    def _write_removed_anew(self, most_waiting: int) -> None:
        """Write what removed segments held, while no more than so many bytes wait in memory."""
        while self._backlog.size <= most_waiting and (lines := self.removed.next_lines()):
            for framed in map(frame, lines):
                with self._lock:
                    if self._backlog or not self._write(framed):
                        self._backlog.add(framed)

    def _sync(self) -> None:
        self._dirty = False
        if self._file < 0:
            return
        try:
            self._disk.sync(self._file)
        except OSError as error:
            self._dirty = True
            self._unsynced = f"the journal cannot sync: {error.strerror or error}"
            _log.exception("the journal cannot sync")
        else:
            self._unsynced = None

    def _rotate(self) -> bool:
        """True if a new segment was begun; else the old one serves on."""
        try:
            file, path = self._begin()
        except OSError as error:
            self._unsynced = f"the journal cannot begin a segment: {error.strerror or error}"
            return False
        self._append_to(file, path)
        return True

    def _append_to(self, file: int, path: Path) -> None:
        """Append to this segment from now on; -1 for none."""
        with self._lock:
            old, old_path, self._file, self._segment = self._file, self._segment, file, path
            end = self._size if self._room is not None else None
            size, unshipped = self._written_bytes, self._unshipped
            self._size, self._room, self._dirty = 0, None, True
            self._unshipped = UnshippedLines(self._bounds.unshipped)
        if old >= 0:
            self._release(old, old_path, size, unshipped, end)

    def _release(
        self, file: int, path: Path, size: int, unshipped: UnshippedLines, end: int | None = None
    ) -> None:
        """Let go of a segment that nothing is appended to any more.

        Args:
            path: Its path; where it is not there any more, its lines are to be written anew.
            size: Its bytes; where it is shorter, so are the lines that the ledger lacks.
            end: End of its lines, where blocks behind them are allocated.
        """
        if not segments.is_at(file, path, size):
            self.removed.take_over(file, path, size, unshipped)
            return
        try:
            if end is not None:
                os.ftruncate(file, end)
            self._disk.sync(file)
        except OSError:
            _log.exception("the journal cannot sync its last segment")
        os.close(file)

    def _begin(self) -> tuple[int, Path]:
        """A new segment; its folder is made where it is not there."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            self._count += 1
            made = segments.create(self.folder, f"{self._name}-{self._count:06}")
            if made is not None:
                return made
