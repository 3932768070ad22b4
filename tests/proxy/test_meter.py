import gzip
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.meter import Meter
from proxy.wire.sse import Frames
from proxy.wire.usage import merge, openai_usage
from slo.usage import Usage

_CASSETTES = Path(__file__).resolve().parents[2] / "../shared/data/A/crewAIInc+crewAI"


def anthropic_like(found: Mapping[str, Any]) -> Usage | None:
    return Usage(
        input=found.get("input_tokens", 0),
        cache_read=found.get("cache_read_input_tokens", 0),
        output=found.get("output_tokens", 0),
    )


def event(value: object, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + orjson.dumps(value) + b"\n\n"


def named(kind: str, **rest: object) -> bytes:
    return event({"type": kind, **rest}, kind)


def chunk(content: str | None = None, **rest: object) -> bytes:
    delta = {} if content is None else {"content": content}
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    return event({"id": "chatcmpl-1", "choices": choices, **rest})


def used(prompt: int, generated: int, **rest: object) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": generated, **rest}


DONE = b"data: [DONE]\n\n"
CHAT = [
    chunk("", usage=None),
    chunk("Hel", usage=None),
    chunk("lo", usage=None),
    event({"id": "chatcmpl-1", "choices": [], "usage": used(9, 2)}),
    DONE,
]
RESPONSES = [
    named("response.created", response={"id": "resp_1", "usage": None, "error": None}),
    named("response.output_text.delta", output_index=0, content_index=0, delta="Hel"),
    named("response.output_text.delta", output_index=0, content_index=0, delta="lo"),
    named("response.output_text.done", output_index=0, text="Hello"),
    named(
        "response.completed",
        response={"id": "resp_1", "usage": {"input_tokens": 9, "output_tokens": 2}},
    ),
]
MESSAGES = [
    named("message_start", message={"id": "msg_1", "usage": {"input_tokens": 9}}),
    named("ping"),
    named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    named("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
    named("content_block_delta", index=0, delta={"type": "text_delta", "text": "lo"}),
    named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    named("message_stop"),
]


def metered(*runs: bytes, bound: int = 1 << 20) -> Meter:
    meter = Meter(openai_usage, streamed=True, bound=bound)
    for run in runs:
        meter.feed(run)
    return meter


def answered(body: bytes) -> Meter:
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)
    return meter


@pytest.mark.parametrize(("stream", "name"), [(CHAT, "chatcmpl-1"), (RESPONSES, "resp_1")])
def test_a_stream_is_read_to_its_end(stream: list[bytes], name: str) -> None:
    meter = metered(*stream)

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.begun, meter.finished, meter.broken) == (True, True, False)
    assert meter.upstream_id == name
    assert meter.delivered_text() == "Hello"
    assert not meter.suspicious


def test_the_two_usages_of_a_messages_stream_are_merged() -> None:
    meter = Meter(anthropic_like, streamed=True)
    for run in MESSAGES:
        meter.feed(run)

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.finished, meter.upstream_id) == (True, "msg_1")
    assert meter.delivered_text() == "Hello"


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_a_stream_that_is_cut_is_not_finished(stream: list[bytes]) -> None:
    meter = metered(*stream[:-2])

    assert (meter.begun, meter.finished, meter.broken) == (True, False, False)
    assert meter.delivered_text() == "Hello"


def test_nothing_has_begun_while_only_pings_and_comments_come() -> None:
    meter = metered(b": keep-alive\n\n", named("ping"), b"event: ping\ndata: {}\n\n", b"\n\n")

    assert not meter.begun
    meter.feed(CHAT[1])
    assert meter.begun


def test_an_error_before_anything_else_begins_nothing() -> None:
    meter = metered(event({"error": {"message": "Overloaded"}}))

    assert (meter.begun, meter.broken, meter.upstream_id) == (False, True, "")


