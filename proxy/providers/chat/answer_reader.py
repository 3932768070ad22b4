"""Reads chat answers, whole or streamed, for writers of other APIs.

A stream that ends without the model's reason and without ``[DONE]`` was cut off. One that cannot go
on says so in its writer's events, because its caller has read the beginning; a whole answer that is
not chat is an upstream's error, and nothing of it is passed on.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, Protocol

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_chunk import Chunk, read_chunk
from proxy.providers.failures import failure_of_object
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import Reader
from proxy.providers.readers import InnerReader
from proxy.providers.sse import parse_blocks
from proxy.providers.stream_endings import malformed_answer, truncated_stream

Event = dict[str, Any]
_DONE: Final = b"[DONE]"


class UnfoldingAnswer(Protocol):
    """One answer of another API while it unfolds; a whole completion unfolds in one piece.

    Attributes:
        answered: True if the upstream has begun to answer.
    """

    answered: bool

    @property
    def has_ended(self) -> bool:
        """True once its last event is written."""
        ...

    @property
    def is_finished(self) -> bool:
        """True if the model has said why it stopped."""
        ...

    def take(self, chunk: Chunk) -> Iterator[Event]:
        """The events of a chunk or of a completion, also of one that holds an error."""
        ...

    def end(self) -> Iterator[Event]:
        """The events of a good end."""
        ...

    def fail(self, error: UpstreamError) -> Iterator[Event]:
        """The events that end an answer which cannot go on."""
        ...

    def whole(self) -> Event:
        """The answer in one piece, once it has ended."""
        ...

    def frame(self, event: Event) -> bytes:
        """An event as bytes."""
        ...

    def ping(self) -> bytes:
        """Stands for an upstream's comment: proxies on the way see that the stream is alive."""
        ...


def answer_reader(inner: Reader, writer: UnfoldingAnswer, *, streamed: bool) -> Reader:
    """A reader that gives the writer's bytes where ``inner`` gives chat bytes."""
    return AnswerStreamReader(inner, writer) if streamed else WholeAnswerReader(inner, writer)


class WholeAnswerReader(InnerReader):
    """A chat completion in one piece as an answer in one piece."""

    def __init__(self, inner: Reader, writer: UnfoldingAnswer) -> None:
        super().__init__(inner)
        self._writer = writer

    def _translate(self, run: bytes) -> bytes:
        if not run:
            return b""
        try:
            answer = read_chunk(run)
        except UNREADABLE:
            raise malformed_answer() from None
        if answer.error is not None:
            raise failure_of_object(answer.error)
        for _ in chain(self._writer.take(answer), _end(self._writer)):
            pass  # the events build the answer
        return msgspec.json.encode(self._writer.whole())


class AnswerStreamReader:
    """Chat chunks as a writer's events; an error has the events that end the stream with it."""

    def __init__(self, inner: Reader, writer: UnfoldingAnswer) -> None:
        self._inner = inner
        self._writer = writer
        self._failure: UpstreamError | None = None

    def feed(self, piece: bytes) -> bytes:
        """The events that these chunks mean; those before a failure are given before it is raised.

        b"" once the stream has ended.
        """
        events = self._read(lambda: self._inner.feed(piece))
        if self._failure is not None and not events:
            raise self._failure
        return events

    def end(self) -> bytes:
        """The events that were still missing at the end."""
        last = self._read(self._inner.end)
        if self._failure is None and not self._writer.has_ended:
            if self._writer.is_finished:
                last += self._frame_all(_end(self._writer))
            else:
                self._fail(truncated_stream())
        if self._failure is not None:
            self._failure.stream_ending = last + self._failure.stream_ending
            raise self._failure
        return last

    def _read(self, read: Callable[[], bytes]) -> bytes:
        """The events of what the inner reader gives; its failure is this one's."""
        if self._failure is not None:
            return b""
        try:
            run = read()
        except UpstreamError as error:
            self._fail(error)
            return b""
        written = []
        for event in parse_blocks(run):
            if self._writer.has_ended or self._failure is not None:
                break
            written.append(
                self._writer.ping() if event is None else self._frame_all(self._events(event.data))
            )
        return b"".join(written)

    def _events(self, data: bytes) -> Iterator[Event]:
        if data == _DONE:
            yield from _end(self._writer)
        elif data:
            yield from self._writer.take(read_chunk(data))

    def _frame_all(self, events: Iterator[Event]) -> bytes:
        """The events as bytes, those before a failure too."""
        frames: list[bytes] = []
        try:
            frames.extend(map(self._writer.frame, events))
        except UpstreamError as error:
            self._fail(error)
        except UNREADABLE:
            self._fail(malformed_answer())
        return b"".join(frames)

    def _fail(self, error: UpstreamError) -> None:
        error.stream_ending = b"".join(map(self._writer.frame, self._writer.fail(error)))
        self._failure = error


def _end(writer: UnfoldingAnswer) -> Iterator[Event]:
    """The end that the upstream calls a good one; it is none if it has not answered."""
    if not writer.answered:
        raise malformed_answer()
    yield from writer.end()
