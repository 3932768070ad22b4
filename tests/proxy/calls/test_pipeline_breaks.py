"""Answers that break midway, and what a break is not."""

import json
from typing import Any

import pytest

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, COMPLETION, SHOWN, STREAM, USAGE, chunk, event, stream
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    call,
    fake_dependencies,
    route,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.upstream import (
    SILENCE,
    After,
    FakeExchange,
    FakeTransport,
    ScriptedAnswer,
    broken_connection,
)
from tests.proxy.api.served_calls import EXACT, ONE, TWO, serve_one_call, streaming_call

pytestmark = pytest.mark.instant_time


def test_an_answer_of_another_kind_that_breaks_stops_short():
    sound = ScriptedAnswer([b"\x00", broken_connection()], headers={"content-type": "audio/mpeg"})
    done = serve_one_call(sound, sent_call=call(ASKED, endpoint="audio/speech"))

    assert done.caller.body == b"\x00"
    assert not done.caller.is_ended
    assert done.last.outcome is Outcome.BROKEN


@pytest.mark.parametrize("endpoint", ["chat/completions", "images/generations"])
def test_a_whole_answer_whose_connection_breaks_after_its_last_byte_is_delivered(endpoint):
    sound = ScriptedAnswer([COMPLETION[:9], COMPLETION[9:], broken_connection()])
    done = serve_one_call(sound, sent_call=call(ASKED, endpoint=endpoint))

    assert done.caller.body == COMPLETION
    assert done.outcomes == [(Outcome.ANSWERED, True)]
    assert (done.last.usage, done.last.estimated) == (EXACT, False)


@pytest.mark.parametrize("end", [broken_connection(), SILENCE])
@pytest.mark.parametrize(
    ("endpoint", "starts"),
    [
        ("chat/completions", b'data: {"error":{"message":'),
        ("completions", b'data: {"error":{"message":'),
        ("responses", b'event: error\ndata: {"error":{"message":'),
    ],
)
def test_a_stream_that_cannot_go_on_says_so_in_the_words_of_its_endpoint(end, endpoint, starts):
    done = serve_one_call(stream(chunk("a"), end), sent_call=streaming_call(endpoint=endpoint))

    assert done.caller.pieces[0] == chunk("a")
    assert done.caller.pieces[1].startswith(starts)
    assert done.caller.is_ended
    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert done.last.status == 200
    assert done.last.error in {"upstream_connection_broken", "upstream_timeout"}
    assert done.caller.observed == [0, 1]


def test_a_stream_that_ends_before_its_answer_does_is_broken():
    done = serve_one_call(stream(chunk("a")), sent_call=streaming_call())

    assert b'"code":"upstream_cut_off"' in done.caller.pieces[1]
    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert done.last.estimated


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"<html>",
        b'{"choices":[]}',
        b'{"type":"error"}',
    ],
)
def test_a_whole_answer_that_is_none_is_a_failure(kind, body):
    done = serve_one_call(
        ScriptedAnswer([body]), ScriptedAnswer([body]), routes=(route(kind=kind),)
    )

    assert done.error is not None
    assert (done.error.status, done.error.code) == (502, "upstream_malformed")
    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert (done.last.status, done.last.usage) == (502, None)


PART = b'{"id":"chatcmpl-1","choices":[{"ind'


@pytest.mark.parametrize(
    ("kind", "body"), [("openai", chunk("a")), ("anthropic", chunk("a")), ("anthropic", PART)]
)
def test_an_unreadable_answer_that_was_paid_for_is_not_retried(kind, body):
    done = serve_one_call(
        ScriptedAnswer([body]), ScriptedAnswer([body]), routes=(route(kind=kind),)
    )

    assert done.error is not None
    assert (done.error.status, done.error.code) == (502, "upstream_malformed")
    assert done.outcomes == [(Outcome.FAILED, True)]
    assert (done.last.status, done.last.usage) == (502, ESTIMATE)


def test_a_truncated_answer_reaches_its_caller_as_it_would_directly():
    done = serve_one_call(ScriptedAnswer([PART]))

    assert done.error is None
    assert done.caller.body == PART
    assert done.outcomes == [(Outcome.ANSWERED, True)]
    assert (done.last.usage is not None, done.last.estimated) == (True, True)