@pytest.mark.parametrize(
    "run",
    [
        event({"error": {"message": "Overloaded"}}),
        event({"error": "Overloaded"}),
        event({"message": "Overloaded", "code": "x"}, "error"),
        event({"type": "overloaded", "code": "x"}, "error"),
        b"event: error\ndata: Overloaded\n\n",
        named("error", error={"type": "overloaded_error"}),
        named("error", message="Overloaded", code=None),
    ],
)
@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_an_error_midway_breaks_the_answer(stream: list[bytes], run: bytes) -> None:
    assert metered(*stream[:2], run).broken
    assert not metered(*stream).broken


@pytest.mark.parametrize("kind", ["response.incomplete", "response.failed"])
def test_a_response_that_is_not_completed_has_ended_all_the_same(kind: str) -> None:
    usage = {"input_tokens": 9, "output_tokens": 1}
    meter = metered(*RESPONSES[:2], named(kind, response={"usage": usage}))

    assert meter.finished
    assert meter.broken == (kind == "response.failed")
    assert meter.usage == Usage(input=9, output=1)


def test_a_transcription_ends_with_its_last_event() -> None:
    meter = metered(
        named("transcript.text.delta", delta="Hi"), named("transcript.text.done", text="Hi")
    )

    assert meter.finished
    assert meter.delivered_text() == "Hi"


def test_usage_is_replaced_not_added() -> None:
    meter = metered(
        chunk("Hel", usage=used(9, 1, prompt_tokens_details={"cached_tokens": 4})),
        chunk("lo", usage=used(9, 2, prompt_tokens_details={"audio_tokens": 0})),
        chunk(usage=None),
        chunk(usage={"completion_tokens": None, "prompt_tokens_details": {"cached_tokens": None}}),
        DONE,
    )

    assert meter.usage == Usage(input=5, cache_read=4, output=2)


def test_usage_of_groq_is_found_where_it_puts_it() -> None:
    meter = metered(
        chunk("", x_groq={"id": "req_1"}), chunk("Hi"), chunk(x_groq={"usage": used(9, 2)}), DONE
    )

    assert meter.usage == Usage(input=9, output=2)
    assert meter.upstream_id == "chatcmpl-1"


def test_missing_usage_is_not_zero() -> None:
    assert metered(chunk("Hi"), DONE).usage is None
    assert metered(chunk("Hi"), chunk(usage={}), DONE).usage is None


def test_zeros_are_kept_but_suspicious_once_text_was_delivered() -> None:
    zeros = metered(chunk("Hi"), chunk(usage=used(0, 0)), DONE)
    silent = metered(chunk(""), chunk(usage=used(9, 0)), DONE)

    assert zeros.usage == Usage()
    assert zeros.suspicious
    assert not silent.suspicious
    assert metered(chunk("Hi"), chunk(usage=used(9, 0)), DONE).suspicious
    assert metered(chunk("Hi"), chunk(usage=used(0, 2)), DONE).suspicious
    assert not metered(chunk("Hi"), DONE).suspicious


@pytest.mark.parametrize(
    "content",
    [
        '{"usage":{"prompt_tokens":1,"completion_tokens":1}}',
        '"usage"',
        "usage",
        'data: [DONE]\n\ndata: {"error":{}}\n\n',
        '"error" message_stop "response" event: error',
        "\\",
        '","usage":{"prompt_tokens":1}',
    ],
)
def test_what_looks_like_usage_or_an_end_inside_text_is_not_believed(content: str) -> None:
    tools = [{"index": 0, "function": {"name": "f", "arguments": content}}]
    hidden = {"usage": used(1, 1), "error": {}, "type": "message_stop"}
    choices = [{"index": 0, "delta": {"tool_calls": tools}, **hidden}]
    meter = metered(chunk("Hi"), chunk(content), event({"choices": choices, "extra": hidden}))

    assert meter.usage is None
    assert (meter.finished, meter.broken) == (False, False)
    assert content in meter.delivered_text()


def test_events_that_are_no_json_objects_are_skipped() -> None:
    junk = [b'data: {"usage":{\n\n', b'data: "usage"\n\n', b"data: \xff\xfe error\n\n"]
    deep = b'data: {"usage":' + b"[" * 5000 + b"]" * 5000 + b"}\n\n"
    meter = metered(*junk, deep, *CHAT)

    assert meter.usage == Usage(input=9, output=2)
    assert meter.upstream_id == "chatcmpl-1"
    assert meter.begun


