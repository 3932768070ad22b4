"""The JSON values of a log file, one after the other: JSON lines, arrays, whole documents, gzip.

Memory is bounded by the longest value, and work by the bytes that a file holds once unpacked.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from proxy.errors import OperatorError

STANDARD_INPUT: Final = Path("-")
#: A longer value is no recorded call.
MAX_VALUE_BYTES: Final = 64 * 2**20
#: Bytes of a file once unpacked; what is beyond is not read.
MAX_FILE_BYTES: Final = 4 * 2**30
_GZIP: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: Lines that are tried before a file counts as one document.
_TRIED_LINES: Final = 50
_CHUNK_BYTES: Final = 2**16
_OUTSIDE: Final = re.compile(rb'[\[\]{}"]')
_INSIDE: Final = re.compile(rb'["\\]')


class LogValue(NamedTuple):
    """One JSON value of a file.

    Attributes:
        line: Line on which it begins, from 1.
        value: The value; None where it cannot be read.
        problem: Reason that it cannot be read; "" for none.
    """

    line: int
    value: Any
    problem: str = ""


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """The file, or standard input for ``-``; unpacked on the way where it is gzip."""
    with _open(path) as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        if is_packed:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc] # it reads as any binary file does
        else:
            yield file


def _open(path: Path) -> BinaryIO:
    if path == STANDARD_INPUT:
        return BytesIO(sys.stdin.buffer.read())
    return path.open("rb")


def log_values(
    file: BinaryIO,
    *,
    longest: int = MAX_VALUE_BYTES,
    most: int = MAX_FILE_BYTES,
    report_progress: Callable[[int], None] = lambda _bytes: None,
) -> Iterator[LogValue]:
    """Each JSON value of the file that may be a call, and each that cannot be read.

    Args:
        file: The file, at its start; it can be read again from there.
        longest: Bytes of the longest value that is read.
        most: Bytes that are read of it at most.
        report_progress: Called with the number of bytes read, each time.

    Raises:
        OperatorError: If it is broken gzip, or holds more than ``most``.
    """
    source = _BoundedFile(file, most, report_progress)
    try:
        has_lines = _has_lines(file, longest)
        file.seek(0)
        yield from (_lines if has_lines else _elements)(source, longest)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OperatorError(f"its gzip data is damaged: {error}") from None


class _BoundedFile:
    """Counts what is read of a file, and ends the reading beyond a bound."""

    def __init__(self, file: BinaryIO, most: int, report_progress: Callable[[int], None]) -> None:
        self._file = file
        self._most = most
        self._left = most
        self._report_progress = report_progress

    def readline(self, size: int) -> bytes:
        return self._count(self._file.readline(size))

    def read(self, size: int) -> bytes:
        return self._count(self._file.read(size))

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        self._report_progress(len(data))
        if self._left < 0:
            raise OperatorError(
                f"it holds more than {self._most:,} bytes once unpacked: replay a part of it"
            )
        return data


def _has_lines(file: BinaryIO, longest: int) -> bool:
    """True if the first readable line is an object by itself, or the file begins with no JSON."""
    is_first = True
    for raw in _first_lines(file, longest):
        if is_first and not raw.startswith(b"{"):
            return not raw.startswith(b"[")
        is_first = False
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            if raw.endswith(b","):
                return False
        else:
            return isinstance(value, dict) and bool(value)
    return False


def _first_lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    left = longest
    for _ in range(_TRIED_LINES):
        raw = file.readline(longest)
        left -= len(raw)
        if not raw or left < 0:
            return
        if stripped := raw.removeprefix(_BYTE_ORDER_MARK).strip():
            yield stripped


def _lines(file: _BoundedFile, longest: int) -> Iterator[LogValue]:
    """The value of each line that is not empty."""
    number = 0
    while raw := file.readline(longest):
        number += 1
        is_whole = len(raw) < longest or raw.endswith(b"\n")
        is_long = not is_whole
        while not is_whole:
            rest = file.readline(_CHUNK_BYTES)
            is_whole = len(rest) < _CHUNK_BYTES or rest.endswith(b"\n")
            is_long = is_long and bool(rest.strip())
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if is_long:
            yield LogValue(number, None, _too_long(longest))
        elif raw.strip():
            yield _parse_value(number, raw)


def _elements(file: _BoundedFile, longest: int) -> Iterator[LogValue]:
    """Each element of an array, or each of several values written over many lines."""
    scanner = _ElementScanner(longest)
    while chunk := file.read(_CHUNK_BYTES):
        yield from scanner.feed(chunk)
    yield from scanner.end()


class _ElementScanner:
    """Finds the elements of an array in chunks; keeps one element at a time."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._held = bytearray()
        self._depth = 0
        self._base: int | None = None
        self._line = self._first_line = 1
        self._is_string = self._is_escaped = self._is_long = False

    def feed(self, chunk: bytes) -> Iterator[LogValue]:
        """The elements that end in this chunk."""
        start = at = 0
        while at < len(chunk):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            match = (_INSIDE if self._is_string else _OUTSIDE).search(chunk, at)
            if match is None:
                break
            at = match.end()
            begins, ends = self._step(match.group())
            if begins:
                start = match.start()
                self._first_line = self._line + chunk.count(b"\n", 0, start)
            if ends:
                self._hold(chunk[start:at])
                yield self._element()
        if self._depth > (self._base or 0):
            self._hold(chunk[start:])
        self._line += chunk.count(b"\n")

    def end(self) -> Iterator[LogValue]:
        """A complaint where the file ends within an element."""
        if self._held or self._is_long:
            yield LogValue(self._first_line, None, "it is not JSON: it ends too early")

    def _step(self, mark: bytes) -> tuple[bool, bool]:
        """Take one structural character; returns whether an element begins, or ends, with it."""
        if self._is_string:
            self._is_escaped = mark == b"\\"
            self._is_string = self._is_escaped
        elif mark == b'"':
            self._is_string = True
        elif mark in b"{[":
            if self._base is None:
                self._base = 1 if mark == b"[" else 0
            self._depth += 1
            return self._depth == self._base + 1, False
        else:
            is_end = self._depth == (self._base or 0) + 1
            self._depth = max(0, self._depth - 1)
            return False, is_end
        return False, False

    def _hold(self, data: bytes) -> None:
        if self._is_long or len(self._held) + len(data) > self._longest:
            self._is_long = True
            self._held.clear()
        else:
            self._held += data

    def _element(self) -> LogValue:
        is_long, raw = self._is_long, bytes(self._held)
        self._is_long = False
        self._held.clear()
        if is_long:
            return LogValue(self._first_line, None, _too_long(self._longest))
        return _parse_value(self._first_line, raw)


def _parse_value(line: int, raw: bytes) -> LogValue:
    try:
        return LogValue(line, orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        is_short = "end of data" in str(error) or "EOF" in str(error)
        return LogValue(line, None, f"it is not JSON{': it ends too early' if is_short else ''}")


def _too_long(longest: int) -> str:
    return f"it is longer than {longest:,} bytes"
