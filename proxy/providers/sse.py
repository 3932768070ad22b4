"""Server-sent events: frames them out of any chunking, and parses them.

Source: WHATWG HTML, section 9.2, "Server-sent events" (2026-11).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

BLANK_LINES: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_PAIRS = (b"\n\n", b"\n\r", b"\r\r")
_LONE = (b"\n", b"\r", b"\r\n")
#: A run longer than this says more than that the upstream is alive.
_MAX_PING_BYTES = 96
_BOM = b"\xef\xbb\xbf"
#: The first line of a stream begins so: a field, or a comment.
_LINE_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


class EventFramer:
    """Cuts a byte stream between events; every byte comes out once, in order, unmodified."""

    __slots__ = ("_bound", "_tail")

    def __init__(self, bound: int = 8 * 1024 * 1024) -> None:
        self._bound = bound
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """The longest run of complete events that is now known; b"" if there is none.

        An event that outgrows the bound is passed on in pieces, so memory stays bounded.
        """
        tail = self._tail
        if not tail and chunk.endswith(BLANK_LINES):
            return chunk
        seen = max(len(tail) - 2, 0)
        tail += chunk
        end = _end(tail, seen)
        if not end and (len(tail) > self._bound or bytes(tail[:3]) in _LONE):
            end = len(tail)
        run = bytes(tail[:end])
        del tail[:end]
        return run

    def unfinished_event(self) -> bytes:
        """The unfinished event at the end; b"" if the stream stopped between two."""
        return bytes(self._tail)


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event; ``name`` is "" where the stream gives none."""

    name: str
    data: bytes


def parse_events(run: bytes) -> Iterator[ServerSentEvent]:
    """The events of a run in order; comments and events without data are left out."""
    return filter(None, parse_blocks(run))


def parse_blocks(run: bytes) -> Iterator[ServerSentEvent | None]:
    """The events of a run in order; None stands for one of comments alone or without data."""
    for block in to_line_feeds(run).split(b"\n\n"):
        if block.removeprefix(_BOM).strip(b"\n"):
            yield parse_event(block)


def parse_event(block: bytes) -> ServerSentEvent | None:
    """The event of the lines between two blank ones; None if they carry no data.

    Args:
        block: The lines, which end in line feeds alone.
    """
    if block.startswith(b"data: ") and block.find(b"\n") < 0:
        return ServerSentEvent("", block[6:])
    name, values = b"", []
    for line in block.removeprefix(_BOM).split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            values.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not values:
        return None
    data = values[0] if len(values) == 1 else b"\n".join(values)
    return ServerSentEvent(name.decode(errors="replace"), data)


def to_line_feeds(run: bytes) -> bytes:
    """A run whose lines end in line feeds alone."""
    if run.find(b"\r") < 0:
        return run
    return run.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def is_idle(run: bytes) -> bool:
    """True if a run of events only keeps the connection alive: comments, and pings by name."""
    return run.find(b"data:") < 0 or (len(run) < _MAX_PING_BYTES and b"ping" in run)


def begins_stream(head: bytes) -> bool | None:
    """True if an answer that begins so is a stream of events; None while too few bytes are known.

    A byte order mark and white space before the first line are passed over.
    """
    if head != _BOM and _BOM.startswith(head):
        return None
    line = head.removeprefix(_BOM).lstrip()
    if line.startswith(_LINE_STARTS):
        return True
    return None if any(start.startswith(line) for start in _LINE_STARTS) else False


def _end(tail: bytearray, start: int) -> int:
    """End of the last blank line; 0 if there is none.

    A blank line is an end of line right after another. A lone CR counts at once, unless the line
    before it ended in CR LF: then its LF is still on its way. An LF that follows it nevertheless
    belongs to it and starts the next run, where it says nothing.
    """
    stop = len(tail) - tail.endswith(b"\r\n\r")
    last = max(tail.rfind(pair, start, stop) for pair in _PAIRS) + 2
    if last == 1:
        return 0
    return last + (tail[last - 1 : last + 1] == b"\r\n")
