"""Streams that their upstream labels as something else, or not at all."""

import pytest

from proxy.records.receipt import Outcome
from slo.usage import Usage
from tests.fakes import streams
from tests.fakes.answers import (
    BEAT,
    COMPLETION,
    SHOWN,
    STREAM,
    STREAMED,
    chunk,
    failed_answer,
    stream,
)
from tests.fakes.call_dependencies import call, route
from tests.fakes.upstream import JSON, SILENCE, ScriptedAnswer, broken_connection
from tests.proxy.api.served_calls import EXACT, ONE, TWO, serve_one_call, streaming_call

LABELS = [{"content-type": "text/plain"}, {"content-type": "application/octet-stream"}, {}, JSON]
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("label", LABELS, ids=["text", "bytes", "none", "json"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_under_another_label_is_passed_on_as_a_stream(label, size):
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    done = serve_one_call(ScriptedAnswer(pieces, headers=label), sent_call=streaming_call())

    assert done.outcomes == [(Outcome.ANSWERED, True)]
    assert done.caller.body == SHOWN
    assert done.caller.head is not None
    assert done.caller.head.headers["content-type"] == "text/event-stream"
    assert (done.last.usage, done.last.estimated) == (EXACT, False)


@pytest.mark.parametrize("start", [MARK, b"\r\n\n", BEAT, b"retry: 9\n\n", b"id: 1\nevent: x\n"])
def test_lines_before_the_first_data_reach_the_caller_unmodified(start):
    done = serve_one_call(ScriptedAnswer([start + STREAM], headers={}), sent_call=streaming_call())

    assert done.caller.body == start + SHOWN
    assert done.outcomes == [(Outcome.ANSWERED, True)]


@pytest.mark.parametrize(
    ("endpoint", "kind", "events"),
    [
        ("chat/completions", "anthropic", streams.MESSAGES),
        ("responses", "anthropic", streams.MESSAGES),
        ("responses", "openai", streams.RESPONSES),
    ],
)
@pytest.mark.parametrize("label", LABELS, ids=["text", "bytes", "none", "json"])
def test_a_mislabelled_stream_is_translated_like_any_other(endpoint, kind, events, label):
    body = STREAMED.replace(b'"messages"', b'"input"') if endpoint == "responses" else STREAMED
    request, routes = call(body, endpoint), (route(kind=kind, max_output=100),)
    right = serve_one_call(stream(*events), sent_call=request, routes=routes)
    done = serve_one_call(ScriptedAnswer(events, headers=label), sent_call=request, routes=routes)

    assert right.outcomes == done.outcomes == [(Outcome.ANSWERED, True)]
    assert done.caller.body == right.caller.body
    assert b"Hel" in done.caller.body
    assert done.last.usage == right.last.usage == Usage(input=9, output=2)


def test_a_mislabelled_stream_that_breaks_after_its_first_content_ends_with_an_error_event():
    done = serve_one_call(
        ScriptedAnswer([chunk("a"), broken_connection()], headers={}), sent_call=streaming_call()
    )

    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert done.caller.body.startswith(chunk("a"))
    assert b"upstream_connection_broken" in done.caller.body


@pytest.mark.parametrize(
    "first", [[BEAT], [BEAT, broken_connection()], [b"da", SILENCE], [b"da", broken_connection()]]
)
def test_a_mislabelled_stream_that_does_not_begin_leaves_the_call_to_the_next_route(first):
    done = serve_one_call(
        ScriptedAnswer(first, headers={}),
        stream(STREAM),
        sent_call=streaming_call(),
        routes=(ONE, TWO),
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.caller.body == SHOWN


@pytest.mark.parametrize("label", LABELS, ids=["text", "bytes", "none", "json"])
@pytest.mark.parametrize("start", [b"", MARK, b"\n\n" * 50_000])
def test_a_json_answer_to_a_call_for_a_stream_is_passed_on_unmodified(label, start):
    body = start + COMPLETION
    done = serve_one_call(
        ScriptedAnswer([body[:1], body[1:9], body[9:]], headers=label), sent_call=streaming_call()
    )

    assert done.caller.body == body
    assert done.caller.head is not None
    assert done.caller.head.headers == label
    assert (done.last.usage, done.last.estimated) == (EXACT, False)


def test_a_stream_that_nobody_asked_for_is_not_asked_for_again():
    done = serve_one_call(
        ScriptedAnswer([BEAT + STREAM], headers={}), failed_answer(500), routes=(ONE, TWO)
    )

    assert done.error is not None
    assert done.error.code == "upstream_malformed"
    assert len(done.transport.sent) == 1
