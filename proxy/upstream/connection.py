"""One HTTP/1.1 connection to an upstream: sends a request, and streams its answer.

httptools (llhttp) parses, asyncio has the sockets. Ours is only the buffer between them: an
answer's bytes wait here until they are read, up to a limit.
"""

import asyncio
from functools import lru_cache
from typing import Final, cast

import httptools

from proxy.errors import UpstreamError
from proxy.providers.stream_endings import (
    connection_lost,
    stale_connection,
    unreadable_paid_answer,
)
from proxy.upstream.head_repair import may_be_paid, repair_head

#: Unread bytes at which the upstream is told to wait until they are read.
_MAX_BUFFERED_BYTES: Final = 256 * 1024
#: Bytes of a body from which on putting it behind the head costs more than a second buffer.
_MAX_JOINED_BYTES: Final = 16 * 1024
#: The largest head of an answer, and the most bytes in a row that bring its body no further.
_MAX_HEAD_BYTES: Final = 64 * 1024
#: Header names that are remembered.
_MAX_CACHED_NAMES: Final = 256
#: Seconds after which a connection that breaks without a word was not idle for too long: the
#: upstream had the request, and must not get it again.
_STALE_MESSAGES: Final = 1.0


class Connection(asyncio.Protocol):
    """A connection that carries one exchange at a time.

    Attributes:
        on_body: Called by httptools for each piece of the body; only keeps it.
        headers: Of the answer that has begun, names in lower case; equal names are joined.
        status: Its status; 0 until it has begun.
        idle_since: Time at which it last became idle, by the loop's clock.
        is_stale: True if nothing at all came back on a connection that had been used before, and
            it ended as soon as it was used again.
    """

    __slots__ = (
        "_buffer", "_closes", "_complete", "_delimited", "_fault", "_fields", "_head",
        "_is_bodiless", "_is_fault_paid", "_is_repairing", "_loop", "_parser", "_paused",
        "_received", "_sent_at", "_size", "_transport", "_useless", "_uses", "_waiter", "headers",
        "idle_since", "is_stale", "on_body", "status",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._uses = 0
        self._buffer: list[bytes] = []
        self.on_body = self._buffer.append
        self._parser = httptools.HttpResponseParser(self)
        self._fault = ""
        self._is_fault_paid = False
        self.is_stale = False
        self._waiter: asyncio.Future[None] | None = None
        self._paused = self._is_bodiless = False
        self._head: list[bytes] = []
        self._fields: list[tuple[bytes, bytes]] = []
        self.idle_since = 0.0
        self._begin()
        self._complete: bool = True  # nothing is asked yet

    @property
    def is_reusable(self) -> bool:
        """True if another request may be sent: the last one was sent whole, and answered.

        Not while somebody waits for a part of the answer, nor while reading is paused, for bytes
        that nobody asked for may wait behind it.
        """
        return (
            self._complete
            and not self._closes
            and not self._fault
            and self._waiter is None
            and not self._paused
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )

    @property
    def is_complete(self) -> bool:
        """True if the answer came whole; a part of it may be left to read."""
        return self._complete

    @property
    def is_read(self) -> bool:
        """True if the answer came whole, and all of it was read."""
        return self._complete and not self._buffer

    async def exchange(self, head: bytes, body: bytes, *, is_bodiless: bool = False) -> None:
        """Send a request on a connection that is new or reusable; wait for the answer's head.

        Args:
            head: The request's line and headers, with the blank line.
            body: Its body; b"" for none.
            is_bodiless: True if the answer has no body, whatever its headers say (HEAD).

        Raises:
            UpstreamError: If the connection ends before, or the answer is not HTTP.
        """
        if self._fault:
            self._check_open()
        self._begin()
        self._is_bodiless = is_bodiless
        self._uses += 1
        self._sent_at = self._loop.time()
        if len(body) < _MAX_JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        while not self.status:
            await self.wait_for_data()
        self._waiter = None

    async def read(self) -> bytes:
        """All bytes of the body that are here; waits for the first; b"" at its end.

        Raises:
            UpstreamError: If the connection ends before the body does, or it is not HTTP.
        """
        while (piece := self.take_ready()) is None:
            await self.wait_for_data()
        return piece

    def take_ready(self) -> bytes | None:
        """All bytes of the body that are here; b"" at its end; None while nothing is here."""
        return self.take() if self._buffer or self._complete else None

    def take(self) -> bytes:
        """All bytes of the body that are here, without waiting for any."""
        self._waiter = None
        buffer = self._buffer
        piece = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def wait_for_data(self) -> asyncio.Future[None]:
        """Done once something came.

        Raises:
            UpstreamError: If nothing can come any more.
        """
        if self._fault:
            self._check_open()
        self._waiter = self._loop.create_future()
        return self._waiter

    def close(self) -> None:
        """Hang up at once; what is not read by now breaks off."""
        self._refuse("the connection was closed")

    def _begin(self) -> None:
        self._buffer.clear()
        self._size = self._useless = self.status = 0
        self._complete = False
        self._closes = self._received = self._delimited = self._is_repairing = False
        self._head.clear()
        self._fields.clear()
        self._sent_at = 0.0
        self.headers: dict[str, str] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._received = True
        if self._complete:
            self._refuse("the upstream sent bytes without a request")
            return
        self._useless += len(data)
        if not self.status:
            self._head.append(data)
        unread = len(self._buffer)
        try:
            if self._is_repairing:
                self._repair()
            else:
                self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._note_malformed(error)
        if len(self._buffer) > unread:
            self._note_body(len(data))
        elif self._useless > _MAX_HEAD_BYTES and not self._complete:
            self._refuse("the answer goes on and says nothing", is_paid=self._is_paid)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio; an answer without a length ends here, unless we hung up."""
        if self.status and not self._delimited and exc is None and not self._fault:
            self.on_message_complete()
        is_soon = self._loop.time() - self._sent_at < _STALE_MESSAGES
        if not self._fault:
            self.is_stale = self._uses > 1 and not self._received and is_soon
        self._fail("the connection ended")

    def on_message_begin(self) -> None:
        """Called by httptools, which reads on after an answer's end."""
        if self._complete:
            raise ValueError("the upstream sent bytes after the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools; what trails the body is ignored."""
        if not self.status:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        headers = self.headers = _read_fields(self._fields)
        self._delimited = (
            "content-length" in headers
            or "chunked" in headers.get("transfer-encoding", "").lower()
            or status in {204, 304}
        )
        self._size = self._useless = 0
        self.status = status
        self._head.clear()
        if self._is_bodiless:
            self._complete = self._closes = True

    def on_message_complete(self) -> None:
        """Called by httptools; after an interim answer, such as 103, another follows."""
        if not self.status:
            self._fields.clear()
            return
        self._complete = True
        self._closes |= not self._delimited or not self._parser.should_keep_alive()

    def _note_body(self, size: int) -> None:
        """Note that pieces of the body came, in so many bytes with what is between them."""
        if self._is_bodiless:
            self._buffer.clear()
            self._refuse("an answer to this method has a body", is_paid=self._is_paid)
            return
        self._size += size
        self._useless = 0
        if self._size > _MAX_BUFFERED_BYTES and not (self._paused or self._fault):
            self._paused = True
            self._transport.pause_reading()

    def _check_open(self) -> None:
        """Check that the connection has not broken.

        Raises:
            UpstreamError: It has; ``detail`` says why.
        """
        if self._fault:
            if self.is_stale:
                raise stale_connection()
            raise _connection_error(self._fault, is_paid=self._is_fault_paid)

    def _wake_reader(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def _is_paid(self) -> bool:
        """True if an answer came whose status is good, or may be."""
        return 200 <= self.status < 300 if self.status else may_be_paid(b"".join(self._head))

    def _note_malformed(self, error: Exception) -> None:
        """Read a head once more that is not HTTP; hang up on all else that is none."""
        if self.status or self._is_repairing or isinstance(error, httptools.HttpParserUpgrade):
            self._refuse(f"not HTTP: {error.__context__ or error}", is_paid=self._is_paid)
            return
        self._is_repairing = True
        try:
            self._repair()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as again:
            self._refuse(f"not HTTP: {again.__context__ or again}", is_paid=self._is_paid)
            return
        self._wake_reader()

    def _repair(self) -> None:
        """Read the answer from its first byte, its head repaired; the connection is not kept.

        Raises:
            HttpParserError: If it is no HTTP even so.
        """
        try:
            repaired = repair_head(b"".join(self._head))
        except ValueError as error:
            raise httptools.HttpParserError(str(error)) from error
        if repaired is None:
            return
        self._parser = httptools.HttpResponseParser(self)
        self._fields.clear()
        self._size, self._is_repairing, self._closes = 0, False, True
        self._parser.feed_data(repaired.head)
        if repaired.body and not self._complete:
            self._parser.feed_data(repaired.body)

    def _refuse(self, why: str, *, is_paid: bool = False) -> None:
        self._fail(why, is_paid=is_paid)
        self._transport.abort()

    def _fail(self, why: str, *, is_paid: bool = False) -> None:
        if not self._fault:
            self._fault, self._is_fault_paid = why, is_paid
        self._wake_reader()


def _connection_error(why: str, *, is_paid: bool) -> UpstreamError:
    """The error of a connection that broke; what was paid for is not asked for again."""
    error = unreadable_paid_answer() if is_paid else connection_lost()
    error.is_billed = is_paid
    error.detail = why
    return error


def _read_fields(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers of a head, names in lower case; equal names are joined.

    Raises:
        ValueError: If it is too large.
    """
    headers: dict[str, str] = {}
    size = 0
    for field, value in fields:
        size += len(field) + len(value)
        name, text = _name(field), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    if size > _MAX_HEAD_BYTES:
        raise ValueError("the answer's head is too large")
    return headers


@lru_cache(maxsize=_MAX_CACHED_NAMES)
def _name(field: bytes) -> str:
    return field.decode("latin-1").lower()
