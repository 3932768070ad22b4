"""Attempts that were sent and have no receipt yet, in a file that survives a kill -9.

The file has a slot for each attempt in flight, written once, when the attempt is sent. The process
holds a lock on the file. After its death the next process gets the lock, reads the slots, and
stores a receipt for each attempt that has none in the database.

A file that is removed or truncated while the process runs is written anew.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final
from zlib import crc32

import msgspec

from proxy.records.receipt import PendingAttempt
from proxy.store.journal import segments
from proxy.store.journal.removed_segments import RemovedSegments

_log = logging.getLogger(__name__)

_SUFFIX: Final = ".sent"
_SLOT_BYTES: Final = 1_024
_HEAD_BYTES: Final = 12
#: Maximum number of attempts in flight that are recorded.
_MAX_SLOTS: Final = 65_536
#: Characters that each text is cut to when an attempt does not fit into its slot.
_MAX_TEXT_CHARS: Final = 60

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PendingAttempt).decode


class SentAttempts:
    """The attempts of one process that are under way.

    Args:
        removed: Counts files that were removed or truncated while they were open.
    """

    def __init__(self, folder: Path, removed: RemovedSegments) -> None:
        self._folder = self._path = folder
        self._removed = removed
        self._file, self._size = -1, 0
        self._is_closed = self._has_failed = False
        self._slots: dict[tuple[str, int], tuple[int, PendingAttempt]] = {}
        self._free: list[int] = []
        self._count = 0

    def begin(self, pending: PendingAttempt) -> None:
        """Note an attempt that is sent now; never raises, as calls go on without."""
        if len(self._slots) >= _MAX_SLOTS:
            return
        if not self._free:
            self._free.append(self._count)
            self._count += 1
        slot = self._free.pop()
        self._slots[pending.call_id, pending.attempt] = slot, pending
        try:
            if self._file < 0:
                self._open()
            else:
                self._write(self._file, slot, pending)
        except OSError as error:
            self._note_failure(error)

    def end(self, call_id: str, attempt: int) -> None:
        """Reuse the slot of an attempt whose receipt is kept."""
        noted = self._slots.pop((call_id, attempt), None)
        if noted is not None:
            self._free.append(noted[0])

    def replace_removed(self) -> None:
        """Make a file that somebody removed or truncated anew, with what is under way."""
        file, path = self._file, self._path
        if file >= 0:
            if segments.is_at(file, path, self._size):
                return
            self._removed.add(path, is_truncated=segments.is_at(file, path))
            self._file = -1
        if self._slots:
            try:
                self._open()
            except OSError as error:
                self._note_failure(error)
        if file >= 0:
            with suppress(OSError):  # wherever it is now, nobody is to book what still goes on
                os.ftruncate(file, 0)
                if segments.is_at(file, path):
                    path.unlink()
            os.close(file)

    def _note_failure(self, error: OSError) -> None:
        if not self._has_failed:
            _log.warning("a kill would lose receipts of calls under way: %s", error)
        self._has_failed = True

    def close(self) -> None:
        """Remove the file: what was sent has its receipt."""
        self._is_closed = True
        if self._file >= 0:
            with suppress(OSError):  # somebody removed it, or its folder
                self._path.unlink()
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Make the file, with what is under way."""
        path = self._folder / f"{os.getpid()}-{token_hex(4)}{_SUFFIX}"
        if self._is_closed:
            raise FileNotFoundError(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if not segments.is_at(file, path):
                raise FileNotFoundError(path)
            under_way = [(key, sent) for key, (_, sent) in self._slots.items()]
            self._size = 0
            for slot, (_, sent) in enumerate(under_way):
                self._write(file, slot, sent)
        except OSError:
            with suppress(OSError):  # what is written there is still under way
                path.unlink()
            os.close(file)
            raise
        self._slots = {key: (slot, sent) for slot, (key, sent) in enumerate(under_way)}
        self._free, self._count = [], len(under_way)
        self._file, self._path = file, path

    def _write(self, file: int, slot: int, sent: PendingAttempt) -> None:
        start = slot * _SLOT_BYTES
        self._size = max(self._size, start + os.pwrite(file, _slot_content(sent), start))


def list_files(folder: Path) -> list[Path]:
    """The files of all processes, living ones included."""
    return sorted(folder.glob("*" + _SUFFIX))


def read_attempts(file: BinaryIO) -> Iterator[PendingAttempt]:
    """The attempts in a file; those that have a receipt by now, too."""
    file.seek(0)
    while content := file.read(_SLOT_BYTES):
        try:
            size = int(content[8:_HEAD_BYTES], 16)
            packed = content[_HEAD_BYTES : _HEAD_BYTES + size]
            if content[:8] == b"%08x" % crc32(packed):
                yield _decode(packed)
        except (ValueError, msgspec.DecodeError):  # never written whole, or by another version
            continue


def _slot_content(sent: PendingAttempt) -> bytes:
    packed = _encode(sent)
    if len(packed) > _SLOT_BYTES - _HEAD_BYTES:
        fields = msgspec.structs.asdict(sent)
        texts = {name: text for name, text in fields.items() if type(text) is str}
        short = {name: text[:_MAX_TEXT_CHARS] for name, text in texts.items()}
        packed = _encode(msgspec.structs.replace(sent, **short))
    return b"%08x%04x" % (crc32(packed), len(packed)) + packed
