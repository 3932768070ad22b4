"""Parses received bytes in small slices, so that pipelined requests cannot fill the memory.

::

    received ─▶ slice ─▶ parser ─▶ 16 requests that wait at most ─▶ answered in turn
       └─ enough wait: the rest is kept, and the connection is not read until none waits

uvicorn parses all that it gets, and reads on while an app waits for its caller to disconnect: a
million short requests became a million objects.
"""

from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.api.connections.arrival_deadlines import ArrivalPhase
from proxy.api.connections.guarded_connection import GuardedConnection
from proxy.errors import CallerError, ProxyError, Unready

#: Requests that wait behind the one being answered. A slice may end one more than it has room for.
_MAX_WAITING_REQUESTS: Final = 16 - 1
#: Bytes of requests that wait, after which no more is parsed.
_MAX_WAITING_BYTES: Final = 16 * 1024
#: No request is shorter: ``GET /`` and two line ends.
_MIN_REQUEST_BYTES: Final = 8
#: Bytes of a slice that may be a head or chunks.
_MAX_SLICE_BYTES: Final = 4 * 1024
#: Pieces of a body after which other connections have their turn: some 500 µs of tiny chunks.
_MAX_PIECES_PER_TURN: Final = 256
#: The most bytes in a row that bring a request no further: its head, trailers, chunk extensions.
_MAX_USELESS_BYTES: Final = 64 * 1024
#: Bytes of an unfinished head or trailers, beyond which all connections share a limit.
_MAX_FREE_BYTES: Final = 8 * 1024
#: Headers of a request; clients and the proxies before us send a few dozen.
_MAX_HEADERS: Final = 200
#: Each request ends with it, or with a body of known length.
_END: Final = b"\r\n\r\n"
#: Phases in which the caller owes more of a request.
_ARRIVING: Final = frozenset({ArrivalPhase.HEADERS, ArrivalPhase.BODY})
MALFORMED: Final = CallerError("Invalid HTTP request received.", code="malformed_request")
"""The refusal of bytes that are no HTTP."""
_TOO_MANY_HEADERS: Final = CallerError(
    f"A request has at most {_MAX_HEADERS} headers.", code="too_many_headers", status=431
)
_HEAD_TOO_LARGE: Final = CallerError(
    f"The request's line and headers have at most {_MAX_USELESS_BYTES // 1024} KiB.",
    code="headers_too_large",
    status=431,
)
_NO_PROGRESS: Final = CallerError("The request goes on and says nothing.", code="malformed_request")
_TOO_MUCH_WAITS: Final = Unready(
    "Callers sent more than the gateway keeps of requests that are unfinished or wait for their"
    " turn; this connection has kept its part longest. Send the request again.",
    code="too_many_bytes",
)


class _ParsingStoppedError(Exception):
    """A request is refused before it was read."""


