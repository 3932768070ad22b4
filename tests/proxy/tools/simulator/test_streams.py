"""Tests of what faults do to an answer's steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.simulator.fault_directives import parse_directives
from proxy.tools.simulator.streams import (
    CUT,
    SILENCE,
    StreamEvent,
    StreamFrame,
    StreamOpening,
    StreamStep,
    body,
    drop_usage,
    frame,
    keepalives,
    stream,
    with_usage_as_cued,
    zero_usage,
)

ERROR = StreamFrame(b"data: error\n\n", 0)
FRAMES = [
    StreamFrame(b"data: head\n\n", 0),
    *(StreamFrame(b"data: c%d\n\n" % number, 2) for number in range(5)),
    StreamFrame(b"data: [DONE]\n\n", 0),
]
WHOLE = b"".join(frame.data for frame in FRAMES)


def play(cues: str) -> list[StreamStep]:
    return list(stream(FRAMES, parse_directives(cues), ERROR, 0.0))


def bytes_of(cues: str) -> bytes:
    return b"".join(step.data for step in play(cues))


def events() -> list[StreamEvent]:
    return [
        StreamEvent({"choices": [1]}, tokens=1),
        StreamEvent({"choices": [1], "usage": None}, tokens=1),
        StreamEvent({"choices": [], "usage": {"n": 4, "details": {"m": 2}, "tier": "standard"}}),
        StreamEvent(None),
    ]


def test_an_event_is_its_name_and_its_data() -> None:
    assert frame(StreamEvent({"a": 1}, "start", 3)) == StreamFrame(
        b'event: start\ndata: {"a":1}\n\n', 3
    )
    assert frame(StreamEvent(None)).data == b"data: [DONE]\n\n"


def test_a_sound_stream_is_sent_whole_and_waits_for_each_token() -> None:
    steps = list(stream(FRAMES, parse_directives(""), ERROR, 0.5))

    assert b"".join(step.data for step in steps) == WHOLE
    assert [step.seconds for step in steps if step.kind == "wait"] == [1.0] * 5
    assert sum(step.tokens for step in steps) == 10


@pytest.mark.parametrize(
    ("cues", "count", "last"),
    [
        ("death", 2, CUT),
        ("death=0", 0, CUT),
        ("death=99", 4, CUT),
        ("stall=1", 1, SILENCE),
        ("short=3", 3, None),
    ],
)
def test_a_stream_ends_after_that_many_content_events(
    cues: str, count: int, last: StreamStep | None
) -> None:
    steps = play(cues)

    assert sum(step.tokens > 0 for step in steps) == count
    assert (steps[-1] == last) is (last is not None)


def test_an_error_event_ends_the_stream() -> None:
    assert bytes_of("error-event=1").endswith(b"c0\n\ndata: error\n\n")


def test_a_malformed_event_stands_among_sound_ones() -> None:
    assert bytes_of("malformed=1") == WHOLE.replace(b"data: c1", b"data:")


def test_two_events_without_a_blank_line_run_together() -> None:
    assert bytes_of("no-blank-line=1") == WHOLE.replace(b"c1\n\n", b"c1\n")


def test_the_closing_marker_can_be_left_out() -> None:
    assert bytes_of("no-done") == WHOLE.removesuffix(b"data: [DONE]\n\n")


def test_lines_can_end_in_two_characters() -> None:
    assert bytes_of("crlf") == WHOLE.replace(b"\n", b"\r\n")


@given(seed=st.integers(0, 1000))
def test_a_split_stream_is_the_same_bytes_in_pieces_of_one_to_seven(seed: int) -> None:
    pieces = [step.data for step in play(f"split={seed}")]

    assert b"".join(pieces) == WHOLE
    assert {len(piece) for piece in pieces} <= set(range(1, 8))
    assert sum(step.tokens for step in play(f"split={seed}")) == 10


def test_a_stream_without_content_ends_at_its_start() -> None:
    assert list(stream(FRAMES[:1], parse_directives("death"), ERROR, 0)) == [CUT]


@pytest.mark.parametrize(
    ("cues", "data", "last"),
    [("", b"abcdef", None), ("death", b"abc", CUT), ("stall", b"abc", SILENCE)],
)
def test_a_json_answer_breaks_in_its_middle(
    cues: str, data: bytes, last: StreamStep | None
) -> None:
    steps = list(body(b"abcdef", parse_directives(cues)))

    assert b"".join(step.data for step in steps) == data
    assert last in (None, steps[-1])


def test_a_json_answer_can_be_split() -> None:
    assert len(list(body(b"a" * 50, parse_directives("split")))) >= 8


def test_keep_alives_come_after_a_pause_each() -> None:
    endless = keepalives(b":\n", None, 2.0)

    assert [next(endless) for _ in range(5)][1::2] == [StreamStep("send", b":\n")] * 2
    assert [step.kind for step in keepalives(b":\n", 2, 2.0)] == ["wait", "send"] * 2


def test_usage_is_told_as_it_is() -> None:
    assert with_usage_as_cued(events(), parse_directives(""), StreamEvent({})) == events()


def test_usage_can_be_left_out_with_the_event_that_was_only_for_it() -> None:
    streamed = with_usage_as_cued(events(), parse_directives("no-usage"), StreamEvent({}))

    assert [event.payload for event in streamed] == [
        {"choices": [1]},
        {"choices": [1], "usage": None},
        None,
    ]


def test_usage_can_be_left_out_of_an_event_that_says_more() -> None:
    source_events = [StreamEvent({"message": {"id": "m", "usage": {"n": 1}}})]

    assert with_usage_as_cued(source_events, parse_directives("no-usage"), StreamEvent({}))[
        0
    ].payload == {"message": {"id": "m"}}


def test_usage_can_be_told_twice() -> None:
    streamed = with_usage_as_cued(events(), parse_directives("double-usage"), StreamEvent({}))

    assert streamed == [*events()[:3], events()[2], StreamEvent(None)]


def test_usage_that_is_never_told_cannot_be_told_twice() -> None:
    source_events = [StreamEvent({"a": 1}), StreamEvent(None)]

    assert (
        with_usage_as_cued(source_events, parse_directives("double-usage"), StreamEvent({}))
        == source_events
    )


def test_usage_can_be_told_in_the_middle_as_well() -> None:
    midway = StreamEvent({"usage": {"n": 2}})

    assert with_usage_as_cued(events(), parse_directives("early-usage"), midway)[1] == midway
    assert with_usage_as_cued([StreamEvent(None)], parse_directives("early-usage"), midway) == [
        StreamEvent(None),
        midway,
    ]


def test_usage_can_be_nothing_at_all() -> None:
    streamed = with_usage_as_cued(events(), parse_directives("zero-usage"), StreamEvent({}))

    assert streamed[2].payload == {
        "choices": [],
        "usage": {"n": 0, "details": {"m": 0}, "tier": "standard"},
    }


def test_usage_is_found_at_the_top_in_the_message_and_in_the_response() -> None:
    payload = {"usage": {"a": 1}, "message": {"usage": {"b": 1}}, "response": {"usage": {"c": 1}}}
    zero_usage(payload)

    assert payload == {
        "usage": {"a": 0},
        "message": {"usage": {"b": 0}},
        "response": {"usage": {"c": 0}},
    }
    drop_usage(payload)
    assert payload == {"message": {}, "response": {}}
    drop_usage(None)


PAUSE = StreamStep("wait", seconds=9.0)


def play_after_opening(cues: str) -> list[StreamStep]:
    return list(stream(FRAMES, parse_directives(cues), ERROR, 0.0, StreamOpening(1, [PAUSE])))


def test_a_stream_opens_at_once_and_pauses_before_its_content() -> None:
    head, pause, first, *_ = play_after_opening("")

    assert (head.data, pause, first.data) == (FRAMES[0].data, PAUSE, FRAMES[1].data)


def test_an_error_can_come_right_after_the_opening() -> None:
    assert [step.data for step in play_after_opening("opening-error")] == [
        FRAMES[0].data,
        ERROR.data,
    ]
