"""Chat answers, whole or streamed, as Responses answers; around whatever reader makes the chat.

A stream that ends without the model's reason and without ``[DONE]`` was cut off. A stream that
cannot go on says so in its events, because its caller has read the beginning; a whole answer that
is not chat is an upstream's error, and nothing of it is passed on.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import msgspec

from proxy.errors import ProxyError, UpstreamError
from proxy.providers.chat.chat_chunk import read_chunk
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import Reader
from proxy.providers.readers import InnerReader
from proxy.providers.responses.items import Event
from proxy.providers.responses.stream import ResponseStream
from proxy.providers.sse import parse_events
from proxy.providers.stream_endings import malformed_answer, truncated_stream

#: Replacement for a run of comments: proxies on the way see that the stream is alive.
_AWAKE: Final = b": ping\n\n"


def responses_reader(inner: Reader, body: bytes, streamed: bool, created: float) -> Reader:  # noqa: FBT001  # the port's callers name it
    """A reader that gives Responses bytes where ``inner`` gives chat bytes.

    Args:
        body: The caller's own Responses body, which ``chat_body`` has accepted.
        created: Arrival of the call, in seconds since the epoch.
    """
    unfolding = ResponseStream(body, created)
    return StreamReader(inner, unfolding) if streamed else AnswerReader(inner, unfolding)


class AnswerReader(InnerReader):
    """A chat completion in one piece as a response in one piece."""

    def __init__(self, inner: Reader, unfolding: ResponseStream) -> None:
        super().__init__(inner)
        self._unfolding = unfolding

    def _translate(self, run: bytes) -> bytes:
        if not run:
            return b""
        for _ in chain(_take_chunk(self._unfolding, run), _end_events(self._unfolding)):
            pass  # the events build the response
        response = self._unfolding.response or {}
        if response["error"] is not None:
            raise malformed_answer()
        return msgspec.json.encode(response)


class StreamReader:
    """Chat chunks as Responses events, numbered from 0.

    Errors that it raises have the events for the caller with them, since those are numbered, too.
    """

    def __init__(self, inner: Reader, unfolding: ResponseStream) -> None:
        self._inner = inner
        self._unfolding = unfolding
        self._number = 0
        self._failure: UpstreamError | None = None

    def feed(self, piece: bytes) -> bytes:
        """The events that these chunks mean."""
        events = self._read_on(lambda: self._inner.feed(piece))
        if self._failure is not None and not events:
            raise self._failure
        return events

    def end(self) -> bytes:
        """The events that were still missing at the end."""
        last = self._read_on(self._inner.end)
        if self._failure is None and self._unfolding.is_finished:
            last += self._read_events(self._unfolding.end())
        if self._failure is None and self._unfolding.response is None:
            self._fail(truncated_stream())
        if self._failure is not None:
            self._failure.stream_ending = last + self._failure.stream_ending
            raise self._failure
        return last

    def _read_on(self, read: Callable[[], bytes]) -> bytes:
        """The events of what the inner reader gives; its failure is this one's."""
        if self._failure is not None:
            return b""
        try:
            run = read()
        except UpstreamError as error:
            self._fail(error)
            return b""
        events = list(parse_events(run))
        if run and not events:
            return _AWAKE
        chunks = (_chunk_events(self._unfolding, event.data) for event in events if event.data)
        return b"".join(map(self._read_events, chunks))

    def _read_events(self, events: Iterator[Event]) -> bytes:
        """Those before a failure; none after it."""
        frames: list[bytes] = []
        if self._failure is not None:
            return b""
        try:
            frames.extend(map(self._frame, events))
        except UpstreamError as error:
            self._fail(error)
        return b"".join(frames)

    def _fail(self, error: UpstreamError) -> None:
        events = self._unfolding.fail(_error_fields(error))
        error.stream_ending = b"".join(map(self._frame, events))
        self._failure = error

    def _frame(self, event: Event) -> bytes:
        numbered = msgspec.json.encode(event | {"sequence_number": self._number})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), numbered)


def _chunk_events(unfolding: ResponseStream, data: bytes) -> Iterator[Event]:
    """The events of a chunk, or of the end."""
    return _end_events(unfolding) if data == b"[DONE]" else _take_chunk(unfolding, data)


def _take_chunk(unfolding: ResponseStream, data: bytes) -> Iterator[Event]:
    try:
        read = read_chunk(data)
    except UNREADABLE:
        raise malformed_answer() from None
    yield from unfolding.take(read)


def _end_events(unfolding: ResponseStream) -> Iterator[Event]:
    """The end that the upstream calls a good one; it is none if it has not answered."""
    if not unfolding.answered and unfolding.response is None:
        raise malformed_answer()
    yield from unfolding.end()


def _error_fields(error: ProxyError) -> dict[str, str]:
    """The error as chat's error object."""
    return {"message": error.message, "code": error.code}
