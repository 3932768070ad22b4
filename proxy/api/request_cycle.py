"""The server's side of callers' connections: uvicorn's, with a leaner way through each request.

uvicorn reads and shuts down; what is ours is a request's scope, its body and its answer's bytes,
which cost more there than anything else on a call's way, and the limits of ``guarded_connection``.
What the gateway uses none of is left out: WebSockets, the access log, a root path. A wish for
another protocol is passed over.
"""

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent, HTTPRequestEvent
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.api.arrival_deadlines import ArrivalPhase
from proxy.api.guarded_connection import GuardedConnection
from proxy.api.heads import (
    CODING,
    CONNECTION,
    LENGTH,
    STATUS,
    head_format,
    render_chunk,
    render_head,
)

#: The most bytes in a row that bring a request no further: its head, trailers, chunk extensions.
_MAX_USELESS_BYTES: Final = 64 * 1024
#: Bytes of a body that are copied behind its head, to leave with it; longer ones fill packets.
_MAX_COPIED_BYTES: Final = 64 * 1024
#: Statuses without a body.
_BODILESS_STATUSES: Final = frozenset({204, 304})
#: Addresses that are remembered; most callers ask at the same few.
_MAX_CACHED_ADDRESSES: Final = 256
#: Phases in which the caller owes more of a request.
_ARRIVAL_PHASES: Final = frozenset({ArrivalPhase.HEADERS, ArrivalPhase.BODY})
_MALFORMED: Final = "Invalid HTTP request received."