def test_an_id_that_never_comes_is_not_looked_for_for_ever() -> None:
    nameless = event({"choices": []})
    meter = metered(nameless, nameless, event({"id": "late", "choices": []}))

    assert meter.upstream_id == "late"
    assert metered(*[nameless] * 8, event({"id": "too late", "choices": []})).upstream_id == ""


@pytest.mark.parametrize("name", [7, "", None, {"a": 1}])
def test_an_id_that_is_no_name_is_none(name: object) -> None:
    assert metered(event({"id": name, "message": "odd", "response": 3})).upstream_id == ""


def test_text_beyond_the_bound_is_only_measured() -> None:
    meter = metered(*CHAT, bound=len(CHAT[0]) + len(CHAT[1]))

    assert meter.delivered_text() == "Hel"
    assert meter.unkept == sum(map(len, CHAT[2:]))
    assert meter.usage == Usage(input=9, output=2)


def test_usage_nested_beyond_reason_does_not_exhaust_the_stack() -> None:
    deep: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for _ in range(5000):
        deep, other = {"a": deep}, {"a": other}

    merge(deep, other)

    assert deep["a"]["a"]["a"]["a"]["a"] is other["a"]["a"]["a"]["a"]["a"]


def test_a_json_answer_is_a_stream_of_one_piece() -> None:
    message = {"role": "assistant", "content": "Hello", "usage": used(1, 1)}
    meter = answered(
        orjson.dumps(
            {"id": "chatcmpl-1", "choices": [{"index": 0, "message": message}], "usage": used(9, 2)}
        )
    )

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.begun, meter.finished, meter.broken) == (True, True, False)
    assert meter.upstream_id == "chatcmpl-1"
    assert meter.delivered_text() == "Hello"


def test_a_json_answer_that_is_an_error_is_broken() -> None:
    meter = answered(b'{"error":{"message":"Overloaded"}}')

    assert (meter.begun, meter.finished, meter.broken) == (False, False, True)


@pytest.mark.parametrize("body", [b"[]", b"RIFF\x00\xff", b'{"object":"list","data":[]}'])
def test_an_answer_without_usage_is_finished_all_the_same(body: bytes) -> None:
    meter = answered(body)

    assert meter.usage is None
    assert meter.finished


def observed(meter: Meter) -> tuple[object, ...]:
    return (
        meter.usage,
        meter.suspicious,
        meter.begun,
        meter.finished,
        meter.broken,
        meter.upstream_id,
        meter.delivered_text(),
    )


usages = st.none() | st.builds(used, st.integers(0, 99), st.integers(0, 99))
pieces = st.sampled_from(
    ["Hi ", "usage", '{"usage":{"prompt_tokens":1}}', "[DONE]", "error", "\n\n", "é", ""]
)
oddities = st.sampled_from(
    [b": ping\n\n", named("ping"), b"data: {\n\n", event({"error": {"code": 1}}), event([1]), DONE]
)
chats = st.lists(st.builds(chunk, pieces, usage=usages) | oddities, max_size=12)
streams = (chats | st.sampled_from([CHAT, RESPONSES, MESSAGES])).map(b"".join)


@given(stream=streams, cuts=st.lists(st.integers(0, 2000)), crlf=st.booleans())
def test_any_chunking_is_metered_the_same(stream: bytes, cuts: list[int], crlf: bool) -> None:  # noqa: FBT001 - Hypothesis names it
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    frames, meter = Frames(), Meter(openai_usage, streamed=True)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in pairwise(edges):
        if run := frames.feed(stream[start:end]):
            meter.feed(run)

    assert observed(meter) == observed(metered(stream))


@given(first=usages, early=usages, last=st.builds(used, st.integers(1, 99), st.integers(1, 99)))
def test_the_last_usage_wins(first: object, early: object, last: dict[str, object]) -> None:
    meter = metered(chunk("a", usage=first), chunk("b", usage=early), chunk(usage=last), DONE)

    assert meter.usage == openai_usage(last)


