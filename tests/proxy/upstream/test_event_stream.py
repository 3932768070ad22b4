"""AWS's event streams, read as the server-sent events of Anthropic's API."""

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.upstream.event_stream import EventStreamDecoder, EventStreamExchange
from tests.fakes.cloud_upstreams import chunk_frame, exception_frame, frame

START = b'{"type":"message_start","message":{}}'
STOP = b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9}}'
STREAM = chunk_frame(START) + chunk_frame(b'{"type":"ping"}') + chunk_frame(STOP)
READ = (
    b"event: message_start\ndata: " + START + b"\n\n"
    b'event: ping\ndata: {"type":"ping"}\n\n'
    b"event: message_stop\ndata: " + STOP + b"\n\n"
)


def read(*pieces: bytes) -> bytes:
    decoder = EventStreamDecoder()
    return b"".join(map(decoder.feed, pieces))


def error_of(run: bytes) -> dict[str, str]:
    assert run.startswith(b"event: error\ndata: ")
    document = json.loads(run.partition(b"data: ")[2])
    assert document["type"] == "error"
    return dict(document["error"])


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_any_chunking_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    assert read(*(STREAM[a:b] for a, b in pairwise(edges))) == READ


def test_an_event_comes_out_as_soon_as_its_frame_is_whole() -> None:
    decoder, first = EventStreamDecoder(), chunk_frame(START)

    assert decoder.feed(first[:-1]) == b""
    assert decoder.feed(first[-1:]).startswith(b"event: message_start\n")


@pytest.mark.parametrize(
    ("kind", "payload", "event"),
    [
        ("throttlingException", {"message": "Slow down."}, "rate_limit_error"),
        ("serviceUnavailableException", {"message": "Down."}, "overloaded_error"),
        ("modelTimeoutException", {"message": "Late."}, "timeout_error"),
        ("internalServerException", {"message": "Oh."}, "api_error"),
        ("validationException", {"message": "Wrong."}, "invalid_request_error"),
        (
            "modelStreamErrorException",
            {"message": "Failed.", "originalStatusCode": 429, "originalMessage": "m"},
            "rate_limit_error",
        ),
        ("modelStreamErrorException", {"originalMessage": "Failed."}, "api_error"),
    ],
)
def test_an_exception_is_an_error_event_of_anthropics_type(kind, payload, event) -> None:
    error = error_of(read(exception_frame(kind, **payload)))

    assert error == {"type": event, "message": payload.get("message") or payload["originalMessage"]}


def test_an_exception_that_cannot_be_read_is_an_error_event_too() -> None:
    headers = {":exception-type": "throttlingException", ":message-type": "exception"}

    assert error_of(read(frame(headers, b"<oh>")))["type"] == "rate_limit_error"


def test_an_error_message_is_told_by_its_headers_without_secrets() -> None:
    headers = {
        ":message-type": "error",
        ":error-code": "InternalServerException",
        ":error-message": "No key AKIAABCDEFGHIJKLMNOP.",
    }

    assert error_of(read(frame(headers, b""))) == {
        "type": "api_error",
        "message": "No key [redacted].",
    }


def test_frames_that_are_no_events_say_nothing() -> None:
    headers = {":event-type": "initial-response", ":message-type": "event"}

    assert read(frame(headers, b"{}"), STREAM) == b": ignored\n\n" + READ


def test_line_ends_between_members_do_not_end_the_event() -> None:
    assert read(chunk_frame(b'{"type":\n"ping",\r\n"x":"\\n"}')) == (
        b'event: ping\ndata: {"type": "ping",  "x":"\\n"}\n\n'
    )


@pytest.mark.parametrize(
    "damaged",
    [
        STREAM[:-1] + bytes([STREAM[-1] ^ 1]),
        STREAM[:10] + bytes([STREAM[10] ^ 1]) + STREAM[11:],
        STREAM[:40] + bytes([STREAM[40] ^ 1]) + STREAM[41:],
        b"HTTP/1.1 200 OK\r\n\r\n",
        frame({":event-type": "chunk", ":message-type": "event"}, b"no json"),
        frame({":event-type": "chunk", ":message-type": "event"}, b'{"bytes":"!"}'),
    ],
)
def test_a_damaged_frame_is_no_answer_and_not_asked_for_again(damaged: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        read(damaged)

    assert (caught.value.code, caught.value.retryable) == ("upstream_malformed", False)


class ExchangeOfPieces:
    """An exchange whose body is these pieces."""

    status = 200

    def __init__(self, *pieces: bytes) -> None:
        self.headers: Mapping[str, str] = {
            "content-type": "application/vnd.amazon.eventstream",
            "x": "y",
        }
        self.pieces = [*pieces, b""]
        self.is_closed = False

    @property
    def is_read(self) -> bool:
        return not any(self.pieces)

    async def read(self) -> bytes:
        return self.pieces.pop(0)

    async def read_all(self, limit: int) -> bytes:
        return b"".join(self.pieces)

    def close(self) -> None:
        self.is_closed = True


def test_an_exchange_reads_events_and_is_called_what_it_is() -> None:
    inner = ExchangeOfPieces(STREAM[:7], STREAM[7:])
    exchange = EventStreamExchange(inner)

    async def work() -> list[bytes]:
        return [await exchange.read(), await exchange.read()]

    assert not exchange.is_read
    assert asyncio.run(work()) == [READ, b""]
    assert exchange.is_read
    assert (exchange.status, exchange.headers["x"]) == (200, "y")
    assert exchange.headers["content-type"] == "text/event-stream"
    exchange.close()
    assert inner.is_closed


def test_an_exchange_is_read_whole() -> None:
    assert asyncio.run(EventStreamExchange(ExchangeOfPieces(STREAM)).read_all(1 << 20)) == READ
