"""Answers that are large, or hold very many keys."""

import asyncio
import gzip

import pytest

from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import UpstreamError
from proxy.providers.openai.adapter import OpenAIWire
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import COMPLETION, DONE, chunk, stream
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.loop_turns import with_loop_turns
from tests.fakes.upstream import JSON, FakeExchange, ScriptedAnswer, broken_connection
from tests.proxy.calls.begun_answer import answer_and_pieces, begin_answer

pytestmark = pytest.mark.instant_time


@pytest.mark.parametrize("media", ["text/html", "text/plain; charset=utf-8", ""])
def test_an_answer_of_an_endpoint_that_generates_is_read_whole(media):
    script = ScriptedAnswer([COMPLETION[:9], COMPLETION[9:]], headers={"content-type": media})
    answer = run_in_instant_time(begin_answer(script, generates=True))

    assert (answer.is_whole, answer.first_piece) == (True, COMPLETION)
    assert answer.meter.usage is not None


#: More keys than are parsed on the event loop.
DENSE = b'"logprobs":[' + b",".join([b'{"a":0,"b":1}'] * 300_000) + b"]"


def test_an_answer_with_too_many_keys_is_passed_on_unmodified_with_its_usage_read():
    body = b'{"id":"c",%b,"usage":{"prompt_tokens":9,"completion_tokens":2}}' % DENSE
    answer, pieces = run_in_instant_time(answer_and_pieces(ScriptedAnswer([body], headers=JSON)))

    assert pieces == [body]
    assert answer.meter.usage == Usage(input=9, output=2)


def test_a_body_with_too_many_keys_that_is_no_object_is_no_answer():
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(
            begin_answer(ScriptedAnswer([b"[{%b}]" % DENSE], headers=JSON), generates=True)
        )

    assert caught.value.code == "upstream_malformed"


def test_a_mark_before_an_answer_with_too_many_keys_leaves_it_one():
    body = b"\xef\xbb\xbf{%b}" % DENSE
    answer, pieces = run_in_instant_time(answer_and_pieces(ScriptedAnswer([body], headers=JSON)))

    assert pieces == [body]
    assert not answer.meter.is_broken


def test_an_event_too_large_to_be_read_passes_and_others_run_before_it_is_looked_through():
    large = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (
        b"a" * (9 << 20)
    )

    (answer, pieces), turns = run_in_instant_time(
        with_loop_turns(answer_and_pieces(stream(large, DONE)))
    )
    assert b"".join(pieces) == large + DONE
    assert (answer.meter.has_begun, answer.meter.is_finished) == (True, True)
    assert turns > 0


EVENTS = chunk("a") + DONE


@pytest.mark.parametrize(
    "body",
    [
        EVENTS.decode().encode("utf-16"),
        EVENTS.decode().encode("utf-16-le"),
        EVENTS.decode().encode("utf-32-be"),
        gzip.compress(EVENTS, mtime=0),
        COMPLETION,
    ],
    ids=["UTF-16", "no mark", "UTF-32", "packed", "JSON"],
)
def test_a_stream_that_no_client_can_read_is_not_asked_for_again(body):
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(begin_answer(stream(body[:99], body[99:]), generates=True))

    assert (caught.value.code, caught.value.retryable) == ("upstream_malformed", False)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error":{"code":"rate_limit_exceeded","message":"no"}}', "rate_limit_exceeded"),
        (b"<html>Down</html>", "upstream_failed_early"),
    ],
)
def test_an_error_in_place_of_a_stream_is_a_failure_that_is_tried_elsewhere(body, code):
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(begin_answer(stream(body), generates=True))

    assert (caught.value.code, caught.value.retryable) == (code, True)


def test_an_answer_with_too_many_keys_is_not_translated():
    class Never:
        def feed(self, run: bytes) -> bytes:
            raise AssertionError("it was parsed")

        end = rest = lambda self: b""

    async def work() -> None:
        exchange = FakeExchange(ScriptedAnswer([b"{%b}" % DENSE], headers=JSON))
        answer = UpstreamAnswer(exchange, OpenAIWire(), Timeline(ticks), generates=True)
        await answer.commit(Never())

    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(work())
    assert (caught.value.code, caught.value.retryable) == ("upstream_malformed", False)


def test_other_calls_run_while_a_large_answer_is_measured():
    body = b'{"id":"c","data":"%b"}' % (b"x" * 2_000_000)

    _, turns = run_in_instant_time(
        with_loop_turns(answer_and_pieces(ScriptedAnswer([body], headers=JSON)))
    )

    assert turns > 20


def test_nearly_json_with_very_many_keys_is_passed_on_and_its_usage_read():
    keys = b",".join([b'{"a":NaN}'] * 60_000)
    body = b'{"id":"a","choices":[{"logprobs":[%b]}],"usage":%b}' % (
        keys,
        b'{"prompt_tokens":9,"completion_tokens":2}',
    )
    answer = asyncio.run(begin_answer(ScriptedAnswer([body]), generates=True))

    assert answer.first_piece == body
    assert answer.meter.usage == Usage(input=9, output=2)
    assert answer.meter.upstream_id == "a"


async def test_the_received_part_of_a_broken_whole_answer_is_metered():
    exchange = FakeExchange(ScriptedAnswer([COMPLETION[:-20], broken_connection()]))
    answer = UpstreamAnswer(exchange, OpenAIWire(), Timeline(ticks), generates=True)
    with pytest.raises(UpstreamError):
        await answer.commit()

    assert answer.meter.delivered_text() == "Hi"