def recorded() -> Iterator[tuple[bool, bytes]]:
    for path in sorted(_CASSETTES.rglob("*.yaml")):
        for call in yaml.load(path.read_bytes(), yaml.CSafeLoader)["interactions"]:
            answer, body = call["response"], call["response"]["body"].get("string") or b""
            raw = body.encode() if isinstance(body, str) else body
            raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
            kind = {key.lower(): value for key, value in answer["headers"].items()}
            if answer["status"]["code"] == 200 and "openai" in call["request"]["uri"]:
                yield "event-stream" in kind.get("content-type", [""])[0], raw


def last_usage(raw: bytes) -> dict[str, Any] | None:
    """The usage by full parsing of every line, the slow and certain way."""
    found = None
    for line in raw.splitlines():
        if line.startswith(b"data: {"):
            value = orjson.loads(line[6:])
            found = value.get("usage") or (value.get("response") or {}).get("usage") or found
    return found


def test_recorded_answers_are_metered_as_they_say() -> None:
    if not _CASSETTES.is_dir():
        pytest.skip("The recorded answers are not here.")
    seen = {True: 0, False: 0}
    for streamed, raw in recorded():
        expected = last_usage(raw) if streamed else orjson.loads(raw).get("usage")
        meter = Meter(openai_usage, streamed=streamed)
        frames = Frames()
        for run in [raw] if not streamed else [frames.feed(raw), frames.rest()]:
            if run:
                meter.feed(run)

        assert meter.usage == (None if expected is None else openai_usage(expected))
        assert meter.finished
        assert not meter.suspicious
        seen[streamed] += expected is not None

    assert seen[True] > 15
    assert seen[False] > 800


@pytest.mark.parametrize(
    ("last", "is_complete"),
    [
        (chunk("lo"), False),
        (event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), True),
        (b'data: {"choices": [{"finish_reason" : "length"}]}\n\n', True),
        (chunk('{"finish_reason":"stop"}'), False),
        (MESSAGES[5], True),
        (named("message_delta", delta={"stop_reason": None}), False),
        (DONE, True),
    ],
)
def test_an_answer_is_complete_once_it_says_why_it_ends(last: bytes, is_complete: bool) -> None:  # noqa: FBT001 - a parameter of the test
    meter = Meter(openai_usage, streamed=True)
    meter.feed(chunk("Hel"))
    assert not meter.complete
    meter.feed(last)

    assert meter.complete is is_complete


def test_an_answer_whose_end_was_not_kept_may_be_complete() -> None:
    meter = Meter(openai_usage, streamed=True, bound=10)
    meter.feed(chunk("Hello"))

    assert meter.complete


@pytest.mark.parametrize("body", [b'{"choices": [', b"[]", b"<html>", b"\xff", b""])
def test_a_body_that_is_no_json_object_is_unread(body: bytes) -> None:
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)

    assert meter.unread


@pytest.mark.parametrize("body", [b"{}", b' {"usage": null}\n'])
def test_a_body_that_is_a_json_object_is_read(body: bytes) -> None:
    meter = Meter(openai_usage, streamed=False)
    meter.feed(body)

    assert not meter.unread


@pytest.mark.parametrize(("stream", "openings"), [(CHAT, 1), (RESPONSES, 1), (MESSAGES, 3)])
def test_an_answer_begins_with_its_first_content(stream: list[bytes], openings: int) -> None:
    meter = metered(*stream[:openings])
    assert not meter.begun
    assert meter.upstream_id
    meter.feed(stream[openings])

    assert meter.begun


@pytest.mark.parametrize("stream", [CHAT, RESPONSES, MESSAGES])
def test_an_error_after_the_opening_begins_nothing(stream: list[bytes]) -> None:
    failed = named("response.failed", response={"error": {"code": "server_error"}})

    for wrong in (failed, event({"error": {"message": "Overloaded"}}), named("error")):
        meter = metered(stream[0], wrong)
        assert (meter.begun, meter.broken) == (False, True)


def test_an_answer_that_is_empty_but_whole_has_begun() -> None:
    assert metered(CHAT[0], DONE).begun
    assert not metered(DONE).begun
