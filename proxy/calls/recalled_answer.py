"""An answer whose model may recall messages that compaction took out, in rounds within one call.

::

    upstream's answer ─ reader ─▶ API of the prompt ─ filter ─┬─ words ─────────▶ caller
          ▲                                                   └─ recall at its end
          └── next round: the prompt, the recall, and what was recalled

The caller sees one answer. What a round says before it recalls is delivered in a stream, and left
out of a whole answer. A stream's first round gives the answer its id.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from proxy.calls.metering.metering import Meter
from proxy.calls.upstream_answer import UpstreamAnswer, translate_piece
from proxy.errors import UpstreamError
from proxy.providers.answers.generated_text import has_content
from proxy.providers.port import Reader
from proxy.providers.readers import PassthroughReader
from proxy.providers.recalls.recall_filter import RecallFilter, RecallRequest, parse_object
from proxy.providers.sse import parse_events
from proxy.records.timeline import Timeline
from proxy.upstream.port import UpstreamExchange

#: Seconds that a round which recalled has to end, for its usage and its connection.
_ROUND_END_WAIT_S: Final = 2.0


class RecallRound(msgspec.Struct, frozen=True):
    """A round that has begun, and its reader; None where it comes in the API of its prompt."""

    answer: UpstreamAnswer
    reader: Reader | None


class RecallRounds(Protocol):
    """Answers the model's recalls."""

    @property
    def is_accepted(self) -> bool:
        """True if the upstream is at work on the round under way, and so may bill it."""
        ...

    async def open(
        self, request: RecallRequest, finished: UpstreamAnswer, *, has_delivered: bool
    ) -> RecallRound | None:
        """The next round, at its first content; None if the answer ends without one.

        Args:
            finished: The round that recalled.
            has_delivered: True if the caller has some of the answer.

        Raises:
            UpstreamError: If it did not get there.
        """
        ...


class RecalledAnswer:
    """An answer in rounds, as delivery takes it: without calls of the recall tool.

    Attributes:
        first_piece: Up to the first content of the caller's, or all of an answer that is whole.
    """

    def __init__(
        self,
        first: UpstreamAnswer,
        reader: Reader | None,
        rounds: RecallRounds,
        recall_filter: RecallFilter,
    ) -> None:
        """Take over an answer at its first content."""
        self._answer = first
        self._reader: Reader = reader or PassthroughReader()
        self._rounds = rounds
        self._filter = recall_filter
        self._has_ended = self._has_delivered = self._is_between = self._is_over = False
        self.first_piece = b""

    @property
    def exchange(self) -> UpstreamExchange:
        """The exchange of the round under way."""
        return self._answer.exchange

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the round under way."""
        return self._answer.headers

    @property
    def generates(self) -> bool:
        """True if an upstream is at work on it."""
        return self._rounds.is_accepted if self._is_between else self._answer.generates

    @property
    def meter(self) -> Meter:
        """The meter of the round under way; one that saw nothing before it has begun."""
        if self._is_between:
            return Meter(lambda _: None, streamed=self._answer.is_stream)
        return self._answer.meter

    @property
    def is_retrieval(self) -> bool:
        """False: it is generated."""
        return False

    @property
    def is_stream(self) -> bool:
        """True for a stream of events."""
        return self._answer.is_stream

    @property
    def is_whole(self) -> bool:
        """True if the first piece is all of it."""
        return self._answer.is_whole

    @property
    def is_read(self) -> bool:
        """True if it is known already that no piece of a stream follows."""
        return self._answer.is_read

    def switch_timeline(self, timeline: Timeline) -> None:
        """Go on in another timeline, that of the call whose race it won."""
        self._answer.switch_timeline(timeline)

    async def commit(self, _reader: Reader | None = None) -> None:
        """Read up to the first content that is the caller's; recalls before it are answered.

        Raises:
            UpstreamError: If a round did not get there.
        """
        out = self._pass_on(self._answer.first_piece)
        if self._filter.request is not None:
            out += await self._answer_recall(self._filter.request)
        while self.is_stream and not _has_words(out) and (piece := await self.next()):
            out += piece
        self.first_piece = out
        self._has_delivered = True

    async def next(self) -> bytes:
        """The next piece, whole events; b"" at the end.

        Raises:
            UpstreamError: If the connection broke, or a round did not begin.
        """
        while not self._is_over:
            piece = await self._answer.next()
            out = self._pass_on(piece)
            if (request := self._filter.request) is not None and not self._answer.meter.is_broken:
                out += await self._answer_recall(request)
            elif not piece:
                return out
            if out:
                return out
        return b""

    def finish(self) -> bytes:
        """The last parts, once the last round has ended well.

        Raises:
            UpstreamError: If it was not complete.
        """
        return self._pass_on(b"") + self._filter.end()

    def _pass_on(self, piece: bytes) -> bytes:
        """The caller's part of a piece of the round under way; b"" is its end."""
        if piece:
            # a whole answer was translated at its commit point
            return self._filter.feed(
                piece if self.is_whole else translate_piece(self._reader, piece)
            )
        if self._has_ended or self.is_whole:
            return b""
        self._has_ended = True
        return self._filter.feed(self._reader.end())

    async def _answer_recall(self, request: RecallRequest) -> bytes:
        """The caller's part of the rounds that follow, up to one that does not recall by then.

        Raises:
            UpstreamError: If one did not begin.
        """
        out = b""
        while True:
            await self._end_round()
            self._is_between = True
            following = await self._rounds.open(
                request, self._answer, has_delivered=self._has_delivered
            )
            self._is_between = False
            if following is None:
                self._has_ended = self._is_over = True
                return out + self._filter.end()
            self._answer = following.answer
            self._reader = following.reader or PassthroughReader()
            self._has_ended = False
            self._filter = self._filter.next_round()
            out += self._pass_on(self._answer.first_piece)
            # Delivery ends with a round that has ended, so none that recalls is left there.
            if (again := self._filter.request) is None:
                return out
            request = again

    async def _end_round(self) -> None:
        """Read a round that recalled to its end, which tells its usage, and close it."""
        try:
            async with asyncio.timeout(_ROUND_END_WAIT_S):
                while self.is_stream and (piece := await self._answer.next()):
                    self._pass_on(piece)
        except (TimeoutError, UpstreamError):
            pass
        finally:
            self._answer.exchange.close()


class RecalledReader:
    """Reads a recalled answer for its caller, whose API may be another than its prompt's."""

    def __init__(self, answer: RecalledAnswer, caller_reader: Reader | None) -> None:
        self._answer = answer
        self._caller_reader: Reader = caller_reader or PassthroughReader()

    def feed(self, piece: bytes) -> bytes:
        """A piece in the caller's API."""
        return self._caller_reader.feed(piece)

    def end(self) -> bytes:
        """The end of the answer.

        Raises:
            UpstreamError: If the answer was not complete.
        """
        last = self._answer.finish()
        return (self._caller_reader.feed(last) if last else b"") + self._caller_reader.end()


def _has_words(run: bytes) -> bool:
    """True if a run of events holds more than an opening."""
    for event in parse_events(run):
        kind = (parse_object(event.data) or {}).get("type")
        if has_content(kind if isinstance(kind, str) else event.name, event.data):
            return True
    return False
