"""The server's side of callers' connections: uvicorn's, within limits, with answers in turn.

uvicorn parses, answers and shuts down. What is ours are the limits of ``guarded_connection``, a
bound on bytes that bring a request no further, and the order of answers where a caller sends what
is no HTTP. WebSockets are left out; a request to upgrade is passed over. What an
app sends goes through ``answer_writer``.
"""

from typing import Final

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.api.answer_writer import AnswerWriter
from proxy.api.arrival_deadlines import ArrivalPhase
from proxy.api.guarded_connection import GuardedConnection

#: The most bytes in a row that bring a request no further: its head, trailers, chunk extensions.
_MAX_USELESS_BYTES: Final = 64 * 1024
#: Phases in which the caller owes more of a request.
_ARRIVING: Final = frozenset({ArrivalPhase.HEADERS, ArrivalPhase.BODY})
_MALFORMED: Final = "Invalid HTTP request received."


class ServerProtocol(GuardedConnection):
    """A caller's connection."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    _useless = 0
    _again = b""
    _is_malformed = False
    _answering: RequestResponseCycle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio; uvicorn tells the request that came last, others may be before it."""
        super().connection_lost(exc)
        self._end_answer()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self._is_malformed:
            return
        self._useless += len(data)
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._stay(memoryview(data)[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.logger.warning(_MALFORMED)
            self._refuse_malformed()
        if self._useless > _MAX_USELESS_BYTES and not self.transport.is_closing():
            self._refuse()
        if self.deadlines.phase in _ARRIVING:
            self.deadlines.arm()

    def on_message_begin(self) -> None:
        """Called by httptools."""
        self.deadlines.expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        if self.parser.should_upgrade():
            self._again = self._ignore_upgrade()
            if self._again:
                return
        self.deadlines.expect_body()
        super().on_headers_complete()
        self.headers = []  # what trails the body is for nobody

    def on_body(self, body: bytes) -> None:
        """Called by httptools."""
        self._useless = 0
        self.deadlines.count_bytes(len(body))
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        if self._again:
            return
        if self.cycle is None or self.cycle.response_complete:
            self.deadlines.expect_next_request()
        else:
            self.deadlines.expect_answer_taken()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called by the cycle; begins the next request, if the caller did not wait for its turn."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if self._is_malformed:
            self.send_400_response(_MALFORMED)
            return
        if self.deadlines.phase is ArrivalPhase.ANSWER:
            self.deadlines.expect_next_request()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Let the app answer a request; those behind it wait for their turn."""
        self._answering = cycle
        send = AnswerWriter(cycle, self.loop).send
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, send))

    def _stay(self, rest: memoryview) -> None:
        """Read the request again as one that asks for no other protocol, and then the rest.

        The parser stops at such a request, and would take the request's body for the next request.

        Source: RFC 9110, section 7.8.
        """
        while self._again:
            again, self._again = self._again, b""
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(again)
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
        kept = [b"%b: %b\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        line = b"%b %b HTTP/%b\r\n" % (method, self.url, version.encode())
        return line + b"".join(kept) + b"\r\n"

    def _refuse_malformed(self) -> None:
        """Refuse what is no HTTP once all before it is answered: answers come in turn."""
        self._is_malformed = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.send_400_response(_MALFORMED)
        elif cycle.more_body and self.pipeline:
            self.pipeline.popleft()  # it is malformed itself, and waits for its turn
            self.cycle = self.pipeline[0][0] if self.pipeline else self._answering
            self.deadlines.expect_answer_taken()
        elif cycle.more_body:
            self._end_answer()
            if cycle.response_started:
                self.transport.close()
            else:
                self.send_400_response(_MALFORMED)

    def _end_answer(self) -> None:
        """Let the request that is being answered be one whose caller has left."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.send_400_response("The request goes on and says nothing.")
        else:
            self._end_answer()
            self.transport.close()
