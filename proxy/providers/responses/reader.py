"""Chat answers, whole or streamed, as Responses answers; around whatever reader makes the chat.

A stream that ends without the model's reason and without ``[DONE]`` was cut off. A stream that
cannot go on says so in its events, because its caller has read the beginning; a whole answer that
is not chat is an upstream's error, and nothing of it is passed on.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from proxy.errors import ProxyError
from proxy.providers.port import Reader
from proxy.providers.responses.chunk import chunk
from proxy.providers.responses.items import Event
from proxy.providers.responses.stream import ResponseStream
from proxy.providers.sse import parse_events
from proxy.providers.stream_endings import malformed_answer, truncated_stream

#: Replacement for a run of comments: proxies on the way see that the stream is alive.
_AWAKE: Final = b": ping\n\n"


def responses_reader(inner: Reader, body: bytes, streamed: bool, created: float) -> Reader:  # noqa: FBT001  # the port's callers name it
    """A reader that gives Responses bytes where ``inner`` gives chat bytes.

    Args:
        inner: Turns the upstream's bytes into chat's.
        body: The caller's own Responses body, which ``chat_body`` has accepted.
        streamed: True if the caller asked for a stream.
        created: Arrival of the call, in seconds since the epoch.
    """
    unfolding = ResponseStream(body, created)
    return StreamReader(inner, unfolding) if streamed else AnswerReader(inner, unfolding)


class AnswerReader:
    """A chat completion in one piece as a response in one piece."""

    def __init__(self, inner: Reader, unfolding: ResponseStream) -> None:
        self._inner = inner
        self._unfolding = unfolding

    def feed(self, piece: bytes) -> bytes:
        """The response, once the completion is there.

        Raises:
            UpstreamError: If it is none.
        """
        return self._read(self._inner.feed(piece))

    def end(self) -> bytes:
        """The response, if the completion came only now.

        Raises:
            UpstreamError: If it is none.
        """
        return self._read(self._inner.end())

    def _read(self, completion: bytes) -> bytes:
        if not completion:
            return b""
        for _ in chain(_take_chunk(self._unfolding, completion), _end_events(self._unfolding)):
            pass  # the events build the response
        response = self._unfolding.response or {}
        if response["error"] is not None:
            raise malformed_answer()
        return msgspec.json.encode(response)


class StreamReader:
    """Chat chunks as Responses events, numbered from 0."""

    def __init__(self, inner: Reader, unfolding: ResponseStream) -> None:
        self._inner = inner
        self._unfolding = unfolding
        self._number = 0

    def feed(self, piece: bytes) -> bytes:
        """The events that these chunks mean."""
        return self._read(self._inner.feed(piece))

    def end(self) -> bytes:
        """The events that were still missing at the end."""
        last = self._read(self._inner.end())
        unfolding = self._unfolding
        ending = (
            unfolding.end()
            if unfolding.is_finished
            else unfolding.fail(_error_fields(truncated_stream()))
        )
        return last + self._frame_all(ending)

    def _read(self, run: bytes) -> bytes:
        found = list(parse_events(run))
        if run and not found:
            return _AWAKE
        return b"".join(
            self._frame_all(self._events_of_chunk(event.data)) for event in found if event.data
        )

    def _events_of_chunk(self, said: bytes) -> Iterator[Event]:
        return (
            _end_events(self._unfolding)
            if said == b"[DONE]"
            else _take_chunk(self._unfolding, said)
        )

    def _frame_all(self, meant: Iterator[Event]) -> bytes:
        return b"".join(map(self._frame, meant))

    def _frame(self, event: Event) -> bytes:
        numbered = msgspec.json.encode(event | {"sequence_number": self._number})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), numbered)


def _take_chunk(unfolding: ResponseStream, said: bytes) -> Iterator[Event]:
    try:
        read = chunk(said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return unfolding.fail(_error_fields(malformed_answer()))
    return unfolding.take(read)


def _end_events(unfolding: ResponseStream) -> Iterator[Event]:
    """The end that the upstream calls a good one; it is none if it has not answered."""
    if unfolding.answered:
        yield from unfolding.end()
    else:
        yield from unfolding.fail(_error_fields(malformed_answer()))


def _error_fields(error: ProxyError) -> dict[str, str]:
    """The error as chat's error object."""
    return {"message": error.message, "code": error.code}
