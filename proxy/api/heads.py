"""An answer's head and chunks as the bytes that go out; the form of a head is remembered."""

from functools import lru_cache
from typing import Final, NamedTuple

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE

#: The first line of an answer, by its status.
STATUS: Final = {status: line.rstrip(b"\r\n") for status, line in STATUS_LINE.items()}
LENGTH, CODING, CONNECTION = b"content-length: ", b"transfer-encoding: ", b"connection: "
#: Headers that say where an answer ends.
_FRAMING: Final = frozenset({LENGTH, CODING, CONNECTION})
#: What may not stand in a line; each ends with two of them.
_CONTROL: Final = bytes([*range(32), 127])
#: Sets of header names that are remembered; an upstream chooses some of them.
_MAX_CACHED_FORMATS: Final = 64


class HeadFormat(NamedTuple):
    """The format of headers with the same names.

    Attributes:
        lines: Their lines, to be filled with the values.
        framing: Those that say where an answer ends: how the line begins, and its place.
    """

    lines: bytes
    framing: tuple[tuple[bytes, int], ...]


@lru_cache(maxsize=_MAX_CACHED_FORMATS)
def head_format(names: tuple[bytes, ...]) -> HeadFormat:
    """The form of an answer's headers.

    Raises:
        RuntimeError: If a name is none.
    """
    if any(map(HEADER_RE.search, names)):
        raise RuntimeError("a header's name is malformed")
    starts = [name.lower() + b": " for name in names]
    lines = b"".join(start.replace(b"%", b"%%") + b"%b\r\n" for start in starts)
    framing = ((start, at) for at, start in enumerate(starts) if start in _FRAMING)
    return HeadFormat(lines, tuple(framing))


def render_head(status: bytes, form: HeadFormat, values: tuple[bytes, ...]) -> bytes:
    """The lines of a head so far.

    Raises:
        RuntimeError: If a value holds control characters, and might be more than one line.
    """
    lines = form.lines % values
    is_plain = len(lines) - len(lines.translate(None, _CONTROL)) == 2 * len(values)
    if not is_plain and any(map(HEADER_VALUE_RE.search, values)):
        raise RuntimeError("a header's value is malformed")
    return status + b"\r\n" + lines


def render_chunk(piece: bytes, *, more: bool) -> bytes:
    """A piece as a chunk, with the chunk that ends the answer if it is the last."""
    framed = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    return framed if more else framed + b"0\r\n\r\n"
