"""Tests of how an answer begins, what it says and how it ends."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.metering.metering import Meter
from proxy.providers.answers.usage import openai_usage
from proxy.providers.gemini.usage import gemini_usage
from proxy.providers.sse import EventFramer
from slo.usage import Usage
from tests.fakes.answers import metered_answer
from tests.fakes.gemini_answers import USAGE as GOOGLE_USAGE
from tests.fakes.gemini_answers import answer, event_stream
from tests.fakes.streams import (
    CHAT,
    DONE,
    MESSAGES,
    RESPONSES,
    chat_usage,
    chunk,
    event,
    meter_of,
    named_event,
    usages,
)


@pytest.mark.parametrize(("stream", "name"), [(CHAT, "chatcmpl-1"), (RESPONSES, "resp_1")])
def test_a_stream_is_read_to_its_end(stream: list[bytes], name: str) -> None:
    meter = meter_of(*stream)

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.has_begun, meter.is_finished, meter.is_broken) == (True, True, False)
    assert meter.upstream_id == name
    assert meter.delivered_text() == "Hello"
    assert not meter.has_implausible_usage


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_a_stream_that_is_cut_is_not_finished(stream: list[bytes]) -> None:
    meter = meter_of(*stream[:-2])

    assert (meter.has_begun, meter.is_finished, meter.is_broken) == (True, False, False)
    assert meter.delivered_text() == "Hello"


def test_pings_and_comments_do_not_begin_an_answer() -> None:
    meter = meter_of(
        b": keep-alive\n\n", named_event("ping"), b"event: ping\ndata: {}\n\n", b"\n\n"
    )

    assert not meter.has_begun
    meter.feed(CHAT[1])
    assert meter.has_begun


def test_an_error_before_anything_else_begins_nothing() -> None:
    meter = meter_of(event({"error": {"message": "Overloaded"}}))

    assert (meter.has_begun, meter.is_broken, meter.upstream_id) == (False, True, "")


@pytest.mark.parametrize(
    "run",
    [
        event({"error": {"message": "Overloaded"}}),
        event({"error": "Overloaded"}),
        event({"message": "Overloaded", "code": "x"}, "error"),
        event({"type": "overloaded", "code": "x"}, "error"),
        b"event: error\ndata: Overloaded\n\n",
        named_event("error", error={"type": "overloaded_error"}),
        named_event("error", message="Overloaded", code=None),
    ],
)
@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_an_error_midway_breaks_the_answer(stream: list[bytes], run: bytes) -> None:
    assert meter_of(*stream[:2], run).is_broken
    assert not meter_of(*stream).is_broken


@pytest.mark.parametrize("kind", ["response.incomplete", "response.failed"])
def test_a_response_that_is_not_completed_has_ended_all_the_same(kind: str) -> None:
    usage = {"input_tokens": 9, "output_tokens": 1}
    meter = meter_of(*RESPONSES[:2], named_event(kind, response={"usage": usage}))

    assert meter.is_finished
    assert meter.is_broken == (kind == "response.failed")
    assert meter.usage == Usage(input=9, output=1)


@pytest.mark.parametrize(
    ("wrong", "billed"),
    [
        (named_event("response.failed", response={"id": "r", "usage": {"input_tokens": 9}}), True),
        (event({"id": "r", "error": {"message": "no"}, "usage": chat_usage(9, 1)}), True),
        (event({"id": "r", "error": {"message": "no"}, "usage": None}), False),
    ],
)
def test_a_failure_may_say_what_was_used_and_of_which_answer(wrong: bytes, *, billed: bool) -> None:
    meter = meter_of(wrong)

    assert (meter.is_broken, meter.has_final_usage, meter.upstream_id) == (True, billed, "r")
    assert (meter.usage is not None) == billed


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("before", [1, 3])
def test_chunks_after_an_error_are_not_metered(stream: list[bytes], before: int) -> None:
    events = [*stream[:before], event({"error": {"message": "no"}}), *stream[before:], DONE]
    until = meter_of(*stream[:before])

    for meter in (meter_of(*events), meter_of(b"".join(events))):
        assert (meter.has_begun, meter.usage) == (until.has_begun, until.usage)
        assert (meter.is_broken, meter.is_finished) == (True, False)


def test_a_transcription_ends_with_its_last_event() -> None:
    meter = meter_of(
        named_event("transcript.text.delta", delta="Hi"),
        named_event("transcript.text.done", text="Hi"),
    )

    assert meter.is_finished
    assert meter.delivered_text() == "Hi"


def test_an_id_that_never_comes_is_not_looked_for_for_ever() -> None:
    nameless = event({"choices": []})
    meter = meter_of(nameless, nameless, event({"id": "late", "choices": []}))

    assert meter.upstream_id == "late"
    assert meter_of(*[nameless] * 8, event({"id": "too late", "choices": []})).upstream_id == ""


@pytest.mark.parametrize("name", [7, "", None, {"a": 1}])
def test_an_id_that_is_no_name_is_none(name: object) -> None:
    assert meter_of(event({"id": name, "message": "odd", "response": 3})).upstream_id == ""


def test_usage_beyond_the_bound_of_kept_text_is_read() -> None:
    meter = meter_of(*CHAT, bound=len(CHAT[0]) + len(CHAT[1]))

    assert meter.delivered_text() == "Hel"
    assert meter.usage == Usage(input=9, output=2)


def test_a_json_answer_is_a_stream_of_one_piece() -> None:
    message = {"role": "assistant", "content": "Hello", "usage": chat_usage(1, 1)}
    meter = metered_answer(
        orjson.dumps(
            {
                "id": "chatcmpl-1",
                "choices": [{"index": 0, "message": message}],
                "usage": chat_usage(9, 2),
            }
        )
    )

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.has_begun, meter.is_finished, meter.is_broken) == (True, True, False)
    assert meter.upstream_id == "chatcmpl-1"
    assert meter.delivered_text() == "Hello"


def test_a_json_answer_that_is_an_error_is_broken() -> None:
    meter = metered_answer(b'{"error":{"message":"Overloaded"}}')

    assert (meter.has_begun, meter.is_finished, meter.is_broken) == (False, False, True)


@pytest.mark.parametrize("body", [b"[]", b"RIFF\x00\xff", b'{"object":"list","data":[]}'])
def test_an_answer_without_usage_is_finished_all_the_same(body: bytes) -> None:
    meter = metered_answer(body)

    assert meter.usage is None
    assert meter.is_finished


def state_of(meter: Meter) -> tuple[object, ...]:
    return (
        meter.usage,
        meter.has_implausible_usage,
        meter.has_begun,
        meter.is_finished,
        meter.is_broken,
        meter.upstream_id,
        meter.delivered_text(),
    )


pieces = st.sampled_from(
    ["Hi ", "usage", '{"usage":{"prompt_tokens":1}}', "[DONE]", "error", "\n\n", "é", ""]
)
oddities = st.sampled_from(
    [
        b": ping\n\n",
        named_event("ping"),
        b"data: {\n\n",
        event({"error": {"code": 1}}),
        event([1]),
        DONE,
    ]
)
chats = st.lists(st.builds(chunk, pieces, usage=usages) | oddities, max_size=12)
streams = (chats | st.sampled_from([CHAT, RESPONSES, MESSAGES])).map(b"".join)


@given(stream=streams, cuts=st.lists(st.integers(0, 2000)), crlf=st.booleans())
def test_any_chunking_is_metered_the_same(stream: bytes, cuts: list[int], crlf: bool) -> None:  # noqa: FBT001 - Hypothesis names it
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    frames, meter = EventFramer(), Meter(openai_usage, streamed=True)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in pairwise(edges):
        if run := frames.feed(stream[start:end]):
            meter.feed(run)

    assert state_of(meter) == state_of(meter_of(stream))


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("position", [1, 2, -2, -1])
def test_a_long_run_is_metered_like_its_events(stream: list[bytes], position: int) -> None:
    filler = stream[3 if stream is MESSAGES else 2] * 60
    events = [*stream[:position], filler, *stream[position:]]

    assert state_of(meter_of(b"".join(events))) == state_of(meter_of(*events))


@pytest.mark.parametrize(
    ("last", "is_complete"),
    [
        (chunk("lo"), False),
        (event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), True),
        (b'data: {"choices": [{"finish_reason" : "length"}]}\n\n', True),
        (chunk('{"finish_reason":"stop"}'), False),
        (MESSAGES[5], True),
        (named_event("message_delta", delta={"stop_reason": None}), False),
        (DONE, True),
    ],
)
def test_an_answer_is_complete_once_it_says_why_it_ends(last: bytes, is_complete: bool) -> None:  # noqa: FBT001 - a parameter of the test
    meter = Meter(openai_usage, streamed=True)
    meter.feed(chunk("Hel"))
    assert not meter.is_complete
    meter.feed(last)

    assert meter.is_complete is is_complete


def test_the_end_of_an_answer_is_seen_though_it_is_not_kept() -> None:
    meter = Meter(openai_usage, streamed=True, bound=10)
    meter.feed(chunk("Hello"))
    assert meter.delivered_text() == ""
    assert not meter.is_complete
    meter.feed(stop_event(0))

    assert meter.is_complete


def stop_event(index: int, **rest: object) -> bytes:
    return event({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}], **rest})


USAGE = event({"choices": [], "usage": chat_usage(9, 2)})


@pytest.mark.parametrize(
    ("runs", "choices", "has_ended"),
    [
        ([stop_event(0)], 1, False),
        ([stop_event(0), USAGE], 1, True),
        ([stop_event(0, usage=chat_usage(9, 2))], 1, True),
        ([USAGE, stop_event(0)], 1, False),
        ([stop_event(0), USAGE], 2, False),
        ([stop_event(0), stop_event(0), USAGE], 2, False),
        ([stop_event(0), stop_event(1), USAGE], 2, True),
        ([stop_event(0), stop_event(1), event({"usage": chat_usage(9, 0)})], 2, False),
        ([stop_event(0), USAGE], None, False),
        ([DONE], None, True),
        (MESSAGES[:5], 1, False),
        (MESSAGES[:6], 1, True),
        (RESPONSES[:4], 1, False),
        (RESPONSES, 1, True),
        ([event({"choices": 5, "delta": 6, "finish_reason": "stop"}), USAGE], 1, False),
    ],
)
def test_an_answer_has_ended_once_usage_follows_the_end_of_every_choice(
    runs: list[bytes],
    choices: int | None,
    has_ended: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert meter_of(chunk("Hello"), *runs).has_ended(choices) is has_ended


@pytest.mark.parametrize("body", [b'{"choices": [', b"[]", b"<html>", b"\xff", b""])
def test_a_body_that_is_no_json_object_is_unread(body: bytes) -> None:
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)

    assert meter.is_unreadable


@pytest.mark.parametrize("body", [b"{}", b' {"usage": null}\n'])
def test_a_body_that_is_a_json_object_is_read(body: bytes) -> None:
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)

    assert not meter.is_unreadable


@pytest.mark.parametrize(("stream", "openings"), [(CHAT, 1), (RESPONSES, 1), (MESSAGES, 3)])
def test_an_answer_begins_with_its_first_content(stream: list[bytes], openings: int) -> None:
    meter = meter_of(*stream[:openings])
    assert not meter.has_begun
    assert meter.upstream_id
    meter.feed(stream[openings])

    assert meter.has_begun


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_an_error_after_the_opening_begins_nothing(stream: list[bytes]) -> None:
    failed = named_event("response.failed", response={"error": {"code": "server_error"}})

    for wrong in (failed, event({"error": {"message": "Overloaded"}}), named_event("error")):
        meter = meter_of(stream[0], wrong)
        assert (meter.has_begun, meter.is_broken) == (False, True)


def test_an_answer_that_is_empty_but_whole_has_begun() -> None:
    assert meter_of(CHAT[0], DONE).has_begun
    assert not meter_of(DONE).has_begun


#: More keys than are parsed on the event loop.
DENSE = b'"logprobs":[' + b",".join([b'{"a":0,"b":1}'] * 300_000) + b"]"


def test_of_a_body_with_too_many_keys_the_id_and_the_usage_are_read() -> None:
    meter = Meter(openai_usage, streamed=False)
    body = b'{"id":"chatcmpl-1",%b,"usage":{"prompt_tokens":9,"completion_tokens":2}}' % DENSE
    meter.feed_ends(body)

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.has_begun, meter.is_finished, meter.is_broken) == (True, True, False)
    assert meter.upstream_id == "chatcmpl-1"
    assert meter.has_exact_usage
    assert meter.delivered_text() == ""


def test_a_body_with_too_many_keys_and_no_usage_is_whole_and_estimated() -> None:
    meter = Meter(openai_usage, streamed=False)
    meter.feed_ends(b"{%b}" % DENSE)

    assert meter.usage is None
    assert (meter.has_begun, meter.is_complete, meter.is_unreadable) == (True, True, True)
    assert meter.delivered_text() == ""


def test_an_event_with_too_many_keys_has_begun_the_answer_and_its_usage_is_read() -> None:
    meter = Meter(openai_usage, streamed=True)
    meter.feed(b'data: {"id":"chatcmpl-1",%b}\n\n' % DENSE)
    assert (meter.has_begun, meter.usage) == (True, None)
    meter.feed(b'data: {"id":"c",%b,"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n' % DENSE)

    assert meter.usage == Usage(input=9, output=2)


GOOGLE = event_stream(
    answer({"text": "Hel"}, usage={"promptTokenCount": 100}),
    answer({"text": "lo"}),
    answer({"text": ""}, finish="STOP", usage=GOOGLE_USAGE),
)


@given(st.lists(st.integers(1, len(GOOGLE) - 1), max_size=6))
def test_a_stream_of_googles_is_read_to_its_end(cuts: list[int]) -> None:
    meter, frames = Meter(gemini_usage, streamed=True), EventFramer()
    for a, b in pairwise([0, *sorted(cuts), len(GOOGLE)]):
        if run := frames.feed(GOOGLE[a:b]):
            meter.feed(run)

    assert meter.usage == Usage(input=40, cache_read=60, output=7, reasoning=2)
    assert (meter.has_begun, meter.is_complete, meter.has_ended(1)) == (True, True, True)
    assert meter.upstream_id == "r-1"
    assert meter.delivered_text() == "Hello"


def test_a_stream_of_googles_that_is_cut_is_not_complete() -> None:
    meter = Meter(gemini_usage, streamed=True)
    meter.feed(event_stream(answer({"text": "Hel"}, usage={"promptTokenCount": 100})))

    assert (meter.has_begun, meter.is_complete) == (True, False)
