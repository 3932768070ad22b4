"""An upstream's answer after the commit point: its first bytes, and the rest as it comes."""

import asyncio
from typing import Final

import msgspec

from proxy.calls.metering.metering import Meter
from proxy.calls.metering.plausible_usage import UsageReader
from proxy.errors import UpstreamError
from proxy.providers.answers.google_finish import failed_finish_in
from proxy.providers.envelopes import is_answer, is_object, is_unpaid
from proxy.providers.failures import failure_in, failure_of
from proxy.providers.json_size import MAX_ANSWER, SMALL_BYTES, ends_of, loose_sizes
from proxy.providers.lenient import NEAR_JSON_STARTS, OBJECT_STARTS, to_strict_json
from proxy.providers.port import Reader, Wire
from proxy.providers.sse import BLANK_LINES, EventFramer, begins_stream, is_idle
from proxy.providers.stream_endings import early_failure, malformed_answer, unreadable_paid_answer
from proxy.records.timeline import Timeline
from proxy.upstream.port import UpstreamExchange

#: The longest error body that is read; it may hold what the model generated.
_MAX_FAILURE_BODY_BYTES: Final = 256 * 1024
#: Keep-alives held back while nothing else came; more of them are dropped.
_MAX_HELD_IDLE_BYTES: Final = 64 * 1024
#: Opening events held back before the content; beyond it, they are taken for content.
_MAX_OPENING_BYTES: Final = 1024 * 1024
#: The largest JSON answer that is read whole.
_MAX_WHOLE_BYTES: Final = 64 * 1024 * 1024
#: Most bytes of what is nearly JSON that are read again at once.
_MAX_INLINE_REPAIR_BYTES: Final = 64 * 1024
#: Bytes of a run of events that takes milliseconds to look through.
_MAX_INLINE_RUN_BYTES: Final = 1024 * 1024
#: Bytes that are read to tell whether an answer without a stream's label is one nevertheless.
_MAX_SNIFFED_BYTES: Final = 64 * 1024


class ExpectedAnswer(msgspec.Struct, frozen=True):
    """The form of answer that a call asked for.

    Attributes:
        is_stream: True if it asked for a stream; what begins as one then is one.
        has_text: True if text is generated; embeddings are none.
        read_usage: Reads its usage objects; None reads them by the wire alone.
    """

    is_stream: bool = False
    has_text: bool = True
    read_usage: UsageReader | None = None


_ANY_TEXT: Final = ExpectedAnswer()


