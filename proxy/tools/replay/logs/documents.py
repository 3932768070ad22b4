"""Reads a log file's JSON values one by one: JSON lines, arrays, single documents, gzip.

JSON lines are read one at a time. Other documents are read whole, so they have a lower size limit.
"""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from proxy.errors import OperatorError

STANDARD_INPUT: Final = Path("-")
#: A longer value is no recorded call.
MAX_VALUE_BYTES: Final = 64 * 2**20
#: Bytes of a file once unpacked, and of one that is no lines; what is beyond is not read.
MAX_FILE_BYTES: Final = 4 * 2**30
MAX_DOCUMENT_BYTES: Final = 512 * 2**20
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: Lines that are tried before a file counts as one document.
_TRIED_LINES: Final = 50
_CHUNK_BYTES: Final = 2**16
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_TOO_EARLY: Final = "it is not JSON: it ends too early"


_Read = Callable[[int], bytes]


class LogValue(NamedTuple):
    """One JSON value of a file.

    Attributes:
        problem: Reason that it cannot be read; "" for none.
    """

    line: int
    value: Any
    problem: str = ""


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """The file, or standard input for ``-``; unpacked on the way where it is gzip."""
    with BytesIO(sys.stdin.buffer.read()) if path == STANDARD_INPUT else path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        unpacked = gzip.GzipFile(fileobj=file) if is_packed else file
        yield unpacked  # type: ignore[misc] # it reads as any binary file does


def log_values(
    file: BinaryIO,
    *,
    longest: int = MAX_VALUE_BYTES,
    max_bytes: int = MAX_FILE_BYTES,
    report_progress: Callable[[int], None] = lambda _bytes: None,
) -> Iterator[LogValue]:
    """Each JSON value of the file that may be a call, and each that cannot be read.

    Raises:
        OperatorError: If it is broken gzip, packed otherwise, or holds more than ``max_bytes``.
    """
    try:
        if file.read(len(_ZSTD)) == _ZSTD:
            raise OperatorError("it is packed by zstd: unpack it first, with `zstd -d`")
        file.seek(0)
        has_lines = _has_lines(file, longest)
        file.seek(0)
        max_bytes = max_bytes if has_lines else min(max_bytes, MAX_DOCUMENT_BYTES)
        read = _bounded_reader(file, max_bytes, report_progress)
        yield from (_lines if has_lines else _elements)(read, longest)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OperatorError(f"its gzip data is damaged: {error}") from None


def _bounded_reader(
    file: BinaryIO, max_bytes: int, report_progress: Callable[[int], None]
) -> _Read:
    """Reads a line or a part of one; counts, and ends the reading beyond a bound."""
    left = max_bytes

    def read(size: int) -> bytes:
        nonlocal left
        data = file.readline(size)
        left -= len(data)
        report_progress(len(data))
        if left < 0:
            raise OperatorError(
                f"it holds more than {max_bytes:,} bytes once unpacked: replay a part of it"
            )
        return data

    return read


def _has_lines(file: BinaryIO, longest: int) -> bool:
    """True if the first readable line is an object by itself, or the file begins with no JSON."""
    pieces = islice(iter(partial(file.readline, longest), b""), _TRIED_LINES)
    lines = filter(None, (raw.removeprefix(_BYTE_ORDER_MARK).strip() for raw in pieces))
    for number, raw in enumerate(lines):
        if number == 0 and not raw.startswith(b"{"):
            return not raw.startswith(b"[")
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            if raw.endswith(b","):
                return False
        else:
            return isinstance(value, dict) and bool(value)
    return False


def _lines(read: _Read, longest: int) -> Iterator[LogValue]:
    number = 0
    while raw := read(longest):
        number += 1
        is_whole = len(raw) < longest or raw.endswith(b"\n")
        is_long = not is_whole
        while not is_whole:
            rest = read(_CHUNK_BYTES)
            is_whole = len(rest) < _CHUNK_BYTES or rest.endswith(b"\n")
            is_long = is_long and bool(rest.strip())
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if is_long:
            yield LogValue(number, None, _too_long(longest))
        elif raw.strip():
            yield _parse_value(number, raw)


def _elements(read: _Read, longest: int) -> Iterator[LogValue]:
    """Each element of an array, or each of several values written over many lines."""
    data = b"".join(iter(partial(read, _CHUNK_BYTES), b""))
    depth = start = counted = 0
    base, line = None, 1
    for token in _TOKEN.finditer(data):
        opens, closes = token[0] in b"{[", token[0] in b"}]"
        if base is None and opens:
            base = 1 if token[0] == b"[" else 0
        depth = max(0, depth + opens - closes)
        if opens and depth == (base or 0) + 1:
            start = token.start()
        elif closes and depth == base:
            line += data.count(b"\n", counted, start)
            counted = start
            yield _parse_value(line, data[start : token.end()], longest)
    if depth > (base or 0):
        yield LogValue(line + data.count(b"\n", counted, start), None, _TOO_EARLY)


def _parse_value(line: int, raw: bytes, longest: int = MAX_VALUE_BYTES) -> LogValue:
    if len(raw) > longest:
        return LogValue(line, None, _too_long(longest))
    try:
        return LogValue(line, orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        is_short = "end of data" in str(error) or "EOF" in str(error)
        return LogValue(line, None, _TOO_EARLY if is_short else "it is not JSON")


def _too_long(longest: int) -> str:
    return f"it is longer than {longest:,} bytes"
