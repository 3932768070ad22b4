"""Delivers a part of an answer that may break off, and be continued by another upstream."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from proxy.calls.delivery import Delivery
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.calls.recalled_answer import RecalledAnswer
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import ProxyError, UpstreamError
from proxy.providers.continuations.continuation_requests import read_open_answer
from proxy.providers.continuations.seam import OpenAnswer, Seam
from proxy.providers.port import Reader
from proxy.providers.readers import PassthroughReader
from proxy.providers.sse import BLANK_LINES
from proxy.providers.stream_endings import midway_failure, truncated_stream

#: Bytes of a stream that are remembered, as many as its meter keeps; a longer one is not continued.
_MAX_REMEMBERED_BYTES: Final = 4 * 1024 * 1024
#: Bytes from which on they are read again on a thread.
_MIN_THREADED_BYTES: Final = 16 * 1024


class DeliveredStream:
    """The bytes of a stream that its caller has, as long as they are not too many."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._left = _MAX_REMEMBERED_BYTES

    @property
    def is_whole(self) -> bool:
        """True if all of the stream is remembered."""
        return self._left >= 0

    def add(self, piece: bytes) -> None:
        """Remember a piece."""
        self._left -= len(piece)
        if self._left >= 0:
            self._pieces.append(piece)
        elif self._pieces:
            self._pieces = []

    async def open_answer(self, endpoint: str) -> OpenAnswer | None:
        """The answer that broke off after it; None where it cannot be gone on from."""
        if not self.is_whole:
            return None
        delivered = b"".join(self._pieces)
        if len(delivered) < _MIN_THREADED_BYTES:
            return read_open_answer(endpoint, delivered)
        return await asyncio.to_thread(read_open_answer, endpoint, delivered)


class BrokenStream(msgspec.Struct, frozen=True):
    """A stream that broke off and is to be continued."""

    failure: UpstreamError
    answer: OpenAnswer


class StreamPart(msgspec.Struct, frozen=True):
    """One upstream's part of a stream.

    Attributes:
        delivered: All that the caller has of the stream.
        seam: The seam to the parts before it; None for the first.
        can_continue: True if another route can go on where this one fails so; it is asked once.
    """

    delivered: DeliveredStream
    seam: Seam | None
    can_continue: Callable[[UpstreamError], bool]


class SeamReader:
    """Reads a part as what goes on from the parts before it."""

    def __init__(self, inner: Reader, seam: Seam) -> None:
        self._inner = inner
        self._seam = seam

    def feed(self, piece: bytes) -> bytes:
        """The caller's part of a piece."""
        return self._seam.feed(self._inner.feed(piece))

    def end(self) -> bytes:
        """The end of the answer."""
        return self._seam.feed(self._inner.end())


class UnbrokenDelivery(Delivery):
    """One part of an answer on its way to its caller.

    Attributes:
        broken: The stream, where it broke off and is to be continued; the caller got no error.
    """

    __slots__ = ("_held", "_is_same", "_part", "broken")

    def __init__(
        self,
        context: CallContext,
        attempt: AttemptInfo,
        reader: Reader | None,
        answer: UpstreamAnswer | RecalledAnswer,
        part: StreamPart,
    ) -> None:
        reader = reader or PassthroughReader()
        if part.seam is not None:
            reader = SeamReader(reader, part.seam)
        super().__init__(context, attempt, reader, answer)
        self._is_same = isinstance(reader, PassthroughReader)
        self._part = part
        self._held = b""
        self.broken: BrokenStream | None = None

    async def _begin(self) -> None:
        if self._part.seam is None:
            await super()._begin()

    async def end_with_failure(self, failure: ProxyError) -> None:
        """End the stream that broke off with an error event: nothing goes on from it."""
        await self._end_with_error(failure, is_complete=False)

    def _rewrite(self, piece: bytes) -> bytes:
        """The caller's part of a piece.

        Raises:
            UpstreamError: If the answer breaks off with it; nothing of the piece is delivered.
        """
        if not self._held and self._receipt is None and self._part.delivered.is_whole:
            failure = self._failure_of(piece)
            if failure is not None:
                self._held = piece
                raise failure
        is_same = self._is_same and not self._answer.meter.is_broken
        out = piece if is_same else self._rewrite_plainly(piece)
        self._part.delivered.add(out)
        return out

    def _rewrite_plainly(self, piece: bytes) -> bytes:
        """The caller's part of a piece of a stream that is not continued."""
        if self._is_same:
            self._reader = None
        return super()._rewrite(piece)

    def _failure_of(self, piece: bytes) -> UpstreamError | None:
        """The failure of a piece with an upstream's error, or of the rest of a torn event."""
        meter = self._answer.meter
        if meter.is_broken:
            return midway_failure()
        is_torn = not piece.endswith(BLANK_LINES) and not meter.is_complete
        is_torn = is_torn and len(piece) <= _MAX_REMEMBERED_BYTES  # a larger one comes in pieces
        return truncated_stream() if is_torn else None

    async def _cut_short(self, reason: ProxyError) -> None:
        answer = await self._open_answer(reason)
        if answer is None or not isinstance(reason, UpstreamError):
            await self._end_broken(reason)
            return
        self._is_final = False
        receipt = await self._settle_broken(reason)
        self._context.caller.note_attempt(receipt)
        self.broken = BrokenStream(reason, answer)

    async def _open_answer(self, reason: ProxyError) -> OpenAnswer | None:
        """The answer as its caller has it; None where it is not continued."""
        is_stream = self._answer.is_stream and not self._has_recalled
        if not is_stream or self._receipt is not None or not isinstance(reason, UpstreamError):
            return None
        answer = await self._part.delivered.open_answer(self._context.call.endpoint)
        return answer if answer is not None and self._part.can_continue(reason) else None

    async def _end_broken(self, reason: ProxyError) -> None:
        """End the stream as one that is not continued, with what was held back of it."""
        if self._part.seam is not None:
            reason.stream_ending = b""  # its numbers are those of its own part
        if not self._held:
            await super()._cut_short(reason)
            return
        try:
            out = self._rewrite_plainly(self._held)
            if self._answer.meter.is_broken:
                out = await self._settle_end(out, reason)
        except UpstreamError as failure:
            await super()._cut_short(failure)
            return
        with self._waiting_for_caller():
            await self._context.caller.send(out)
        if self._receipt is None:
            await super()._cut_short(reason)
            return
        with self._waiting_for_caller():
            await self._context.caller.end(b"")