class FastEvent:
    """An asyncio event that is cheap for waiters that seldom have to wait.

    Attributes:
        is_set: Whether it rang since this was last taken back.
    """

    __slots__ = ("_event", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._event: asyncio.Event | None = None

    def set(self) -> None:
        """Ring; named as uvicorn names it, which rings when the caller hangs up."""
        self.is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it rings again."""
        if self._event is None:
            self._event = asyncio.Event()
        self._event.clear()
        await self._event.wait()


class RequestCycle(RequestResponseCycle):
    """One request and its answer.

    The head of the answer is held until its first body event, and leaves with it: sent apart, the
    two are two system calls, two packets and two wake-ups of the caller. An app that fails between
    them is answered for in full.

    Source: ASGI specification 3.0, Response Start.
    """

    message_event: FastEvent  # type: ignore[assignment]

    def __init__(self, protocol: "ServerProtocol", *, keep_alive: bool) -> None:
        """Begin the request that this connection has read the head of."""
        self.scope = protocol.scope
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.logger = protocol.logger
        self.default_headers = protocol.server_state.default_headers
        self.message_event = FastEvent()
        self.on_response = protocol.on_response_complete
        self.disconnected = self.response_started = self.response_complete = False
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = protocol.expect_100_continue
        self.more_body = True
        self.chunked_encoding = None
        self.expected_content_length = self._size = 0
        self._has_body = protocol.scope["method"] != "HEAD"
        self._pieces: list[bytes] = []
        self._head = b""

    def feed(self, piece: bytes) -> None:
        """Take a piece of the request's body, and more of them only once these are received."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        self.message_event.set()

    def feed_end(self) -> None:
        """Take the end of the request's body."""
        self.more_body = False
        self.message_event.set()

    async def receive(self) -> ASGIReceiveEvent:
        """The part of the body that came since the last call; waits for it."""
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            if self.flow.read_paused:
                self.flow.resume_reading()
            if not self.message_event.is_set:
                await self.message_event.wait()
            self.message_event.is_set = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        pieces, self._pieces, self._size = self._pieces, [], 0
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        message: HTTPRequestEvent = {
            "type": "http.request",
            "body": body,
            "more_body": self.more_body,
        }
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer; waits while the caller is slow.

        Raises:
            RuntimeError: If the part is out of turn, or is no HTTP.
        """
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError(f"{message['type']} was sent after the answer's end")
        is_begun = self.response_started or bool(self._head)
        if message["type"] == "http.response.body" and is_begun:
            self._write(message.get("body", b""), more=message.get("more_body", False))
        elif message["type"] == "http.response.start" and not is_begun:
            self._begin(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"{message['type']} was sent out of turn")

    async def send_500_response(self) -> None:
        """Answer that the app failed, instead of a head that did not leave."""
        self._head, self.chunked_encoding = b"", None
        await super().send_500_response()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.waiting_for_100_continue = False
        pairs = (*self.default_headers, *headers)
        names, values = zip(*pairs, strict=True) if pairs else ((), ())
        framed = head_format(names)
        is_told = False
        for start, at in framed.framing:
            if self._note_framing(start, values[at]):
                is_told = True
        opening = render_head(STATUS[status], framed, values)
        if not self.keep_alive and not is_told:
            opening += b"connection: close\r\n"
        if self.chunked_encoding is None and self._has_body and status not in _BODILESS_STATUSES:
            self.chunked_encoding = True
            opening += b"transfer-encoding: chunked\r\n"
        self._head = opening + b"\r\n"

    def _note_framing(self, start: bytes, value: bytes) -> bool:
        """Note where the answer ends; whether this says that the connection ends with it."""
        if start == LENGTH and self.chunked_encoding is None:
            self.expected_content_length = int(value)
            self.chunked_encoding = False
        elif start == CODING and value.lower() == b"chunked":
            self.expected_content_length = 0
            self.chunked_encoding = True
        elif start == CONNECTION and b"close" in map(bytes.strip, value.lower().split(b",")):
            self.keep_alive = False
            return True
        return False

    def _write(self, piece: bytes, *, more: bool) -> None:
        if not self._has_body:
            self.expected_content_length, piece = 0, b""
        elif self.chunked_encoding:
            piece = render_chunk(piece, more=more)
        else:
            self.expected_content_length -= len(piece)
            if self.expected_content_length < 0:
                raise RuntimeError("the answer is longer than its content-length")
        if not more and self.expected_content_length:
            raise RuntimeError("the answer is shorter than its content-length")
        self.response_started = True
        if self._head:
            piece = self._with_head(piece)
        if piece:
            self.transport.write(piece)
        if not more:
            self._end()

    def _with_head(self, piece: bytes) -> bytes:
        """The head with the piece behind it; of a long piece the head is sent before, uncopied."""
        before, self._head = self._head, b""
        if len(piece) <= _MAX_COPIED_BYTES:
            return before + piece
        self.transport.write(before)
        return piece

    def _end(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class ServerProtocol(GuardedConnection):
    """A caller's connection."""

    cycle: RequestCycle | None  # type: ignore[assignment]
    _useless = 0
    _again = b""

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._useless += len(data)
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as wish:
                self._parse_without_upgrade(memoryview(data)[wish.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning(_MALFORMED)
            self.send_400_response(_MALFORMED)
        if self._useless > _MAX_USELESS_BYTES and not self.transport.is_closing():
            self._refuse()
        if self.deadlines.phase in _ARRIVAL_PHASES:
            self.deadlines.arm()

    def on_message_begin(self) -> None:
        """Called by httptools."""
        self.deadlines.expect_headers()
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        version = self.parser.get_http_version()
        if self.parser.should_upgrade():
            self._again = self._ignore_upgrade(version)
            if self._again:
                return
        self.deadlines.expect_body()
        path, raw_path, query = _split_target(self.url)
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": self.parser.get_method().decode("ascii"),
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        self.headers = []  # what trails the body is for nobody
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        before, self.cycle = self.cycle, RequestCycle(self, keep_alive=keep_alive)
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        """Called by httptools."""
        self._useless = 0
        self.deadlines.count_bytes(len(body))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.feed(body)

    def on_message_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        if self._again:
            return
        if self.cycle is None or self.cycle.response_complete:
            self.deadlines.expect_next_request()
        else:
            self.deadlines.expect_answer_taken()
            self.cycle.feed_end()

    def on_response_complete(self) -> None:
        """Called by the cycle; begins the next request, if the caller did not wait for its turn."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if self.deadlines.phase is ArrivalPhase.ANSWER:
            self.deadlines.expect_next_request()

    def _parse_without_upgrade(self, rest: memoryview) -> None:
        """Read the request again as one that wishes for no other protocol, and then the rest.

        The parser stops at such a wish, and would take the request's body for the next request.

        Source: RFC 9110, section 7.8.
        """
        while self._again:
            again, self._again = self._again, b""
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(again)
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as wish:
                rest = rest[wish.args[0] :]

    def _ignore_upgrade(self, version: str) -> bytes:
        """The head that was read, without its wish for another protocol; b"" for a tunnel's."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            return b""
        kept = [b"%b: %b\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        line = b"%b %b HTTP/%b\r\n" % (method, self.url, version.encode())
        return line + b"".join(kept) + b"\r\n"

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.send_400_response("The request goes on and says nothing.")
        else:
            self.transport.close()


@lru_cache(maxsize=_MAX_CACHED_ADDRESSES)
def _split_target(url: bytes) -> tuple[str, bytes, bytes]:
    """A request's path, the path still encoded, and what is asked there.

    Raises:
        HttpParserInvalidURLError: If the address is none.
    """
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return unquote(path) if "%" in path else path, parsed.path, parsed.query or b""
