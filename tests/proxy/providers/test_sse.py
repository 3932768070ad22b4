"""Server-sent events, cut anywhere."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.sse import (
    EventFramer,
    ServerSentEvent,
    begins_stream,
    is_idle,
    parse_events,
)

_LINES = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data",
        b"event: a",
        b"event:b",
        b": ping",
        b"id: 1",
        b"odd",
        b"",
        b"",
    ]
)
_STREAMS = st.lists(st.tuples(_LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def _split_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def _plain(stream: bytes) -> list[ServerSentEvent]:
    """The same rules, read slowly: line by line, as the standard tells them."""
    events_read: list[ServerSentEvent] = []
    name = ""
    values: list[bytes] = []
    lines = re.split(rb"\r\n|\n|\r", stream)
    for line in lines[:-1]:
        field, _, value = line.partition(b":")
        if not line:
            if values:
                events_read.append(ServerSentEvent(name, b"\n".join(values)))
            name, values = "", []
        elif field == b"data":
            values.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode()
    return events_read


@given(_STREAMS, st.lists(st.integers(0, 10_000)))
def test_any_chunking_gives_the_same_bytes_and_the_same_events(
    stream: bytes, cuts: list[int]
) -> None:
    frames = EventFramer()
    runs = [frames.feed(chunk) for chunk in _split_at(stream, cuts)]

    # A CR after CR LF waits for its own LF, so it ends no line yet.
    complete = stream[:-1] if stream.endswith(b"\r\n\r") else stream
    assert b"".join(runs) + frames.unfinished_event() == stream
    assert [event for run in runs for event in parse_events(run)] == _plain(complete)


@given(_STREAMS, st.lists(st.integers(0, 10_000)), st.integers(0, 20))
def test_an_event_longer_than_the_bound_loses_no_byte(
    stream: bytes, cuts: list[int], bound: int
) -> None:
    frames = EventFramer(bound)
    runs = []
    for chunk in _split_at(stream, cuts):
        runs.append(frames.feed(chunk))
        assert len(frames.unfinished_event()) <= bound + len(chunk)

    assert b"".join(runs) + frames.unfinished_event() == stream


def test_a_whole_event_on_its_own_is_not_even_copied() -> None:
    chunk = b"data: {}\n\n"

    assert EventFramer().feed(chunk) is chunk


def test_an_unfinished_event_waits_for_its_blank_line() -> None:
    frames = EventFramer()

    assert frames.feed(b"data: 1\n\ndata: 2") == b"data: 1\n\n"
    assert frames.unfinished_event() == b"data: 2"
    assert frames.feed(b"\n") == b""
    assert frames.feed(b"\n") == b"data: 2\n\n"
    assert frames.unfinished_event() == b""


def test_an_event_over_the_bound_is_passed_on_as_it_is() -> None:
    frames = EventFramer(4)

    assert frames.feed(b"data") == b""
    assert frames.feed(b": 1") == b"data: 1"
    assert frames.feed(b"\n\n") == b"\n\n"


def test_a_line_feed_parted_from_its_carriage_return_is_waited_for() -> None:
    frames = EventFramer()

    assert frames.feed(b"data: 1\r\n\r") == b""
    assert frames.feed(b"\n") == b"data: 1\r\n\r\n"
    assert frames.unfinished_event() == b""


def test_a_line_feed_that_never_comes_loses_nothing() -> None:
    frames = EventFramer()

    assert frames.feed(b"data: 1\r\n\r") == b""
    assert frames.unfinished_event() == b"data: 1\r\n\r"


def test_where_lines_end_in_a_carriage_return_no_line_feed_is_waited_for() -> None:
    frames = EventFramer()

    assert frames.feed(b"data: 1\r") == b""
    assert frames.feed(b"\r") == b"data: 1\r\r"
    assert frames.feed(b"data: 2\n\r") == b"data: 2\n\r"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (b"data: a\ndata: b\n\n", [ServerSentEvent("", b"a\nb")]),
        (b"data\n\n", [ServerSentEvent("", b"")]),
        (b"data:  two\n\n", [ServerSentEvent("", b" two")]),
        (b"event: x\n\n", []),
        (b": comment\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerSentEvent("", b"a")]),
        (b"event: caf\xff\ndata: a\n\n", [ServerSentEvent("caf\ufffd", b"a")]),
        (b"data: [DONE]", [ServerSentEvent("", b"[DONE]")]),
    ],
)
def test_fields_are_read_as_the_standard_says(run: bytes, expected: list[ServerSentEvent]) -> None:
    assert list(parse_events(run)) == expected


@pytest.mark.parametrize(
    ("run", "idle"),
    [
        (b": keep-alive\n\n", True),
        (b'event: ping\ndata: {"type": "ping"}\n\n', True),
        (b'data: {"choices":[]}\n\n', False),
        (b'data: {"text":"' + b"ping " * 40 + b'"}\n\n', False),
    ],
)
def test_keep_alive_comments_are_idle(run, idle):
    assert is_idle(run) is idle


@pytest.mark.parametrize(
    ("head", "is_stream"),
    [
        (b"data: {}", True),
        (b"event:x", True),
        (b"id:1", True),
        (b"retry: 9", True),
        (b": ping", True),
        (b"\xef\xbb\xbfdata:", True),
        (b"\r\n \ndata:", True),
        (b'{"data":1}', False),
        (b"\xef\xbb\xbf{", False),
        (b"<html>", False),
        (b"\xffdata:", False),
        (b"database", False),
    ],
)
def test_a_stream_is_reported_by_its_first_bytes_and_never_by_fewer(head, is_stream):
    decisions = [begins_stream(head[:end]) for end in range(len(head) + 1)]

    assert decisions[-1] is is_stream
    assert set(decisions[: decisions.index(is_stream)]) == {None}
    assert set(decisions[decisions.index(is_stream) :]) == {is_stream}
