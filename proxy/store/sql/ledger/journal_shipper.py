"""The writer: a thread that moves receipts from the journal into the database.

A segment is deleted once all it holds is committed; until then it may be drained again, by this
process or another, because the database takes each receipt once. While the database is away the
thread holds one batch and waits for as long as it takes. What the database will never take is set
aside in ``rejected.jsonl``, torn lines in ``torn.lines``, loudly, and hold nothing else up: where
the disk is too full for a torn line, the log names its call. What the disk refused the journal is
taken from its memory.

It shares a core with the calls it serves, so a rush of them is drained at leisure: the journal may
run ahead of the database by some ten thousand calls before the thread makes haste.
"""

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from proxy.store.errors import StoreError
from proxy.store.journal import segments
from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import decode
from proxy.store.sql.ledger.inserts import Insert

_log = logging.getLogger(__name__)

_BATCH_LINES = 250  # a millisecond of decoding, in which the gateway cannot run
_POLL_INTERVAL_S = 0.2
_UNHURRIED_PER_S = 1_000.0  # receipts a second that are drained while there is no hurry
_HURRY_BYTES = 64 << 20  # bytes in the folder from which on there is
_FIRST_RETRY_S = 0.05
_MAX_RETRY_S = 5.0
_REJECTED = "rejected.jsonl"
_TORN = "torn.lines"
_SAID_BYTES = 80  # of a torn line: the name of its call, and nothing of a prompt


