"""Chat answers, whole or streamed, as the readers of both other APIs take them."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.providers.messages.reader import messages_reader
from proxy.providers.port import Reader
from proxy.providers.readers import PassthroughReader
from proxy.providers.responses.reader import responses_reader
from proxy.providers.sse import EventFramer, parse_events
from proxy.providers.stream_endings import malformed_answer
from tests.fakes.messages_calls import chat_stream, chunk, completion, part, settings

MakeReader = Callable[..., Reader]
READERS: list[MakeReader] = [
    partial(messages_reader, settings=settings()),
    partial(responses_reader, body=b'{"model":"m","input":"Hi"}', created=1.0),
]
DONE = b"data: [DONE]\n\n"
STREAM = chat_stream(
    b": keep-alive\n\n",
    chunk(role="assistant", content=""),
    b": keep-alive\n\n: keep-alive\n\n",
    chunk(content="H\u00e9"),
    b"data:\n\n",
    chunk(content="llo \U0001f389"),
    chunk(tool_calls=[part(0, '{"a":1}', name="weather", id="c:0")]),
    chunk("tool_calls"),
    usage={"prompt_tokens": 9, "completion_tokens": 4},
)
each_reader = pytest.mark.parametrize("make", READERS)


def names(run: bytes) -> list[str]:
    return [event.name for event in parse_events(run)]


def read(make: MakeReader, *runs: bytes, streamed: bool = True) -> bytes:
    reader = make(PassthroughReader(), streamed=streamed)
    return b"".join(map(reader.feed, runs)) + reader.end()


@each_reader
@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
def test_any_chunking_of_a_stream_gives_the_same_bytes(make: MakeReader, cuts: list[int]) -> None:
    frames = EventFramer()
    pieces = [STREAM[a:b] for a, b in pairwise([0, *sorted(cuts), len(STREAM)])]

    assert read(make, *filter(None, map(frames.feed, pieces))) == read(make, STREAM)


@each_reader
@pytest.mark.parametrize(
    "run",
    [
        chat_stream(chunk(content="Hi")).removesuffix(DONE),
        b"",
        b": keep-alive\n\n",
        chat_stream(),
        chat_stream(chunk(content="Hi"), b"data: <html>\n\n"),
        chat_stream(chunk(content="Hi"), b"data: \xff\n\n"),
        chat_stream(chunk(tool_calls=[part(0, "{}")]), chunk("stop")),
    ],
)
def test_a_stream_that_is_cut_or_none_ends_with_an_error_event(
    make: MakeReader, run: bytes
) -> None:
    with pytest.raises(UpstreamError) as caught:
        read(make, run)

    assert "error" in names(caught.value.stream_ending)


@each_reader
def test_chunks_before_an_unreadable_one_are_given_before_its_error(make: MakeReader) -> None:
    reader = make(PassthroughReader(), streamed=True)

    assert reader.feed(chat_stream(chunk(content="Hi"), b"data: <html>\n\n"))
    with pytest.raises(UpstreamError):
        reader.feed(chat_stream(chunk(content="no")))


@each_reader
def test_a_failure_of_the_inner_reader_has_the_callers_error_event(make: MakeReader) -> None:
    class FailingReader(PassthroughReader):
        def feed(self, piece: bytes) -> bytes:
            raise malformed_answer()

    with pytest.raises(UpstreamError) as caught:
        make(FailingReader(), streamed=True).feed(STREAM)

    assert "error" in names(caught.value.stream_ending)


@each_reader
def test_a_stream_with_a_reason_but_no_end_is_ended(make: MakeReader) -> None:
    run = chat_stream(chunk(content="Hi"), chunk("stop"))

    assert read(make, run.removesuffix(DONE)) == read(make, run)


@each_reader
def test_nothing_follows_the_end_of_a_stream(make: MakeReader) -> None:
    run = chat_stream(chunk(content="Hi"), chunk("stop"))

    assert read(make, run, STREAM) == read(make, run)


@each_reader
@pytest.mark.parametrize(
    "body",
    [b"<html>", b"5", b"{}", b'{"choices":[]}', b'{"error":{"message":"no"}}', b'{"choices":7}'],
)
def test_a_body_that_is_no_completion_is_the_upstreams_error(make: MakeReader, body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        read(make, body, streamed=False)

    assert (caught.value.status, caught.value.retryable) == (502, True)


@each_reader
def test_a_whole_answer_may_come_only_at_the_end(make: MakeReader) -> None:
    class LateReader(PassthroughReader):
        def feed(self, piece: bytes) -> bytes:
            return b""

        def end(self) -> bytes:
            return completion(content="Hi")

    reader = make(LateReader(), streamed=False)

    assert reader.feed(b"{}") == b""
    assert orjson.loads(reader.end())
