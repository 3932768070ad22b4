"""Other routes and other attempts: only before the first content byte."""

import pytest

from proxy.calls.deadlines import ClientDisconnected, _UpstreamTimeout
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.errors import UpstreamError
from proxy.providers.stream_endings import stale_connection
from proxy.records.receipt import Outcome
from tests.fakes.answers import (
    ASKED,
    BEAT,
    COMPLETION,
    DONE,
    SHOWN,
    STREAM,
    chunk,
    failed_answer,
    stream,
)
from tests.fakes.call_dependencies import ESTIMATE, FakeEstimator, route
from tests.fakes.upstream import CONNECTING, SILENCE, ScriptedAnswer, broken_connection, unreachable
from tests.proxy.api.served_calls import ONE, TWO, serve_one_call, streaming_call


@pytest.mark.parametrize(
    "first",
    [
        unreachable(),
        failed_answer(503),
        failed_answer(429),
        stream(),
        stream(BEAT),
        stream(BEAT, broken_connection()),
        stream(b'data: {"error":{"message":"no"}}\n\n', SILENCE),
        stream(b"event: error\ndata: {}\n\n"),
        stream(DONE),
        ScriptedAnswer([COMPLETION[:9], broken_connection()]),
        SILENCE,
        stream(SILENCE),
        stream(BEAT, SILENCE),
        stream(b'event: ping\ndata: {"type":"ping"}\n\n', SILENCE),
    ],
)
def test_a_route_that_does_not_begin_leaves_the_call_to_the_next_one(first):
    done = serve_one_call(first, stream(STREAM), sent_call=streaming_call(), routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.caller.body == SHOWN
    assert [name for name, _ in done.transport.sent] == ["one", "two"]
    assert [receipt.route for receipt in done.receipts] == ["one/m", "two/m"]


def test_the_caller_hears_of_each_attempt_but_the_one_that_answered():
    done = serve_one_call(
        stream(BEAT, broken_connection()), ScriptedAnswer([COMPLETION]), routes=(ONE, TWO)
    )

    assert done.caller.attempts == done.receipts[:1]
    assert serve_one_call(ScriptedAnswer([COMPLETION]), routes=(ONE, TWO)).caller.attempts == []


def test_each_attempt_starts_from_the_callers_own_bytes():
    other = route("two", model="their-name")
    done = serve_one_call(failed_answer(500), ScriptedAnswer([COMPLETION]), routes=(ONE, other))

    first, second = (prepared.body for _, prepared in done.transport.sent)
    assert first == ASKED
    assert second == ASKED.replace(b'"m"', b'"their-name"')


@pytest.mark.parametrize("retries", [0, 1])
def test_a_request_resent_after_a_stale_connection_is_an_attempt_of_its_own(retries):
    done = serve_one_call(
        stale_connection(),
        ScriptedAnswer([COMPLETION]),
        routes=(ONE, TWO),
        patience=RetryPolicy(retries=retries),
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert [(receipt.attempt, receipt.route) for receipt in done.receipts] == [
        (0, "one/m"),
        (1, "one/m"),
    ]
    assert done.receipts[0].error == "upstream_connection_stale"
    assert (done.receipts[0].usage, done.receipts[0].cost_nanos) == (None, None)
    assert [prepared.body for _, prepared in done.transport.sent] == [ASKED, ASKED]


def test_a_route_that_is_stale_twice_has_failed():
    done = serve_one_call(
        stale_connection(),
        stale_connection(),
        stale_connection(),
        ScriptedAnswer([COMPLETION]),
        routes=(ONE, TWO),
        patience=RetryPolicy(retries=0),
    )

    assert [receipt.route for receipt in done.receipts] == ["one/m", "one/m", "two/m", "two/m"]
    assert done.caller.body == COMPLETION


def test_no_other_route_is_tried_after_the_first_content_byte():
    done = serve_one_call(
        stream(chunk("a"), broken_connection()), sent_call=streaming_call(), routes=(ONE, TWO)
    )

    assert len(done.transport.sent) == 1


def test_a_failure_that_would_repeat_everywhere_is_reported_at_once():
    done = serve_one_call(failed_answer(400, text="no such tool"), routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, True)]
    assert done.error is not None
    assert "no such tool" in done.error.message
    assert "verysecret" not in done.error.message


def test_the_last_failure_is_reported_when_no_route_begins():
    done = serve_one_call(
        unreachable(), failed_answer(503), routes=(ONE, TWO), patience=RetryPolicy(retries=0)
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert isinstance(done.error, UpstreamError)
    assert (done.error.status, done.error.code) == (503, "upstream_overloaded")
    assert done.last.status == 503
    assert all(receipt.usage is None and not receipt.estimated for receipt in done.receipts)


def test_an_upstreams_message_about_its_own_failure_stays_in_the_gateway():
    done = serve_one_call(failed_answer(500), patience=RetryPolicy(retries=0))

    assert done.error is not None
    assert "verysecret" not in done.error.message
    assert "inner" not in done.error.message


@pytest.mark.parametrize("pieces", [[b"x" * 300_000], [b'{"error"', broken_connection()]])
def test_a_failure_whose_body_cannot_be_read_is_known_by_its_status(pieces):
    done = serve_one_call(
        ScriptedAnswer(pieces, status=503, headers={}), patience=RetryPolicy(retries=0)
    )

    assert done.error is not None
    assert done.error.code == "upstream_overloaded"


@pytest.mark.parametrize(
    ("first", "usage"),
    [
        (unreachable(), None),
        (failed_answer(503), None),
        (stream(b'data: {"error":{"message":"no"}}\n\n'), None),
        (stream(BEAT, broken_connection()), ESTIMATE),
        (ScriptedAnswer([COMPLETION[:9], broken_connection()]), ESTIMATE),
    ],
)
def test_an_attempt_that_an_upstream_began_to_work_on_is_billed(first, usage):
    failed = serve_one_call(first, ScriptedAnswer([COMPLETION]), routes=(ONE, TWO)).receipts[0]

    assert (failed.usage, failed.estimated) == (usage, usage is not None)


def test_counting_a_prompt_may_take_longer_than_the_first_byte():
    slow = FakeEstimator(takes=30.0)
    done = serve_one_call(
        stream(BEAT, broken_connection()), ScriptedAnswer([COMPLETION]), estimator=slow
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.receipts[0].usage == ESTIMATE


def test_a_short_retry_after_is_waited_for():
    done = serve_one_call(failed_answer(429, {"retry-after": "7"}), ScriptedAnswer([COMPLETION]))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.took == pytest.approx(7.0)
    assert done.last.overhead == pytest.approx(0.0)


def test_a_retry_after_that_is_a_date_is_waited_for_like_a_number():
    now, then = "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:07 GMT"
    done = serve_one_call(
        failed_answer(429, {"retry-after": then, "date": now}), ScriptedAnswer([COMPLETION])
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.took == pytest.approx(7.0)


def test_a_long_retry_after_is_passed_on():
    done = serve_one_call(failed_answer(429, {"retry-after": "9"}))

    assert done.error is not None
    assert done.error.retry_after == 9.0
    assert done.took == pytest.approx(0.0)


def test_a_first_byte_that_does_not_come_is_reported_as_a_timeout_and_billed():
    done = serve_one_call(stream(BEAT, SILENCE), sent_call=streaming_call())

    assert isinstance(done.error, _UpstreamTimeout)
    assert (done.error.status, done.error.code) == (504, "upstream_timeout")
    assert done.outcomes == [(Outcome.FAILED, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert 10.0 <= done.took <= 11.0


def test_keep_alives_do_not_put_the_first_byte_off():
    done = serve_one_call(stream(*[BEAT] * 50, SILENCE), sent_call=streaming_call())

    assert isinstance(done.error, _UpstreamTimeout)


def test_a_timeout_the_upstream_itself_reports_is_not_billed():
    done = serve_one_call(failed_answer(504), patience=RetryPolicy(retries=0))

    assert done.error is not None
    assert done.error.code == "upstream_timeout"
    assert (done.last.usage, done.last.estimated) == (None, False)


def test_each_route_has_its_own_time_for_the_first_byte():
    done = serve_one_call(SILENCE, SILENCE, routes=(ONE, TWO))

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert 20.0 <= done.took <= 22.0


def opening(*kinds: str) -> bytes:
    return b"".join(f'event: {kind}\ndata: {{"type":"{kind}"}}\n\n'.encode() for kind in kinds)


#: What opens a stream on each wire, and where it was asked for.
OPENINGS = {
    "chat": (chunk(""), "chat/completions", "openai"),
    "responses": (opening("response.created", "response.in_progress"), "responses", "openai"),
    "messages": (opening("message_start", "ping"), "chat/completions", "anthropic"),
}
ERRORS = [b'data: {"error":{"message":"no"}}\n\n', b'data: {"type":"response.failed"}\n\n']


@pytest.mark.parametrize("opened", OPENINGS.values(), ids=OPENINGS)
@pytest.mark.parametrize("end", [*ERRORS, broken_connection(), SILENCE])
def test_a_stream_that_opens_and_says_nothing_leaves_the_call_to_the_next_route(opened, end):
    first_event, endpoint, kind = opened
    request = streaming_call(endpoint=endpoint)
    routes = (route("zero", kind=kind), ONE)
    done = serve_one_call(
        stream(first_event, end), stream(STREAM), sent_call=request, routes=routes
    )

    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.ANSWERED, True)]
    assert done.receipts[0].ttft is None
    assert (done.receipts[0].usage is None) == (end in ERRORS)
    assert done.caller.body.startswith(chunk("Hel"))


@pytest.mark.parametrize("opened", OPENINGS.values(), ids=OPENINGS)
def test_a_stream_that_opens_and_falls_silent_is_late_for_its_first_byte(opened):
    first_event, endpoint, kind = opened
    request = streaming_call(endpoint=endpoint)
    done = serve_one_call(
        stream(first_event, SILENCE), sent_call=request, routes=(route(kind=kind),)
    )

    assert isinstance(done.error, _UpstreamTimeout)
    assert done.error.status == 504
    assert 10.0 <= done.took <= 11.0


@pytest.mark.parametrize("first", [CONNECTING, ScriptedAnswer([SILENCE], status=503)])
@pytest.mark.parametrize("leaves", [3.0, None])
def test_an_attempt_that_no_upstream_worked_on_is_not_billed(first, leaves):
    done = serve_one_call(first, leaves_after=leaves)

    assert isinstance(done.error, ClientDisconnected if leaves else _UpstreamTimeout)
    assert (done.last.usage, done.last.estimated) == (None, False)


def test_the_cause_of_an_upstream_failure_is_in_the_log_and_not_in_the_answer(caplog):
    lost = unreachable()
    lost.detail = "gaierror: no such host inner.host"
    done = serve_one_call(lost, patience=RetryPolicy(retries=0))

    assert "upstream one: upstream_unreachable (gaierror: no such host inner.host)" in caplog.text
    assert done.error is lost
    assert "inner.host" not in done.error.message


def test_an_upstream_failure_names_the_upstream_to_the_caller():
    done = serve_one_call(unreachable(), patience=RetryPolicy(retries=0))

    assert done.error is not None
    assert done.error.message == "not there (upstream: one)"
    assert done.error.details["upstream"] == "one"


def test_a_call_that_its_upstream_refuses_keeps_the_upstreams_own_words():
    refusal = UpstreamError("no such voice", status=404, code="not_found", retryable=False)
    done = serve_one_call(refusal, patience=RetryPolicy(retries=0))

    assert done.error is not None
    assert done.error.message == "no such voice"
    assert "upstream" not in done.error.details