class JournalShipper:
    """Moves what any dead or living process journalled in the folder, as far as it is unlocked."""

    def __init__(
        self,
        journal: Journal,
        insert: Insert,
        *,
        batch: int = _BATCH_LINES,
        pause: float = _POLL_INTERVAL_S,
    ) -> None:
        self._journal = journal
        self._insert = insert
        self._batch = batch
        self._pause = pause
        self._ends: dict[Path, int] = {}  # how far each segment is drained, while it exists
        self._others: set[Path] = set()  # segments that living processes hold, by the last sweep
        self._refusal: str | None = None
        self._unread: str | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._sweeps = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)

    def start(self) -> None:
        """Begin to drain in the background."""
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """Reason that receipts are not reaching the database; None while they are."""
        if self._thread.ident is not None and not self._thread.is_alive():
            return self._refusal or self._unread or "the drain has stopped"
        return self._refusal or self._unread

    @property
    def lag_bytes(self) -> int:
        """Bytes of the journal that are not known to be in the database."""
        return self._lag_bytes(segments.list_segments(self._journal.folder))

    def _lag_bytes(self, paths: Iterable[Path]) -> int:
        lag = self._journal.waiting_bytes - self._journal.spare_bytes
        for path in paths:
            try:
                lag += max(0, path.stat().st_size - self._ends.get(path, 0))
            except FileNotFoundError:
                continue
        return max(0, lag)

    def flush(self, timeout: float) -> bool:
        """Wait until all that was appended before is in the database; False if it cannot be yet."""
        self._journal.sync()
        with self._sweeps:
            sweep = self._begun + 1  # the sweep under way may have looked already
            self._wake.set()
            return self._sweeps.wait_for(lambda: self._ended >= sweep, timeout)

    def close(self, deadline: float) -> bool:
        """Drain what is there and stop; False if not all was drained within ``deadline`` seconds.

        Nothing is lost then: the next start goes on. What another process still writes is its own.
        """
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(deadline)
        try:
            left = set(segments.list_segments(self._journal.folder)) - self._others
        except OSError:
            return False  # whatever is there stays
        return not self._thread.is_alive() and self._lag_bytes(left) == 0

    def ship_all(self) -> bool:
        """Drain all that is in the folder now; False if something could not be."""
        with self._sweeps:
            self._begun += 1
            this = self._begun
        done = self._ship_folder()
        done = self._ship_memory() and done
        if done:
            self._unread = None
            with self._sweeps:
                self._ended = this
                self._sweeps.notify_all()
        return done

    def _run(self) -> None:
        while not self._stop.is_set():
            self.ship_all()
            self._wake.wait(self._pause)
            self._wake.clear()
        self.ship_all()

    def _ship_folder(self) -> bool:
        own = self._journal.segment
        try:
            paths = segments.list_segments(self._journal.folder)
        except OSError as error:
            self._note_unread(self._journal.folder, error)
            return False
        self._others.clear()
        self._ends = {path: self._ends[path] for path in paths if path in self._ends}
        done = True
        for path in paths:
            drained = self._try_segment(path, own=path == own)
            if not drained and self._stop.is_set():
                return False
            done = done and drained
        return done

    def _ship_memory(self) -> bool:
        """True if all that the disk refused the journal is in the database."""
        while lines := self._journal.oldest_waiting(self._batch):
            try:
                is_kept = self._insert_with_retry(lines)
            except OSError as error:
                _log.exception("the journal shipper cannot set a receipt aside")
                self._unread = (
                    "the journal shipper cannot set a receipt that the database rejects aside:"
                    f" {error.strerror or error}"
                )
                return False
            if not is_kept:
                return False
            self._journal.forget_oldest(lines)
        return True

    def _try_segment(self, path: Path, *, own: bool) -> bool:
        """True if a segment is drained, or another's to drain."""
        try:
            return self._ship_own_segment(path) if own else self._ship_left_segment(path)
        except FileNotFoundError:  # another process drained it
            return True
        except OSError as error:
            self._note_unread(path, error)
            return False

    def _note_unread(self, path: Path, error: OSError) -> None:
        """Note what could not be read; logged once until all could be read again."""
        why = f"the journal shipper cannot read the journal: {error.strerror or error}"
        if why != self._unread:
            _log.error("the journal shipper cannot read %s, and retries", path, exc_info=error)
        self._unread = why

    def _ship_own_segment(self, path: Path) -> bool:
        """Drain the segment that is being appended to, as far as it goes now."""
        with path.open("rb") as file:
            return self._ship_segment(path, file, os.fstat(file.fileno()).st_size, sealed=False)

    def _ship_left_segment(self, path: Path) -> bool:
        """Drain a segment nobody appends to any more, and delete it."""
        with segments.lock_segment(path) as file:
            if file is None:
                self._others.add(path)
                return True
            size = os.fstat(file.fileno()).st_size
            if not self._ship_segment(path, file, size, sealed=True):
                return False
            path.unlink()
            return True

    def _ship_segment(self, path: Path, file: BinaryIO, size: int, *, sealed: bool) -> bool:
        """True if the segment's first ``size`` bytes are all in the database."""
        while (end := self._ends.get(path, 0)) < size:
            pieces = segments.read(file, end, self._batch, sealed=sealed)
            if pieces.torn:
                self._set_torn_aside(path, pieces.torn)
            if not self._insert_with_retry(pieces.lines):
                return False
            if pieces.end == end:
                break  # the last line is still on its way
            self._ends[path] = pieces.end
            self._journal.note_shipped(path, len(pieces.lines))
            self._pause_after_batch(len(pieces.lines))
        return True

    def _pause_after_batch(self, lines: int) -> None:
        """Leave the core to calls after a batch, unless somebody waits or much is waiting."""
        is_awaited = threading.current_thread() is not self._thread or self._wake.is_set()
        if not is_awaited and self.lag_bytes < _HURRY_BYTES:
            self._wake.wait(lines / _UNHURRIED_PER_S)

    def _insert_with_retry(self, lines: Sequence[bytes]) -> bool:
        """Put receipts into the database, however long it takes; False if told to stop first."""
        wait = _FIRST_RETRY_S
        while lines:
            try:
                self._insert_or_halve(lines)
            except StoreError as error:
                self._fail(error)
            else:
                self._refusal = None
                break
            if self._stop.wait(wait):
                return False
            wait = min(2 * wait, _MAX_RETRY_S)
        return True

    def _fail(self, error: StoreError) -> None:
        if self._refusal is None:
            _log.warning("the database takes no receipts, they wait in the journal: %s", error)
        self._refusal = f"the database takes no receipts: {error}"

    def _insert_or_halve(self, lines: Sequence[bytes]) -> None:
        """Insert a batch; one that is unfit is halved until the line at fault stands alone."""
        why = self._insert_batch(lines)
        if why is None:
            return
        if len(lines) == 1:
            path = self._set_aside(_REJECTED, lines)
            _log.error("a receipt was set aside in %s: %s", path, why)
        else:
            half = len(lines) // 2
            self._insert_or_halve(lines[:half])
            self._insert_or_halve(lines[half:])

    def _insert_batch(self, lines: Sequence[bytes]) -> str | None:
        """Insert a batch: None, or why the database will never take it."""
        try:
            receipts = [decode(line) for line in lines]
        except msgspec.DecodeError as error:
            return str(error)
        return self._insert(receipts)

    def _set_torn_aside(self, path: Path, torn: Sequence[bytes]) -> None:
        """Set torn lines aside; where the disk is too full, the log has how each begins.

        A full disk tears the last line that it takes, and the journal keeps that receipt elsewhere.
        So a torn line must not keep the segment's other receipts from the database, nor its room
        from the disk.
        """
        try:
            aside = self._set_aside(_TORN, torn)
        except OSError as error:
            why = error.strerror or error
            for line in torn:
                beginning = line[:_SAID_BYTES]
                _log.error(
                    "%s: a torn line was dropped (%s); it began %r", path.name, why, beginning
                )
        else:
            _log.warning("%s: %d torn lines were set aside in %s", path.name, len(torn), aside)

    def _set_aside(self, name: str, lines: Sequence[bytes]) -> Path:
        path = self._journal.folder / name
        with path.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        return path