class BoundedParsing(GuardedConnection):
    """The reading half of a caller's connection."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    _body_left = 0
    _content_length = 0
    _is_large = False
    _pieces = 0
    _useless = 0
    _waiting_bytes = 0
    _unparsed = b""
    _upgrade_head = b""
    _fault: ProxyError | None = None
    _refusal: ProxyError | None = None

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self._refusal is not None:
            return
        if self.flow.is_held:  # it was on its way when reading ended
            self._keep(self._take_unparsed() + data)
            return
        self._parse(data)
        if self._useless > _MAX_FREE_BYTES and not self._is_large and self._refusal is None:
            self._count_large()
        if self.deadlines.phase in _ARRIVING:
            self.deadlines.arm()

    def on_message_begin(self) -> None:
        """Called by httptools."""
        self._body_left = self._content_length = 0
        if self._is_large:
            self._forget_large()
        self.deadlines.expect_headers()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools, also for trailers.

        Raises:
            _ParsingStoppedError: If there are too many.
        """
        if len(self.headers) >= _MAX_HEADERS:
            self._fault = _TOO_MANY_HEADERS
            raise _ParsingStoppedError
        name = name.lower()
        if name == b"content-length" and value.isdigit():
            self._content_length = int(value)  # of a body that begins once the head is complete
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        self._body_left = self._content_length
        if self._is_large:
            self._forget_large()
        if self.parser.should_upgrade():
            self._upgrade_head = self._ignore_upgrade()
            if self._upgrade_head:
                return
        self.deadlines.expect_body()
        if self._is_proxied:
            caller = self._guard.proxies.client_address(self._address, self.headers)
            self.scope["client"] = (caller, 0)
        super().on_headers_complete()
        self.headers = []  # what trails the body is for nobody

    def on_body(self, body: bytes) -> None:
        """Called by httptools."""
        size = len(body)
        self._useless = 0
        self._pieces += 1
        self._body_left -= size
        self.deadlines.count_bytes(size)
        if self.cycle is not None:
            super().on_body(body)

    def give_up_unparsed(self) -> None:
        """Called by the pool of unparsed bytes, for another connection that needs them."""
        self._is_large = False
        self._unparsed = b""
        self.parser = httptools.HttpRequestParser(self)  # it has the beginning of the head
        self.url = b""
        if self.headers:
            self.headers.clear()
        self._refuse(_TOO_MUCH_WAITS)

    def _refuse(self, error: ProxyError) -> None:
        """Refuse all that the caller sends from here on."""
        raise NotImplementedError

    def _read_on(self) -> None:
        """Parse what was kept, and have the connection read again once that is done."""
        if not self.pipeline:
            self._waiting_bytes = 0
        if self.flow.is_held and not self.transport.is_closing():
            if self._parse(self._take_unparsed()):
                self.flow.release()
            if self.deadlines.phase in _ARRIVING:
                self.deadlines.arm()

    def _parse(self, data: bytes) -> bool:
        """Parse all of it, and True; or what may be parsed now."""
        begin, size = 0, len(data)
        self._pieces = 0
        while begin < size and self._refusal is None:
            if (self.pipeline or self._pieces > _MAX_PIECES_PER_TURN) and self._is_turn_over():
                self._keep(data[begin:])
                return False
            end = self._slice_end(data, begin)
            self._feed(memoryview(data)[begin:end] if begin or end < size else data)
            if self.pipeline:
                self._waiting_bytes += min(end, size) - begin
            begin = end
        return True

    def _is_turn_over(self) -> bool:
        """True if enough requests wait, or other connections have their turn first."""
        if len(self.pipeline) >= _MAX_WAITING_REQUESTS or self._waiting_bytes > _MAX_WAITING_BYTES:
            return True
        if self._pieces > _MAX_PIECES_PER_TURN:
            self.loop.call_soon(self._read_on)
            return True
        return False

    def _slice_end(self, data: bytes, begin: int) -> int:
        """The end of a slice in which no more requests end than there is room for, and one."""
        if self._body_left > 0:
            return begin + self._body_left
        most = begin + _MAX_SLICE_BYTES
        end = data.find(_END, max(begin - len(_END) + 1, 0), most)
        if end < 0:
            return most
        room = _MAX_WAITING_REQUESTS - len(self.pipeline)
        return max(end + len(_END), begin + room * _MIN_REQUEST_BYTES)

    def _feed(self, piece: bytes | memoryview) -> None:
        self._useless += len(piece)
        try:
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                self._stay(memoryview(piece)[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(self._fault or MALFORMED)
            return
        if self._useless > _MAX_USELESS_BYTES:
            is_head = self.deadlines.phase is ArrivalPhase.HEADERS
            self._refuse(_HEAD_TOO_LARGE if is_head else _NO_PROGRESS)

    def _count_large(self) -> None:
        """Count a large head that is not finished, or large trailers."""
        if self._guard.unparsed.acquire(self, self._counted_address, _MAX_USELESS_BYTES):
            self._is_large = True
        else:
            self._refuse(_TOO_MUCH_WAITS)

    def _forget_large(self) -> None:
        if self._is_large:
            self._is_large = False
            self._guard.unparsed.release(self, self._counted_address, _MAX_USELESS_BYTES)

    def _keep(self, rest: bytes) -> None:
        """Keep what is not parsed yet, and read no more."""
        if not self._guard.unparsed.acquire(self, self._counted_address, len(rest)):
            self._refuse(_TOO_MUCH_WAITS)
            return
        self._unparsed = rest
        self.flow.hold()

    def _take_unparsed(self) -> bytes:
        rest, self._unparsed = self._unparsed, b""
        self._guard.unparsed.release(self, self._counted_address, len(rest))
        return rest

    def _stay(self, rest: memoryview) -> None:
        """Read the request again as one that asks for no other protocol, and then the rest.

        The parser stops at such a request, and would take the request's body for the next request.

        Source: RFC 9110, section 7.8.
        """
        while self._upgrade_head:
            head, self._upgrade_head = self._upgrade_head, b""
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(head)
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]

    def _ignore_upgrade(self) -> bytes:
        """The head that was read, without its request for another protocol; b"" for a tunnel's."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            return b""
        version = self.parser.get_http_version()
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        line = b"%b %b HTTP/%b\r\n" % (method, self.url, version.encode())
        return line + b"".join(lines) + b"\r\n"
