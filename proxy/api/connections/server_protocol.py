"""The server's protocol for callers' connections: uvicorn's, with limits and answers in turn.

uvicorn answers and shuts down. This adds the limits of ``guarded_connection`` and
``bounded_parsing``, and keeps answers in order where a request is refused before it is read.
WebSockets are not served; a request to upgrade is answered as if it asked for none. Answers go
through ``answer_writer``.
"""

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from proxy.api.answer_writer import AnswerWriter, flush_head
from proxy.api.connections.arrival_deadlines import ArrivalPhase
from proxy.api.connections.bounded_parsing import MALFORMED, BoundedParsing
from proxy.errors import ProxyError


class ServerProtocol(BoundedParsing):
    """A caller's connection."""

    _answering: RequestResponseCycle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio; uvicorn tells the request that came last, others may be before it."""
        super().connection_lost(exc)
        self._end_answer()
        self._take_unparsed()
        self._forget_large()
        self.pipeline.clear()
        self.cycle = self._answering = None  # each has us

    def on_message_complete(self) -> None:
        """Called by httptools."""
        self._useless = 0
        if self._upgrade_head:
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
            if not self.pipeline:
                self._read_on()
            return
        if self.flow.is_held:
            self._read_on()
            if self._is_answering or self.transport.is_closing():
                return
        if self._refusal is not None:
            self._send_refusal(self._refusal)
        elif self.deadlines.phase is ArrivalPhase.ANSWER:
            self.deadlines.expect_next_request()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Let the app answer a request; those behind it wait for their turn."""
        self._answering = cycle
        send = AnswerWriter(cycle, self.loop).send
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, send))

    def _refuse(self, error: ProxyError) -> None:
        """Refuse what comes once all before it is answered: answers come in turn."""
        self._log(f"refused: {error.message.removesuffix('.')}")
        self._refusal = error
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._send_refusal(error)
        elif cycle.more_body and self.pipeline:
            self.pipeline.popleft()  # it is refused itself, and waits for its turn
            self.cycle = self.pipeline[0][0] if self.pipeline else self._answering
            self.deadlines.expect_answer_taken()
        elif cycle.more_body:
            self._end_answer()
            if cycle.response_started:
                flush_head(cycle)
                self.transport.close()
            else:
                self._send_refusal(error)

    def _send_refusal(self, error: ProxyError) -> None:
        if self._answering is not None:
            flush_head(self._answering)
        if error is MALFORMED:
            self.send_400_response(str(error))
        else:
            self._refuse_with(error.status, error)

    def _end_answer(self) -> None:
        """Let the request that is being answered be one whose caller has left."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
