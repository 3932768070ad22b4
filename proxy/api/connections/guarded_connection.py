"""A caller's connection that is counted, and closed when its caller is late."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from proxy.api.connections.arrival_deadlines import ArrivalDeadlines, ArrivalPhase, ArrivalTimeouts
from proxy.api.connections.connection_limit import ConnectionLimit, ThrottledLog
from proxy.api.connections.trusted_proxies import TrustedProxies
from proxy.api.connections.unparsed_pool import UnparsedPool
from proxy.errors import CallerError, ProxyError, Unready, envelope

_NO_LIMIT: Final = 1 << 62
_TIMEOUTS: Final = {
    ArrivalPhase.HEADERS: CallerError(
        "The request's headers did not arrive in time.", code="headers_timeout"
    ),
    ArrivalPhase.BODY: CallerError("The request's body arrived too slowly.", code="body_timeout"),
}
_LOG_LINES: Final = {
    ArrivalPhase.HEADERS: "closed: no complete headers within THRIFTGATE_HEADER_TIMEOUT",
    ArrivalPhase.BODY: "closed: the body was slower than THRIFTGATE_BODY_MIN_RATE",
    ArrivalPhase.ANSWER: "closed: the caller read nothing of its answer",
}


def _unlimited_guard() -> ConnectionLimit:
    return ConnectionLimit(total=_NO_LIMIT, per_address=_NO_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionGuard:
    """Limits that all connections of a server share."""

    limit: ConnectionLimit = field(default_factory=_unlimited_guard)
    timeouts: ArrivalTimeouts = field(default_factory=ArrivalTimeouts)
    log: ThrottledLog = field(default_factory=ThrottledLog)
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    unparsed: UnparsedPool = field(default_factory=UnparsedPool)


class HeldFlow(FlowControl):
    """Flow of a connection that can be held, whatever uvicorn and apps say of its reading.

    Attributes:
        is_held: True while it is not read, as enough of its bytes wait.
    """

    is_held = False

    def hold(self) -> None:
        """End reading."""
        if not self.is_held:
            self.is_held = True
            if not self.read_paused:
                self._transport.pause_reading()

    def release(self) -> None:
        """Read on, unless a body is too far ahead of its app."""
        if self.is_held:
            self.is_held = False
            if not self.read_paused:
                self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Called by uvicorn."""
        if not self.is_held:
            super().pause_reading()
        self.read_paused = True

    def resume_reading(self) -> None:
        """Called by uvicorn, also where an app listens for its caller to leave."""
        if not self.is_held:
            super().resume_reading()
        self.read_paused = False


class GuardedConnection(HttpToolsProtocol):
    """uvicorn's side of a connection, within limits of number and time.

    uvicorn knows a timer between two requests alone: a connection that sends nothing, or half of a
    request, stays open for ever there.

    Attributes:
        deadlines: Since when what is awaited of the caller, and until when.
    """

    deadlines: ArrivalDeadlines
    flow: HeldFlow

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        guard: ConnectionGuard | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._guard = guard or ConnectionGuard()
        self._address = ""
        self._counted_address = ""
        self._is_counted = False
        self._is_proxied = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by asyncio."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)
        guard = self._guard
        self._address = self.client[0] if self.client else ""
        self.deadlines = ArrivalDeadlines(
            self, self.loop, guard.timeouts, float(self.timeout_keep_alive)
        )
        self._is_proxied = guard.proxies.is_trusted(self._address)
        self._counted_address = "" if self._is_proxied else self._address
        if why := guard.limit.refusal(self._counted_address):
            self._log(f"refused, for {why}")
            self._refuse_with(503, Unready(f"Refused: {why}.", code="too_many_connections"))
        else:
            guard.limit.acquire(self._counted_address)
            self._is_counted = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.deadlines.stop()
        del self.deadlines  # it has us; without this, each connection would wait for the collector
        if self._is_counted:
            self._is_counted = False
            self._guard.limit.release(self._counted_address)
        super().connection_lost(exc)

    @property
    def is_held(self) -> bool:
        """True if the gateway itself keeps the caller from sending."""
        if self.flow.read_paused or self.flow.is_held:
            return True
        if not self._is_answering:
            return False
        return self.deadlines.phase is ArrivalPhase.HEADERS or self.cycle.waiting_for_100_continue

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the caller has not taken yet."""
        return self.transport.get_write_buffer_size()

    def cut_off(self, phase: ArrivalPhase) -> None:
        """Close the connection: the caller's time in this phase is over."""
        if phase is ArrivalPhase.ANSWER:
            self._log(_LOG_LINES[phase])
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif phase is ArrivalPhase.IDLE:
            self.transport.close()
        else:
            self._log(_LOG_LINES[phase])
            self._end_request(phase)

    @property
    def _is_answering(self) -> bool:
        """True if a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _end_request(self, phase: ArrivalPhase) -> None:
        """Answer 408 to a request that came in part; a caller that sent nothing gets nothing."""
        cycle = self.cycle
        is_begun = self.headers is not None
        if phase is ArrivalPhase.BODY:
            is_next = not self.pipeline  # else another's answer comes first, and may have begun
            is_begun = is_next and self._is_answering and not cycle.response_started
        if is_begun:
            self._refuse_with(408, _TIMEOUTS[phase])
        else:
            self.transport.close()
        if self._is_answering:
            cycle.disconnected = True
            cycle.message_event.set()

    def _refuse_with(self, status: int, error: ProxyError) -> None:
        body = envelope(error)
        self.transport.write(
            STATUS_LINE[status] + b"content-type: application/json\r\nconnection: close\r\n"
            b"retry-after: 1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def _log(self, what: str) -> None:
        self._guard.log.warning(self.loop.time(), self._address, what)
