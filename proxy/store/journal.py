"""The local journal: a receipt is safe from kill -9 once appended, and from a power cut soon after.

``append`` is called on the event loop just before the last bytes of an answer leave; it makes one
write of one line and nothing else. A thread does what may take long: syncing to disk, beginning
new segments, and trying again what a full or broken disk refused.
"""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from proxy.store import segments
from proxy.store.lines import frame

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The two calls a disk may fail."""

    write: Callable[[int, bytes], int] = os.write
    sync: Callable[[int], None] = os.fsync


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much the journal holds, and for how long.

    Attributes:
        segment: Bytes after which a new segment is begun; reached a little late.
        backlog: Bytes kept in memory while the disk refuses them. From half of it on the journal
            is full; the other half is for the calls already on their way.
        unsynced: Seconds a line may wait to be synced to disk.
    """

    segment: int = 8 << 20
    backlog: int = 32 << 20
    unsynced: float = 0.05


class Journal:
    """An append-only record of receipts in a folder that several processes may share."""

    def __init__(
        self, folder: Path, *, bounds: Bounds | None = None, disk: Disk | None = None
    ) -> None:
        self.folder = folder
        self._bounds = bounds or Bounds()
        self._disk = disk or Disk()
        self._name = f"{os.getpid()}-{token_hex(4)}"
        self._count = 0
        self._backlog: deque[bytes] = deque()
        self._waiting = 0
        self._size = 0
        self._dirty = False
        self._refusal: str | None = None
        self._unsynced: str | None = None
        self._lock = threading.Lock()  # the open segment and the backlog
        self._turn = threading.Lock()  # one `sync` at a time
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="journal", daemon=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file, self._segment = self._begin()

    def start(self) -> None:
        """Begin to sync in the background."""
        self._thread.start()

    def append(self, line: bytes) -> None:
        """Record a receipt in JSON (see ``lines.encode``); never raises, never waits for a sync.

        What the disk refuses is kept in memory and tried again; beyond the bound of that it goes
        to the log, as the last place there is.
        """
        framed = frame(line)
        with self._lock:
            if self._backlog or not self._written(framed):
                self._keep(framed)

    @property
    def segment(self) -> Path | None:
        """The file now appended to; None once closed."""
        return self._segment if self._file >= 0 else None

    @property
    def trouble(self) -> str | None:
        """What is wrong with the disk; None while all is well."""
        return self._refusal or self._unsynced

    @property
    def waiting(self) -> int:
        """Bytes in memory that the disk has not taken yet."""
        return self._waiting

    @property
    def full(self) -> bool:
        """Whether new calls must be refused, because their receipts could not be kept."""
        return self._waiting * 2 >= self._bounds.backlog

    def sync(self) -> None:
        """Write what waits, sync it to disk, and begin a new segment if this one is long enough."""
        with self._turn:
            self._retry()
            if self._dirty:
                self._sync()
            if self._size >= self._bounds.segment:
                self._rotate()

    def close(self) -> None:
        """Sync and let go of the open segment; whatever it holds can still be drained."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.sync()
        with self._lock:
            file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _tend(self) -> None:
        while not self._stop.wait(self._bounds.unsynced):
            self.sync()

    def _written(self, framed: bytes) -> bool:
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
        return True

    def _refuse(self, why: str) -> None:
        if self._refusal is None:
            _log.error("the journal cannot write: %s", why)
        self._refusal = f"the journal cannot write: {why}"

    def _keep(self, framed: bytes) -> None:
        if self._waiting + len(framed) > self._bounds.backlog:
            _log.critical("a receipt is in no journal, only here: %s", _unprompted(framed))
            return
        self._backlog.append(framed)
        self._waiting += len(framed)

    def _retry(self) -> None:
        while self._backlog:
            with self._lock:  # line by line, so that an append never waits for more than one
                if not self._written(self._backlog[0]):
                    return
                self._waiting -= len(self._backlog.popleft())
        self._refusal = None

    def _sync(self) -> None:
        self._dirty = False
        try:
            self._disk.sync(self._file)
        except OSError as error:
            self._dirty = True
            self._unsynced = f"the journal cannot sync: {error.strerror or error}"
            _log.exception("the journal cannot sync")
        else:
            self._unsynced = None

    def _rotate(self) -> None:
        try:
            file, path = self._begin()
        except OSError as error:  # the old segment serves on
            self._unsynced = f"the journal cannot begin a segment: {error.strerror or error}"
            return
        with self._lock:
            old, self._file = self._file, file
            self._segment, self._size = path, 0
        try:
            self._disk.sync(old)
        except OSError:
            _log.exception("the journal cannot sync its last segment")
        os.close(old)

    def _begin(self) -> tuple[int, Path]:
        while True:
            self._count += 1
            made = segments.create(self.folder, f"{self._name}-{self._count:06}")
            if made is not None:
                return made


def _unprompted(framed: bytes) -> str:
    """A line for the log, without the prompt it may hold: logs are read by other people."""
    return re.sub(r',"prompt":"(?:[^"\\]|\\.)*"', "", framed[1:].decode())
