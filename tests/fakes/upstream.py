"""An upstream that plays a script: answers, refusals, breaks and silence."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.providers.stream_endings import unreadable_paid_answer
from proxy.upstream.port import cancellation_before_send

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class FailedConnection:
    """In place of an answer: a connection that does not come about."""


class Silence:
    """A piece of a script that never comes."""


@dataclass(frozen=True)
class After:
    """A piece of a script that comes after so many seconds."""

    seconds: float
    piece: bytes


CONNECTING = FailedConnection()
SILENCE = Silence()
Piece = bytes | After | FailedConnection | Silence | UpstreamError


def broken_connection() -> UpstreamError:
    return UpstreamError("it broke", status=502, code="upstream_connection_broken", retryable=True)


def billed_and_malformed() -> UpstreamError:
    """A good answer came, and its head could not be read."""
    error = unreadable_paid_answer()
    error.is_billed = True
    return error


def unreachable() -> UpstreamError:
    return UpstreamError("not there", status=502, code="upstream_unreachable", retryable=True)


@dataclass
class ScriptedAnswer:
    """One answer: its head, then its pieces in order."""

    pieces: Sequence[Piece]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


class FakeExchange:
    def __init__(self, script: ScriptedAnswer) -> None:
        self.status = script.status
        self.headers = script.headers
        self.closed = 0
        self._pieces = list(script.pieces)

    @property
    def is_read(self) -> bool:
        return not self._pieces

    async def read(self) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if isinstance(piece, UpstreamError):
            raise piece
        if isinstance(piece, Silence):
            return await _never()
        if isinstance(piece, After):
            await asyncio.sleep(piece.seconds)
            return piece.piece
        assert isinstance(piece, bytes)
        await asyncio.sleep(0)
        return piece

    async def read_all(self, limit: int) -> bytes:
        whole = b""
        while piece := await self._read_after(whole):
            whole += piece
            if len(whole) > limit:
                raise UpstreamError("too much", status=502, code="too_much", retryable=False)
        return whole

    async def _read_after(self, received: bytes) -> bytes:
        try:
            return await self.read()
        except UpstreamError as error:
            error.received = received
            raise

    def close(self) -> None:
        self.closed += 1


class FakeTransport:
    """Answers with its scripts, one after the other; remembers what it was sent.

    A script that is a failure or silence stands for an upstream that sends no headers.
    """

    def __init__(self, scripts: Iterable[ScriptedAnswer | Piece]) -> None:
        self._scripts = list(scripts)
        self.sent: list[tuple[str, PreparedRequest]] = []
        self.exchanges: list[FakeExchange] = []

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        self.sent.append((upstream.name, prepared))
        script = self._scripts.pop(0)
        await asyncio.sleep(0)
        if isinstance(script, UpstreamError):
            raise script
        if isinstance(script, Silence):
            await _never()
        if isinstance(script, FailedConnection):
            try:
                await _never()
            except asyncio.CancelledError as cancelled:
                raise cancellation_before_send() from cancelled
        assert isinstance(script, ScriptedAnswer)
        exchange = FakeExchange(script)
        self.exchanges.append(exchange)
        return exchange


async def _never() -> bytes:
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    return await future