SECRET = "no credit left on sk-verysecretkey123"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": SECRET, "code": 502}}, 502),
        ({"id": "gen-1", "choices": [], "error": {"message": SECRET}}, 502),
        ({"type": "error", "error": {"type": "overloaded_error", "message": SECRET}}, 503),
        ({"error": {"type": "rate_limit_error", "message": SECRET}}, 429),
        ({"object": "error", "message": SECRET, "code": 400}, 400),
        ({"error": SECRET}, 502),
        ([{"error": {"code": 404, "message": SECRET}}], 404),
    ],
)
def test_an_error_in_place_of_a_whole_answer_is_the_failure_it_is(kind, body, status):
    script = ScriptedAnswer([json.dumps(body).encode()])
    done = serve_one_call(script, routes=(route(kind=kind),), patience=RetryPolicy(retries=0))

    assert done.error is not None
    assert done.error.status == status
    assert "verysecret" not in done.error.message
    assert done.outcomes == [(Outcome.FAILED, True)]
    assert (done.last.usage, done.last.cost_nanos, done.last.ttft) == (None, None, None)


def test_an_error_in_place_of_a_whole_answer_leaves_the_call_to_the_next_route():
    error = ScriptedAnswer([b'{"error":{"message":"overloaded","code":503}}'])
    done = serve_one_call(error, ScriptedAnswer([COMPLETION]), routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.caller.body == COMPLETION


def test_an_error_that_says_what_it_used_is_billed_for_that():
    error = ScriptedAnswer([json.dumps({"error": {"message": "no"}, "usage": USAGE}).encode()])
    done = serve_one_call(error, patience=RetryPolicy(retries=0))

    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.FAILED, EXACT, False,
    )  # fmt: skip
    assert done.last.cost_nanos


def failed_response(**fields: Any) -> dict[str, Any]:
    error = {"code": "server_error", "message": SECRET}
    return {
        "id": "resp_1", "object": "response", "status": "failed", "output": [],
        "error": error, "usage": None, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reported_usage", "usage", "estimated"),
    [
        (None, ESTIMATE, True),
        ({"input_tokens": 50, "output_tokens": 10}, Usage(input=50, output=10), False),
    ],
)
def test_a_response_that_failed_is_passed_on_without_its_keys(reported_usage, usage, estimated):
    body = json.dumps(failed_response(usage=reported_usage)).encode()
    done = serve_one_call(ScriptedAnswer([body]), sent_call=call(ASKED, endpoint="responses"))

    left = body.replace(b"sk-verysecretkey123", b"[redacted]")
    assert json.loads(done.caller.body) == json.loads(left)
    assert (done.last.outcome, done.last.status) == (Outcome.BROKEN, 200)
    assert (done.last.error, done.last.upstream_id) == ("upstream_failed_midway", "resp_1")
    assert (done.last.usage, done.last.estimated) == (usage, estimated)
    assert done.last.cost_nanos


def test_a_stored_answer_is_returned_without_the_providers_keys():
    body = json.dumps(failed_response(usage=USAGE)).encode()
    done = serve_one_call(
        ScriptedAnswer([body]),
        sent_call=call(b"", endpoint="responses/r", method="GET", fields=None),
    )

    assert done.outcomes == [(Outcome.ANSWERED, True)]
    assert done.last.usage is None


def test_only_the_part_delivered_before_the_break_is_counted():
    estimator = FakeEstimator()
    serve_one_call(
        stream(chunk("Hel"), chunk("lo"), broken_connection()),
        sent_call=streaming_call(),
        estimator=estimator,
    )

    assert estimator.delivered == ["Hello"]


def test_an_upstream_that_stalls_midway_is_waited_for_so_long_and_no_longer():
    assert (
        5.0 <= serve_one_call(stream(chunk("a"), SILENCE), sent_call=streaming_call()).took <= 6.0
    )


def test_keep_alives_midway_do_not_put_a_stall_off():
    beats = [After(2.0, b": ping\n\n")] * 9
    done = serve_one_call(stream(chunk("a"), *beats), sent_call=streaming_call())

    assert 5.0 <= done.took <= 6.0
    assert done.last.error == "upstream_timeout"


def test_content_midway_does():
    words = [After(2.0, chunk("b"))] * 9
    done = serve_one_call(stream(chunk("a"), *words, STREAM), sent_call=streaming_call())

    assert done.took >= 18.0
    assert done.outcomes == [(Outcome.ANSWERED, True)]