class UpstreamAnswer:
    """An answer that has begun.

    Attributes:
        first_piece: Up to the commit point or a little after; if that is all of the answer, in
            the caller's words.
        generates: True if it must be a stream of events or JSON, whatever it is called.
        headers: The upstream's; a stream under another label is called what it is.
        is_retrieval: True if it is something that the provider keeps, such as a log of events; an
            error in it is one of its events, and it may be empty.
        is_whole: True if the first piece is all of it.
    """

    __slots__ = (
        "_frames", "_has_text", "_may_be_mislabelled", "_read_usage", "_timeline", "_unread",
        "_wire", "exchange", "first_piece", "generates",
        "headers", "is_retrieval", "is_stream", "is_whole", "meter",
    )  # fmt: skip

    def __init__(
        self,
        exchange: UpstreamExchange,
        wire: Wire,
        timeline: Timeline,
        *,
        generates: bool,
        is_retrieval: bool = False,
        expected: ExpectedAnswer = _ANY_TEXT,
    ) -> None:
        """Take over an exchange whose head came."""
        self.exchange = exchange
        self.headers = exchange.headers
        self._wire = wire
        self._timeline = timeline
        self._has_text = expected.has_text
        self._read_usage = expected.read_usage or wire.usage
        self._frames: EventFramer | None = None
        media = exchange.headers.get("content-type", "").lower()
        self.is_stream = media.startswith("text/event-stream")
        self._may_be_mislabelled = expected.is_stream and generates and not self.is_stream
        self._unread = b""
        self.generates = generates
        self.is_retrieval = is_retrieval
        self.is_whole = not self.is_stream and (generates or media.startswith("application/json"))
        self.meter = Meter(self._read_usage, streamed=self.is_stream, has_text=expected.has_text)
        self.first_piece = b""

    async def commit(self, reader: Reader | None = None) -> None:
        """Read up to the first content byte; a JSON answer is read whole.

        What opens a stream and says nothing yet is held until then, unless it is a retrieval.

        Args:
            reader: Translates a JSON answer; None takes it as it comes.

        Raises:
            UpstreamError: If the answer broke, if a stream had an error or its end before that, or
                if what should be an answer is an error or cannot be read.
        """
        if self._may_be_mislabelled:
            await self._sniff()
        if self.is_stream:
            await self._commit_stream()
        elif self.is_whole:
            await self._commit_whole(reader)
        else:
            self.first_piece = await self._read()
        self._timeline.mark_first_content()

    def switch_timeline(self, timeline: Timeline) -> None:
        """Go on in another timeline, that of the call whose race it won."""
        self._timeline = timeline
        timeline.mark_first_content()

    @property
    def is_read(self) -> bool:
        """True if it is known already that no piece of a stream follows."""
        frames = self._frames
        return frames is not None and not frames.unfinished_event() and self.exchange.is_read

    async def next(self) -> bytes:
        """The next piece, for a stream whole events; b"" at the end.

        Raises:
            UpstreamError: If the connection broke.
        """
        frames = self._frames
        if frames is None:
            return b"" if self.is_whole else await self._read()
        while True:
            with self._timeline.waiting:
                chunk = self._unread or await self.exchange.read()
            self._unread = b""
            if not chunk:
                return self._unfinished_bytes(frames)
            run = frames.feed(chunk)
            if len(run) > _MAX_INLINE_RUN_BYTES:
                await self._meter_large(run)
                return run
            if run:
                self.meter.feed(run)
                return run

    async def _meter_large(self, run: bytes) -> None:
        """Meter a large run of a stream; other calls run before it is looked through."""
        await asyncio.sleep(0)
        if run.endswith(BLANK_LINES):
            self.meter.feed(run)
        else:
            self.meter.feed_part(run)

    async def _sniff(self) -> None:
        """Read until it is known whether this is a stream; it is read again from its first byte.

        Some servers label their streams `text/plain`, or not at all.
        """
        head, is_stream = b"", None
        while (
            is_stream is None and len(head) <= _MAX_SNIFFED_BYTES and (piece := await self._read())
        ):
            head += piece
            is_stream = begins_stream(head)
        self._unread = head
        if is_stream:
            self.is_stream, self.is_whole = True, False
            self.meter = Meter(self._read_usage, streamed=True)
            self.headers = {**self.headers, "content-type": "text/event-stream"}

    async def _commit_stream(self) -> None:
        self._frames = EventFramer()
        if self.is_retrieval:
            self.first_piece = await self.next()
            return
        buffer = bytearray()
        while run := await self.next():
            if self.meter.has_begun or self.meter.is_broken:
                break
            if len(buffer) < _MAX_HELD_IDLE_BYTES or not is_idle(run):
                buffer += run
            if len(buffer) > _MAX_OPENING_BYTES:
                self.meter.has_begun, run = True, b""
                break
        if not self.meter.has_begun:
            raise self._failure_without_content(bytes(buffer) + run)
        self.first_piece = bytes(buffer) + run

    def _failure_without_content(self, heard: bytes) -> UpstreamError:
        """The error of a stream that ended before its content, by all that came of it.

        What is no event at all was sent all the same: no client reads events in UTF-16, or packed
        without a label.
        """
        if begins_stream(heard) is not False or is_unpaid(heard):
            failure = failure_in(heard, self._wire.failure)
            return failure or failed_finish_in(heard) or early_failure()
        return failure_of(heard, self._wire.failure) or unreadable_paid_answer()

    async def _commit_whole(self, reader: Reader | None) -> None:
        body = await self._read_whole()
        if len(body) >= SMALL_BYTES and await _takes_long(body):
            self.first_piece = self._pass_unparsed(reader, body)
            return
        read = await self._meter_whole(body)
        meter = self.meter
        if self.generates and (meter.is_broken or not (meter.upstream_id or meter.usage_object)):
            self._check_is_answer(read)
        self.first_piece = body if reader is None else self._translate_whole(reader, body, read)

    async def _read_whole(self) -> bytes:
        """The body; also where its connection broke, but only once all of its JSON was here.

        Raises:
            UpstreamError: If it broke before that; what had come of it is metered.
        """
        try:
            with self._timeline.waiting:
                return self._unread + await self.exchange.read_all(_MAX_WHOLE_BYTES)
        except UpstreamError as error:
            received = self._unread + error.received
            if received.rstrip().endswith(b"}") and is_object(received):
                return received
            if received:
                self.meter.feed(received)
            raise

    def _pass_unparsed(self, reader: Reader | None, body: bytes) -> bytes:
        """An answer that takes too long to parse, unmodified.

        Raises:
            UpstreamError: If it would have to be translated, or is none.
        """
        self.meter.feed_ends(body)
        if self.generates and not body[:_MAX_INLINE_REPAIR_BYTES].lstrip().startswith(
            OBJECT_STARTS
        ):
            raise unreadable_paid_answer()
        if reader is not None:
            raise unreadable_paid_answer()
        return body

    async def _meter_whole(self, body: bytes) -> bytes:
        """Meters the answer's body, repaired first where it is only nearly JSON."""
        self.meter.feed(body)
        if not self.meter.is_unreadable or not body.lstrip().startswith(NEAR_JSON_STARTS):
            return body
        is_short = len(body) <= _MAX_INLINE_REPAIR_BYTES
        read = to_strict_json(body) if is_short else await asyncio.to_thread(to_strict_json, body)
        if read is None:
            if ends_of(body):  # it takes too long to read again, but for its usage
                self.meter = Meter(self._read_usage, streamed=False, has_text=self._has_text)
                self.meter.feed_ends(body)
            return body
        self.meter = Meter(self._read_usage, streamed=False, has_text=self._has_text)
        self.meter.feed(read)
        return read

    def _translate_whole(self, reader: Reader, body: bytes, read: bytes) -> bytes:
        """Translates a whole answer from its own bytes, else from its repaired ones.

        Raises:
            UpstreamError: If it cannot be read.
        """
        try:
            return translate_piece(reader, body) + reader.end()
        except UpstreamError as error:
            if error.code != malformed_answer().code:
                raise
            if read is body:
                raise unreadable_paid_answer() from error
        return self._translate_whole(reader, read, read)

    def _check_is_answer(self, body: bytes) -> None:
        """Look closer at what may be no answer.

        What was broken off was generated and paid for: the caller gets it, as he would directly.
        Whatever else is no object may be paid for, too, though no caller could read it: a stream
        that nobody asked for, or an answer in some wrapping. Only what no model generates is asked
        for again.

        Raises:
            UpstreamError: If it is none.
        """
        start = body.lstrip()
        if is_answer(body) or (self.meter.is_unreadable and start.startswith(b"{")):
            return
        failure = failure_of(body, self._wire.failure)
        if failure is None and self.meter.is_unreadable and not is_unpaid(body):
            raise unreadable_paid_answer()
        self.meter.is_broken = True
        raise failure or malformed_answer()

    def _unfinished_bytes(self, frames: EventFramer) -> bytes:
        """The bytes after the last whole event, once the upstream has ended."""
        rest = frames.unfinished_event()
        self._frames = EventFramer()
        if rest:
            self.meter.feed(rest)
        return rest

    async def _read(self) -> bytes:
        if unread := self._unread:
            self._unread = b""
            return unread
        with self._timeline.waiting:
            return await self.exchange.read()


async def _takes_long(body: bytes) -> bool:
    """True if a body takes too long to parse; other calls run while it is measured."""
    for size in loose_sizes(body):
        if size.exceeds(MAX_ANSWER):
            return True
        await asyncio.sleep(0)
    return False


def translate_piece(reader: Reader, piece: bytes) -> bytes:
    """Translates a piece of an answer for the caller.

    Raises:
        UpstreamError: If it cannot be read.
    """
    try:
        return reader.feed(piece)
    except ValueError as error:
        raise malformed_answer() from error


async def read_failure(exchange: UpstreamExchange, wire: Wire, timeline: Timeline) -> UpstreamError:
    """The error that an upstream answered with; its exchange is closed.

    A body that is too long or breaks off counts as none, for the status says enough.
    """
    try:
        with timeline.waiting:
            body = await exchange.read_all(_MAX_FAILURE_BODY_BYTES)
    except UpstreamError:
        body = b""
    finally:
        exchange.close()
    return wire.failure(exchange.status, exchange.headers, body)
