"""A call that is answered or refused: what its caller gets, and what its receipt says."""

import asyncio

import pytest

from proxy.errors import CallerError, ProxyError
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
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
    After,
    FakeTransport,
    ScriptedAnswer,
    broken_connection,
    unreachable,
)
from tests.proxy.api.served_calls import EXACT, ONE, serve_one_call, streaming_call


def test_a_whole_answer_reaches_the_caller_byte_for_byte_with_its_price():
    done = serve_one_call(ScriptedAnswer([COMPLETION]))

    assert done.caller.body == COMPLETION
    assert done.caller.receipt is done.last
    assert done.caller.head is not None
    assert done.caller.head.model == "m"
    assert done.last.usage == EXACT
    assert not done.last.estimated
    assert done.last.cost_nanos == 36_000 + 6_400 + 40_000
    assert (done.last.status, done.last.error, done.last.upstream_id) == (200, "", "chatcmpl-1")


def test_a_whole_answer_in_pieces_is_one_answer():
    assert serve_one_call(ScriptedAnswer([COMPLETION[:7], COMPLETION[7:]])).caller.pieces == [
        COMPLETION
    ]


def test_the_receipt_of_a_whole_answer_is_kept_before_the_caller_has_it():
    assert serve_one_call(ScriptedAnswer([COMPLETION])).caller.observed == [1]


def test_the_receipt_of_a_stream_is_kept_before_the_caller_has_its_end():
    done = serve_one_call(stream(chunk("a"), chunk("b"), DONE), sent_call=streaming_call())

    assert done.caller.observed == [0, 0, 1]


def test_the_receipt_of_a_stream_without_an_ending_event_is_kept_before_its_end():
    last = chunk("a", reason="stop")
    done = serve_one_call(stream(last), sent_call=streaming_call(), trailer=b": cost\n\n")

    assert done.caller.pieces == [last, b": cost\n\n"]
    assert done.caller.observed == [0, 1]
    assert done.outcomes == [(Outcome.ANSWERED, True)]


def test_a_stream_reaches_the_caller_without_the_usage_it_did_not_ask_for():
    done = serve_one_call(stream(STREAM), sent_call=streaming_call())

    assert done.caller.body == SHOWN
    assert done.last.usage == EXACT
    assert done.caller.is_ended


def test_the_answers_first_byte_is_timed_from_the_calls_arrival():
    done = serve_one_call(stream(BEAT, chunk("a"), DONE), sent_call=streaming_call())

    assert done.last.ttft == 0.0
    assert done.last.overhead == 0.0


def test_a_trailer_stands_before_the_end_of_a_stream():
    done = serve_one_call(
        stream(chunk("a"), DONE), sent_call=streaming_call(), trailer=b": cost\n\n"
    )

    assert done.caller.body == chunk("a") + b": cost\n\n" + DONE


def test_an_answer_of_another_kind_is_passed_on_as_it_comes_and_gets_no_trailer():
    sound = ScriptedAnswer([b"\x00\x01", b"\x02"], headers={"content-type": "audio/mpeg"})
    done = serve_one_call(
        sound, sent_call=call(ASKED, endpoint="audio/speech"), trailer=b": cost\n\n"
    )

    assert done.caller.pieces == [b"\x00\x01", b"\x02"]
    assert done.last.outcome is Outcome.ANSWERED
    assert (done.last.usage, done.last.cost_nanos) == (None, None)


def test_an_answer_without_a_body_is_an_answer():
    done = serve_one_call(
        ScriptedAnswer([], status=204, headers={}), sent_call=call(ASKED, endpoint="files/f")
    )

    assert (done.caller.body, done.caller.is_ended, done.last.status) == (b"", True, 204)


def test_usage_that_never_came_is_estimated():
    done = serve_one_call(stream(chunk("a"), DONE), sent_call=streaming_call())

    assert (done.last.outcome, done.last.usage, done.last.estimated) == (
        Outcome.ANSWERED,
        ESTIMATE,
        True,
    )


def test_usage_that_cannot_be_true_is_estimated():
    zero = COMPLETION.replace(b": 10,", b": 0,").replace(b": 110,", b": 100,")

    assert serve_one_call(ScriptedAnswer([zero])).last.usage == ESTIMATE


def test_only_exact_usage_teaches_the_estimator():
    learner = FakeEstimator()
    serve_one_call(ScriptedAnswer([COMPLETION]), estimator=learner)
    serve_one_call(
        stream(chunk("a"), broken_connection()), sent_call=streaming_call(), estimator=learner
    )

    assert learner.learnt == [EXACT]


def test_an_unknown_model_leaves_a_receipt_of_the_refusal():
    done = serve_one_call(sent_call=call(ASKED.replace(b'"m"', b'"n"')))

    assert isinstance(done.error, CallerError)
    assert done.outcomes == [(Outcome.REFUSED, True)]
    assert (done.last.status, done.last.error, done.last.route) == (404, "model_not_found", "")


@pytest.mark.parametrize("before", [0, 1])
def test_a_call_that_cannot_be_said_to_an_upstream_is_refused(before):
    routes = (*[ONE] * before, route("claude", kind="anthropic"))
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"n":3}'
    done = serve_one_call(*[failed_answer(503)] * before, sent_call=call(body), routes=routes)

    assert isinstance(done.error, CallerError)
    assert done.outcomes == [(Outcome.FAILED, False)] * before + [(Outcome.REFUSED, True)]
    assert (done.last.attempt, done.last.route) == (before, "claude/m")


def test_the_first_content_is_timed_not_the_opening():
    done = serve_one_call(
        stream(chunk(""), After(3.0, chunk("a")), DONE), sent_call=streaming_call()
    )

    assert done.last.ttft == pytest.approx(3.0)


@pytest.mark.parametrize("media", ["text/html", "text/plain", ""])
def test_a_page_is_no_answer_of_an_endpoint_that_generates(media):
    page = ScriptedAnswer([b"<html>Log in</html>"], headers={"content-type": media})
    done = serve_one_call(page, page)

    assert done.error is not None
    assert (done.error.status, done.error.code) == (502, "upstream_malformed")
    assert done.caller.body == b""
    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.FAILED, True)]
    assert (done.last.usage, done.last.cost_nanos) == (None, None)


@pytest.mark.parametrize("body", [ASKED, ASKED[:-1] + b',"n":3}'])
def test_a_large_body_is_prepared_the_same(body):
    large = body.replace(b"Hello", b"Hello" * 60_000)
    claude = route("claude", kind="anthropic")

    async def work() -> list[Receipt]:
        table, ledger = fake_dependencies(FakeTransport([unreachable()]), claude)
        with pytest.raises(ProxyError):
            await serve_call(call(large), FakeCaller(), table, Timeline(ticks))
        return ledger.receipts

    outcome = Outcome.REFUSED if b'"n"' in body else Outcome.FAILED
    assert [receipt.outcome for receipt in asyncio.run(work())] == [outcome]