def test_an_error_event_of_the_upstream_makes_the_answer_a_broken_one():
    error = b'data: {"error":{"message":"overloaded"}}\n\n'
    done = serve_one_call(stream(chunk("a"), error), sent_call=streaming_call())

    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert done.last.error == "upstream_failed_midway"
    assert done.last.estimated


def failed_event(**response: Any) -> bytes:
    error = {"code": "server_error", "message": "no"}
    return event({"type": "response.failed", "response": {"error": error, **response}})


DELTA = event({"type": "response.output_text.delta", "delta": "Hel"})
TOLD = {"input_tokens": 50, "output_tokens": 10}


@pytest.mark.parametrize(
    "pieces", [[DELTA + failed_event(usage=TOLD)], [DELTA, failed_event(usage=TOLD)]]
)
def test_content_before_an_error_begins_the_answer_and_what_the_error_says_is_billed(pieces):
    opened = event({"type": "response.created", "response": {"id": "resp_1"}})
    done = serve_one_call(stream(opened, *pieces), sent_call=streaming_call(endpoint="responses"))

    assert done.caller.body == opened + b"".join([DELTA, failed_event(usage=TOLD)])
    assert done.outcomes == [(Outcome.BROKEN, True)]
    assert (done.last.usage, done.last.estimated) == (Usage(input=50, output=10), False)
    assert done.last.cost_nanos


@pytest.mark.parametrize("end", [b"", DELTA])
@pytest.mark.parametrize("tier", ["default", "unpriced"])
def test_an_error_before_any_content_is_billed_for_what_it_says(tier, end):
    opened = event({"type": "response.created", "response": {"id": "resp_1"}})
    done = serve_one_call(
        stream(opened + failed_event(usage=TOLD, service_tier=tier) + end),
        sent_call=streaming_call(endpoint="responses"),
        patience=RetryPolicy(retries=0),
    )

    assert done.outcomes == [(Outcome.FAILED, True)]
    assert (done.last.usage, done.last.estimated) == (Usage(input=50, output=10), False)
    assert done.last.upstream_id == "resp_1"
    assert (done.last.cost_nanos is None) == (tier == "unpriced")


def test_a_stored_answer_that_failed_is_passed_on_and_not_billed_again():
    done = serve_one_call(
        stream(failed_event(usage=TOLD)),
        sent_call=streaming_call(endpoint="responses/r", method="GET"),
        patience=RetryPolicy(retries=0),
    )

    assert done.caller.body == failed_event(usage=TOLD)
    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.BROKEN, None, False,
    )  # fmt: skip


def test_a_chunk_and_an_error_in_one_piece_are_both_passed_on():
    error = event({"error": {"message": "bad key sk-verysecretkey123"}})
    done = serve_one_call(stream(chunk("a") + error), sent_call=streaming_call())

    assert done.caller.body == chunk("a") + error.replace(b"sk-verysecretkey123", b"[redacted]")
    assert done.outcomes == [(Outcome.BROKEN, True)]


def test_the_end_of_a_stream_that_failed_begins_nothing():
    error = event({"error": {"message": "no"}})
    done = serve_one_call(
        stream(chunk("") + error + event("[DONE]")),
        sent_call=streaming_call(),
        patience=RetryPolicy(retries=0),
    )

    assert done.outcomes == [(Outcome.FAILED, True)]


async def test_an_upstream_is_let_go_before_its_caller_is_notified_of_the_break():
    exchange = FakeExchange(stream(chunk("a"), broken_connection()))

    class Only(FakeTransport):
        async def open(self, *_: Any) -> FakeExchange:
            return exchange

    table, _ = fake_dependencies(Only([]))
    caller = FakeCaller(observe=lambda: exchange.closed)
    await serve_call(streaming_call(), caller, table, Timeline(ticks))

    assert caller.observed == [0, 1]


@pytest.mark.parametrize("end", [broken_connection(), SILENCE])
def test_a_failure_after_the_closing_event_changes_nothing(end):
    done = serve_one_call(stream(STREAM, end), sent_call=streaming_call())

    assert done.caller.body == SHOWN
    assert done.caller.is_ended
    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.ANSWERED,
        EXACT,
        False,
    )
    assert done.took <= 3.0
