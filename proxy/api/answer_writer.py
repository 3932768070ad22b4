"""Writes one HTTP answer in fewer steps and packets than uvicorn's own cycle does.

::

    start with a length ─ held ─┬─ all of the body ─ one write
                                └─ a part of it ─ uvicorn's cycle, behind the head
    start without one ─ its head waits for the first chunk, for one turn at most
    any other start ─ uvicorn's cycle, whose head waits as long

uvicorn checks and joins each header of each answer and writes the head by itself, and uvloop sends
each write at once. That costs an extra system call, packet and wake-up of the caller for each
answer. Here head and body are joined, and a list of header names is checked once. An app that fails
before its body still gets a whole error answer, as no head was sent yet.

Source: ASGI specification 3.0, Response Start: servers need not send a head before its body.
"""

import asyncio
from functools import lru_cache
from typing import Final, NamedTuple

from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

#: Bytes that are copied behind the head of their answer; more of them fill packets by themselves.
_MAX_JOINED_BYTES: Final = 64 * 1024
#: Lists of header names that are remembered; most answers have the same few.
_MAX_CACHED_HEADS: Final = 256
_LENGTH: Final = b"content-length"
#: Bytes that no header's value may have; uvicorn looks for the same ones, more slowly.
_FORBIDDEN_BYTES: Final = bytes({*range(0x20), 0x7F} - {0x09})
#: Headers on which the framing of an answer depends beside its length; uvicorn reads them.
_FRAMING: Final = frozenset({b"transfer-encoding", b"connection"})
#: Statuses of answers that never have a body.
_BODILESS: Final = frozenset({204, 304})


class AnswerWriter:
    """Writes all that an app sends for one request."""

    __slots__ = ("_cycle", "_head", "_is_chunked", "_length", "_loop")

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        self._cycle = cycle
        self._loop = loop
        self._head = b""
        self._is_chunked = False
        self._length = 0

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer; waits while the caller is slow.

        Raises:
            RuntimeError: If the part is out of turn, or is no HTTP.
        """
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if self._is_chunked and self._write_chunk(message):
            return
        if self._head:
            if self._finish(message):
                return
        elif message["type"] == "http.response.start" and not cycle.response_started:
            if self._begin(message):
                return
            cycle.transport = _HeldHead(cycle.transport, self._loop)  # type: ignore[assignment]
        self._flush_lone_head(message)
        await cycle.send(message)

    def _flush_lone_head(self, message: ASGISendEvent) -> None:
        """Write a head behind which nothing is written that it could go with."""
        if self._cycle.scope["method"] == "HEAD" or not message.get("body", b""):
            flush_head(self._cycle)

    def _begin(self, message: HTTPResponseStartEvent) -> bool:
        """Hold the head; False if uvicorn has to read it, also where it says what is no HTTP."""
        cycle = self._cycle
        pairs = (*cycle.default_headers, *message.get("headers", ()))
        names, values = zip(*pairs) if pairs else ((), ())  # noqa: B905 - each is a pair
        form = _head_form(names)
        line = STATUS_LINE.get(message["status"])
        joined = b"".join(values)
        is_clean = len(joined.translate(None, _FORBIDDEN_BYTES)) == len(joined)
        if form is None or line is None or not is_clean:
            return False
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        head = line + form.lines % values + end
        if form.length_at is None:
            return self._begin_chunks(message["status"], head)
        if not (length := values[form.length_at]).isdigit():
            return False
        self._length = int(length)
        self._head = head
        cycle.waiting_for_100_continue = False
        return True

    def _begin_chunks(self, status: int, head: bytes) -> bool:
        """Begin an answer in chunks; False where one without a length has no body."""
        cycle = self._cycle
        if cycle.scope["method"] == "HEAD" or status in _BODILESS:
            return False
        self._is_chunked = True
        cycle.response_started = cycle.chunked_encoding = True
        cycle.waiting_for_100_continue = False
        self._hold(head[:-2] + b"transfer-encoding: chunked\r\n\r\n")
        return True

    def _write_chunk(self, message: ASGISendEvent) -> bool:
        """Write a piece of the body; False if the part is out of turn."""
        cycle = self._cycle
        if message["type"] != "http.response.body" or cycle.response_complete:
            return False
        body = message.get("body", b"")
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        if message.get("more_body", False):
            cycle.transport.write(chunk)
        else:
            cycle.transport.write(chunk + b"0\r\n\r\n")
            self._complete()
        return True

    def _finish(self, message: ASGISendEvent) -> bool:
        """Write the head and what is all of the body; False if uvicorn has to write the body.

        Raises:
            RuntimeError: If the part is out of turn.
        """
        if message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} was sent out of turn")
        body, more = message.get("body", b""), message.get("more_body", False)
        cycle, head = self._cycle, self._head
        self._head = b""
        cycle.response_started, cycle.chunked_encoding = True, False
        cycle.expected_content_length = self._length
        is_all = not more and len(body) == self._length and cycle.scope["method"] != "HEAD"
        if not is_all or len(body) > _MAX_JOINED_BYTES:
            self._hold(head)
            return False
        cycle.transport.write(head + body)
        cycle.expected_content_length = 0
        self._complete()
        return True

    def _hold(self, head: bytes) -> None:
        """Let the head wait for the next write, for one turn at most."""
        held = _HeldHead(self._cycle.transport, self._loop)
        held.write(head)
        self._cycle.transport = held  # type: ignore[assignment]

    def _complete(self) -> None:
        """Let the cycle know that all is written."""
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


def flush_head(cycle: RequestResponseCycle) -> None:
    """Write an answer's head that nothing has followed, before anything else is written."""
    if isinstance(cycle.transport, _HeldHead):
        cycle.transport.flush()


class _HeadForm(NamedTuple):
    """The lines of a head, for values in order, and the place of its length, if it has one."""

    lines: bytes
    length_at: int | None


@lru_cache(maxsize=_MAX_CACHED_HEADS)
def _head_form(names: tuple[bytes, ...]) -> _HeadForm | None:
    """The form of heads with these names; None where uvicorn has to read them."""
    lower = [name.lower() for name in names]
    if lower.count(_LENGTH) > 1 or not _FRAMING.isdisjoint(lower):
        return None
    if any(HEADER_RE.search(name) for name in lower):
        return None
    lines = [name.replace(b"%", b"%%") + b": %b\r\n" for name in lower]
    return _HeadForm(b"".join(lines), lower.index(_LENGTH) if _LENGTH in lower else None)


class _HeldHead:
    """The transport of one answer, whose first write waits for the next, for one turn at most."""

    __slots__ = ("_head", "_is_begun", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Write what follows; the first piece is held."""
        if not self._is_begun:
            self._is_begun = True
            self._head = data
            self._loop.call_soon(self.flush)
            return
        if self._head and len(data) <= _MAX_JOINED_BYTES:
            data, self._head = self._head + data, b""
        elif self._head:
            self.flush()
        self._transport.write(data)

    def is_closing(self) -> bool:
        """True once the connection is closed, or is to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection once all is written."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Write a head that nothing followed."""
        if self._head:
            data, self._head = self._head, b""
            self._transport.write(data)
