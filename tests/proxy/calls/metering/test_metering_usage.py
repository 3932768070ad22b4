"""The usage that an answer tells, wherever and however often it does."""

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.metering.metering import Meter
from proxy.providers.answers.usage import merge_usage, openai_usage
from proxy.providers.sse import EventFramer
from slo.usage import Usage
from tests.fakes.streams import (
    CHAT,
    DONE,
    MESSAGES,
    chat_usage,
    chunk,
    event,
    meter_of,
    usages,
)

_CASSETTES = Path(__file__).resolve().parents[4] / "../shared/data/A/crewAIInc+crewAI"


def anthropic_like(reported: Mapping[str, Any]) -> Usage | None:
    return Usage(
        input=reported.get("input_tokens", 0),
        cache_read=reported.get("cache_read_input_tokens", 0),
        output=reported.get("output_tokens", 0),
    )


def test_the_two_usages_of_a_messages_stream_are_merged() -> None:
    meter = Meter(anthropic_like, streamed=True)
    for run in MESSAGES:
        meter.feed(run)

    assert meter.usage == Usage(input=9, output=2)
    assert (meter.is_finished, meter.upstream_id) == (True, "msg_1")
    assert meter.delivered_text() == "Hello"


def test_usage_is_replaced_not_added() -> None:
    meter = meter_of(
        chunk("Hel", usage=chat_usage(9, 1, prompt_tokens_details={"cached_tokens": 4})),
        chunk("lo", usage=chat_usage(9, 2, prompt_tokens_details={"audio_tokens": 0})),
        chunk(usage=None),
        chunk(usage={"completion_tokens": None, "prompt_tokens_details": {"cached_tokens": None}}),
        DONE,
    )

    assert meter.usage == Usage(input=5, cache_read=4, output=2)


def test_usage_of_groq_is_found_where_it_puts_it() -> None:
    meter = meter_of(
        chunk("", x_groq={"id": "req_1"}),
        chunk("Hi"),
        chunk(x_groq={"usage": chat_usage(9, 2)}),
        DONE,
    )

    assert meter.usage == Usage(input=9, output=2)
    assert meter.upstream_id == "chatcmpl-1"


def test_usage_of_a_choice_is_read_and_that_of_the_answer_goes_before() -> None:
    last = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": chat_usage(12, 5)}
    runs = [chunk("a"), event({"id": "c", "choices": [last]})]

    assert meter_of(*runs, DONE).usage == Usage(input=12, output=5)
    assert meter_of(
        *runs, event({"id": "c", "choices": [], "usage": chat_usage(13, 6)}), DONE
    ).usage == (Usage(input=13, output=6))


def test_missing_usage_is_not_zero() -> None:
    assert meter_of(chunk("Hi"), DONE).usage is None
    assert meter_of(chunk("Hi"), chunk(usage={}), DONE).usage is None


def test_zeros_are_kept_but_suspicious_once_text_was_delivered() -> None:
    zeros = meter_of(chunk("Hi"), chunk(usage=chat_usage(0, 0)), DONE)
    silent = meter_of(chunk(""), chunk(usage=chat_usage(9, 0)), DONE)

    assert zeros.usage == Usage()
    assert zeros.has_implausible_usage
    assert not silent.has_implausible_usage
    assert meter_of(chunk("Hi"), chunk(usage=chat_usage(9, 0)), DONE).has_implausible_usage
    assert meter_of(chunk("Hi"), chunk(usage=chat_usage(0, 2)), DONE).has_implausible_usage
    assert not meter_of(chunk("Hi"), DONE).has_implausible_usage


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
def test_usage_or_an_end_inside_generated_text_is_ignored(content: str) -> None:
    tools = [{"index": 0, "function": {"name": "f", "arguments": content}}]
    hidden = {"usage": chat_usage(1, 1), "error": {}, "type": "message_stop"}
    choices = [{"index": 0, "delta": {"tool_calls": tools}, **hidden}]
    meter = meter_of(chunk("Hi"), chunk(content), event({"choices": choices, "extra": hidden}))

    assert meter.usage is None
    assert (meter.is_finished, meter.is_broken) == (False, False)
    assert content in meter.delivered_text()


def test_events_that_are_no_json_objects_are_skipped() -> None:
    junk = [b'data: {"usage":{\n\n', b'data: "usage"\n\n', b"data: \xff\xfe error\n\n"]
    deep = b'data: {"usage":' + b"[" * 5000 + b"]" * 5000 + b"}\n\n"
    meter = meter_of(*junk, deep, *CHAT)

    assert meter.usage == Usage(input=9, output=2)
    assert meter.upstream_id == "chatcmpl-1"
    assert meter.has_begun


def test_usage_nested_beyond_reason_does_not_exhaust_the_stack() -> None:
    deep: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for _ in range(5000):
        deep, other = {"a": deep}, {"a": other}

    merge_usage(deep, other)

    assert deep["a"]["a"]["a"]["a"]["a"] is other["a"]["a"]["a"]["a"]["a"]


@given(
    first=usages, early=usages, last=st.builds(chat_usage, st.integers(1, 99), st.integers(1, 99))
)
def test_the_last_usage_wins(first: object, early: object, last: dict[str, object]) -> None:
    meter = meter_of(chunk("a", usage=first), chunk("b", usage=early), chunk(usage=last), DONE)

    assert meter.usage == openai_usage(last)


def recorded_answers() -> Iterator[tuple[bool, bytes]]:
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
    last = None
    for line in raw.splitlines():
        if line.startswith(b"data: {"):
            value = orjson.loads(line[6:])
            last = value.get("usage") or (value.get("response") or {}).get("usage") or last
    return last


def test_recorded_answers_are_metered_as_they_say() -> None:
    if not _CASSETTES.is_dir():
        pytest.skip("The recorded answers are not here.")
    counts = {True: 0, False: 0}
    for streamed, raw in recorded_answers():
        expected = last_usage(raw) if streamed else orjson.loads(raw).get("usage")
        meter = Meter(openai_usage, streamed=streamed)
        frames = EventFramer()
        for run in [raw] if not streamed else [frames.feed(raw), frames.unfinished_event()]:
            if run:
                meter.feed(run)

        assert meter.usage == (None if expected is None else openai_usage(expected))
        assert meter.is_finished
        assert not meter.has_implausible_usage
        counts[streamed] += expected is not None

    assert counts[True] > 15
    assert counts[False] > 800
