"""The journal's files: which process owns one, and what it holds.

The process that appends to a segment locks it (``flock``); the lock ends when that process moves on
or dies. A process that gets the lock may drain the segment. A kill -9 releases the lock, never the
bytes.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, NamedTuple

import msgspec

from proxy.records.receipt import Receipt
from proxy.store.journal.lines import decode, unframe

_SUFFIX = ".segment"
_RESERVE = ".reserve"
_READ_BYTES = 1 << 18
_PEEKED_BYTES = 8
#: Flags of a file that is made: it can be read back, too, should its name be removed.
_CREATED = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The calls a disk may fail."""

    write: Callable[[int, bytes], int] = os.write
    sync: Callable[[int], None] = os.fsync
    allocate: Callable[[int, int, int], None] = os.posix_fallocate


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """Bounds on the journal's size, and on how long it goes unsynced.

    Attributes:
        segment: Bytes after which a new segment is begun; reached a little late.
        backlog: Bytes kept in memory while the disk refuses them. From half of it on the journal
            is full; the other half is for the calls already on their way.
        reserve: Bytes allocated in advance for when the disk is full.
        unshipped: Bytes kept in memory of what the disk took and the ledger lacks.
        unsynced: Seconds a line may wait to be synced to disk.
    """

    segment: int = 8 << 20
    backlog: int = 32 << 20
    reserve: int = 256 << 10
    unshipped: int = 4 << 20
    unsynced: float = 0.05


class SegmentLines(NamedTuple):
    """Lines read from a segment.

    Attributes:
        lines: Receipts in JSON, whole and checked, oldest first.
        end: Offset to read on from.
        torn: Lines that were not whole, as they stand there.
    """

    lines: list[bytes]
    end: int
    torn: list[bytes]


def create(folder: Path, name: str) -> tuple[int, Path] | None:
    """A new segment's descriptor, locked and open for appending; None if another took it.

    It is unlocked for a moment after it is made. One who looks for orphans just then finds it
    empty and removes it, so another must be made.
    """
    path = folder / (name + _SUFFIX)
    file = os.open(path, _CREATED | os.O_APPEND, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    if not os.fstat(file).st_nlink:
        os.close(file)
        return None
    try:
        _sync(folder)
    except OSError:
        os.close(file)
        raise
    return file, path


def create_reserve(folder: Path, name: str, allocate: Callable[[int], None]) -> tuple[int, Path]:
    """A file whose blocks are allocated: its descriptor, locked and open for writing, and path.

    Raises:
        OSError: There is no room for it; nothing is left of it.
    """
    path = folder / f"{name}-{token_hex(4)}{_RESERVE}"
    file = os.open(path, _CREATED, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        allocate(file)
        os.fsync(file)
        _sync(folder)
    except OSError:
        path.unlink(missing_ok=True)
        os.close(file)
        raise
    return file, path


def is_at(file: int, path: Path, size: int = 0) -> bool:
    """True if an open file is still the one at its path, and not shorter than so many bytes."""
    try:
        stat = path.stat()
        return stat.st_size >= size and os.path.samestat(os.fstat(file), stat)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # nobody can tell; writing will
        return True


def take_into_use(reserve: Path) -> Path:
    """Make a reserve a segment; its path, which is as it was where the disk refuses even that."""
    path = reserve.with_suffix(_SUFFIX)
    try:
        reserve.rename(path)
    except OSError:
        return reserve
    return path


def remove_orphaned_reserves(folder: Path) -> None:
    """Remove the reserves of processes that died.

    One that could not be renamed may hold receipts: it becomes a segment.
    """
    for path in folder.glob("*" + _RESERVE):
        with lock_segment(path) as file, suppress(OSError):
            if file is not None and file.read(_PEEKED_BYTES).strip(b"\0"):
                take_into_use(path)
            elif file is not None:
                path.unlink()


def list_segments(folder: Path) -> list[Path]:
    """All segments in the folder, by name; none where there is no folder.

    Raises:
        OSError: The folder cannot be read, as when no descriptor is left; it may hold segments.
    """
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def lock_segment(path: Path) -> Iterator[BinaryIO | None]:
    """The segment, locked for us while the block runs; None if it is another's, or gone."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield None
        return
    with closing(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file if os.fstat(file.fileno()).st_nlink else None


def read(file: BinaryIO, start: int, most: int, *, sealed: bool) -> SegmentLines:
    """Up to ``most`` receipts from ``start`` on; ``end`` stays at ``start`` when there are none.

    Args:
        start: Offset of a line, in bytes.
        sealed: True if nothing will be appended any more. Otherwise a last line that is not whole
            may still be on its way, and is left for later. So is one with zeros in it: of a reserve
            they were read before the lines that stand there now were written.
    """
    file.seek(start)
    lines: list[bytes] = []
    torn: list[bytes] = []
    end = start
    for piece in file.readlines(_READ_BYTES)[:most]:
        written = piece.rstrip(b"\0")  # behind the lines of a reserve
        text = written.rstrip(b"\n")
        line = unframe(text) if text else None
        if line is not None:
            lines.append(line)
        elif text and not sealed and (b"\0" in text or not written.endswith(b"\n")):
            break
        elif text:
            torn.append(text)
        end += len(written)
    return SegmentLines(lines, end, torn)


def receipts_of_call(folder: Path, call_id: str) -> list[Receipt]:
    """The receipts of a call that lie in the newest segments; costs a read of those files."""
    encoded_id = call_id.encode()
    receipts: list[Receipt] = []
    for path in sorted(list_segments(folder), key=_age)[:_PEEKED_BYTES]:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            continue
        if encoded_id in text:
            receipts += [r for r in _receipts(text, encoded_id) if r.call_id == call_id]
    return receipts


def _sync(folder: Path) -> None:
    """Make the names in the folder outlive a power cut."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _age(path: Path) -> float:
    """Sorts the segment written to last first, and one that is gone last."""
    try:
        return -path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _receipts(text: bytes, encoded_id: bytes) -> Iterator[Receipt]:
    for piece in text.rstrip(b"\0").split(b"\n"):
        line = unframe(piece) if encoded_id in piece else None
        if line is None:
            continue
        try:
            yield decode(line)
        except msgspec.DecodeError:  # written by another version; the drain sets it aside
            continue
