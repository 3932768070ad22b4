import gzip

import orjson
import pytest

from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import UpstreamError
from proxy.providers.openai.adapter import OpenAIWire
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import BEAT, COMPLETION, DONE, chunk, event, stream, usage_chunk
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import JSON, FakeExchange, ScriptedAnswer, broken_connection
from tests.proxy.calls.begun_answer import answer_and_pieces, begin_answer

pytestmark = pytest.mark.instant_time


@pytest.mark.parametrize(
    ("media", "is_stream", "is_whole"),
    [
        ("text/event-stream; charset=utf-8", True, False),
        ("Text/Event-Stream", True, False),
        ("application/json", False, True),
        ("Application/JSON; charset=utf-8", False, True),
        ("audio/mpeg", False, False),
        ("", False, False),
    ],
)
def test_the_media_type_says_how_an_answer_comes(media, is_stream, is_whole):
    exchange = FakeExchange(ScriptedAnswer([], headers={"content-type": media}))
    answer = UpstreamAnswer(exchange, OpenAIWire(), Timeline(lambda: 0.0), generates=False)

    assert (answer.is_stream, answer.is_whole) == (is_stream, is_whole)


def test_a_whole_answer_is_one_piece_and_metered():
    answer, pieces = run_in_instant_time(
        answer_and_pieces(ScriptedAnswer([COMPLETION[:9], COMPLETION[9:]], headers=JSON))
    )

    assert pieces == [COMPLETION]
    assert answer.meter.usage == Usage(input=36, cache_read=64, output=10)


def test_a_stream_comes_in_whole_events_whatever_its_chunks():
    whole = chunk("Hel") + chunk("lo") + usage_chunk() + DONE
    script = stream(*(whole[start : start + 7] for start in range(0, len(whole), 7)))
    answer, pieces = run_in_instant_time(answer_and_pieces(script))

    assert pieces == [chunk("Hel"), chunk("lo"), usage_chunk(), DONE]
    assert answer.meter.is_finished


def test_keep_alives_before_the_answer_come_with_its_first_event():
    _, pieces = run_in_instant_time(answer_and_pieces(stream(BEAT, BEAT, chunk("a"), BEAT)))

    assert pieces == [BEAT + BEAT + chunk("a"), BEAT]


def test_keep_alives_without_end_are_not_held_without_end():
    beat = b": " + b"x" * 40_000 + b"\n\n"
    answer, _ = run_in_instant_time(answer_and_pieces(stream(*[beat] * 9, chunk("a"))))

    assert answer.first_piece == beat * 2 + chunk("a")


def test_bytes_after_the_last_event_are_passed_on_and_metered():
    answer, pieces = run_in_instant_time(answer_and_pieces(stream(chunk("a"), DONE.rstrip())))

    assert pieces == [chunk("a"), DONE.rstrip()]
    assert answer.meter.is_finished


@pytest.mark.parametrize(
    ("pieces", "is_read"),
    [([chunk("a")], True), ([chunk("a") + DONE.rstrip()], False), ([chunk("a"), DONE], False)],
)
def test_a_stream_is_read_once_its_last_bytes_were_passed_on(pieces, is_read):
    answer = run_in_instant_time(begin_answer(stream(*pieces)))

    assert answer.is_read is is_read


def test_a_stream_of_one_unfinished_event_has_begun():
    _, pieces = run_in_instant_time(answer_and_pieces(stream(chunk("a").rstrip())))

    assert pieces == [chunk("a").rstrip()]


async def test_the_first_content_byte_and_the_waits_are_timed():
    clock_s = [0.0]

    class SlowExchange(FakeExchange):
        async def read(self) -> bytes:
            clock_s[0] += 2.0
            return await super().read()

    timeline = Timeline(lambda: clock_s[0])
    script = stream(BEAT, chunk("a"), DONE)
    answer = UpstreamAnswer(SlowExchange(script), OpenAIWire(), timeline, generates=True)
    await answer.commit()
    while await answer.next():
        pass

    assert (timeline.ttft, timeline.waited_s) == (4.0, 8.0)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (stream(), "upstream_failed_early"),
        (stream(BEAT), "upstream_failed_early"),
        (stream(DONE), "upstream_failed_early"),
        (stream(b'data: {"error":{"message":"no"}}\n\n'), "upstream_error"),
        (stream(b'data: {"error":{"code":"rate_limit_exceeded"}}\n\n'), "rate_limit_exceeded"),
        (stream(b'data: {"error":{"type":"overloaded_error"}}\n\n'), "upstream_overloaded"),
        (stream(BEAT, broken_connection()), "upstream_connection_broken"),
        (ScriptedAnswer([b"{", broken_connection()]), "upstream_connection_broken"),
        (ScriptedAnswer([broken_connection()], headers={}), "upstream_connection_broken"),
    ],
)
def test_an_answer_that_does_not_begin_is_a_failure(script, code):
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(begin_answer(script))

    assert caught.value.code == code


ERROR = event({"error": {"message": "no"}})


@pytest.mark.parametrize("events", [(), (BEAT,), (ERROR, chunk("a")), (DONE,)])
async def test_a_stream_that_the_provider_keeps_comes_as_it_is(events):
    exchange = FakeExchange(stream(*events))
    answer = UpstreamAnswer(
        exchange, OpenAIWire(), Timeline(ticks), generates=False, is_retrieval=True
    )
    await answer.commit()
    pieces = [answer.first_piece]
    while piece := await answer.next():
        pieces.append(piece)

    assert b"".join(pieces) == b"".join(events)


@pytest.mark.parametrize("rest", [(ERROR,), (ERROR, DONE)])
def test_content_before_an_error_begins_an_answer_in_one_piece_or_two(rest):
    joined, pieces = run_in_instant_time(answer_and_pieces(stream(b"".join([chunk("a"), *rest]))))
    apart, together = run_in_instant_time(answer_and_pieces(stream(chunk("a"), *rest)))

    assert b"".join(pieces) == b"".join(together) == b"".join([chunk("a"), *rest])
    assert joined.meter.is_broken
    assert apart.meter.is_broken


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error":{"message":"no","code":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
        (b'[{"error":{"code":400,"message":"no","status":"INVALID"}}]', "400"),
        (b'{"detail":"no"}', "upstream_error"),
        (b"<html>", "upstream_malformed"),
        (b"{}", "upstream_malformed"),
        (b'{"error":{"message":"no","score":NaN}}', "upstream_error"),
    ],
)
async def test_a_whole_answer_that_is_none_is_a_failure(body, code):
    timeline = Timeline(ticks)
    answer = UpstreamAnswer(
        FakeExchange(ScriptedAnswer([body])), OpenAIWire(), timeline, generates=True
    )
    with pytest.raises(UpstreamError) as caught:
        await answer.commit()
    assert caught.value.code == code
    assert timeline.ttft is None

    assert answer.meter.is_broken


NEARLY = [
    COMPLETION.replace(b'"choices"', b'"score": NaN, "choices"', 1),
    COMPLETION.replace(b'"choices"', b'"score": -Infinity, "choices"', 1),
    b"\xef\xbb\xbf" + COMPLETION,
    COMPLETION.replace(b'"choices"', b'"a": "\\ud83d", "choices"', 1),
    COMPLETION.replace(b'"choices"', b'"a": "one\nline\x01", "choices"', 1),
    COMPLETION.decode().encode("utf-16"),
    b"\xfe\xff" + COMPLETION.decode().encode("utf-16-be"),
    COMPLETION.decode().encode("utf-16-be"),
    COMPLETION.decode().encode("utf-32"),
]

NAMES = ["NaN", "Infinity", "mark", "surrogate", "control", "UTF-16", "BE", "no mark", "UTF-32"]


@pytest.mark.parametrize("body", NEARLY, ids=NAMES)
def test_an_answer_of_nearly_json_is_passed_on_unmodified_and_its_usage_read(body):
    assert body != COMPLETION
    answer = run_in_instant_time(begin_answer(ScriptedAnswer([body]), generates=True))

    assert answer.first_piece == body
    assert answer.meter.usage == Usage(input=36, cache_read=64, output=10)
    assert answer.meter.is_finished


def test_a_truncated_answer_is_passed_on_and_its_text_counted():
    answer = run_in_instant_time(begin_answer(ScriptedAnswer([COMPLETION[:-9]]), generates=True))

    assert answer.first_piece == COMPLETION[:-9]
    assert answer.meter.usage is None
    assert (
        answer.meter.delivered_text()
        == orjson.loads(COMPLETION)["choices"][0]["message"]["content"]
    )


class Strict:
    """Takes JSON alone."""

    def feed(self, piece: bytes) -> bytes:
        return orjson.dumps(orjson.loads(piece)["id"])

    def end(self) -> bytes:
        return b""


@pytest.mark.parametrize("body", NEARLY)
async def test_a_caller_that_takes_json_alone_gets_it(body):
    answer = UpstreamAnswer(
        FakeExchange(ScriptedAnswer([body])), OpenAIWire(), Timeline(ticks), generates=True
    )
    await answer.commit(Strict())

    assert answer.first_piece == b'"chatcmpl-1"'


def test_an_untranslatable_answer_that_was_paid_for_is_not_retried():
    async def work() -> None:
        exchange = FakeExchange(ScriptedAnswer([COMPLETION[:-9]]))
        await UpstreamAnswer(exchange, OpenAIWire(), Timeline(ticks), generates=True).commit(
            Strict()
        )

    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(work())

    assert (caught.value.code, caught.value.retryable) == ("upstream_malformed", False)


@pytest.mark.parametrize(
    "body",
    [
        b")]}',\n" + COMPLETION,
        b"[" + COMPLETION + b"]",
        b"<br />Warning\n" + COMPLETION,
        orjson.dumps(COMPLETION.decode()),
        gzip.compress(COMPLETION, mtime=0),
    ],
    ids=["prefix", "list", "warning", "quoted", "packed"],
)
def test_a_whole_answer_in_some_wrapping_is_not_asked_for_again(body):
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(begin_answer(ScriptedAnswer([body]), generates=True))

    assert (caught.value.code, caught.value.retryable) == ("upstream_malformed", False)


@pytest.mark.parametrize("body", [b"", b"\n" * 999, b"<!DOCTYPE html><p>Down", b"{}", b"<html>"])
def test_a_body_that_no_model_generated_is_asked_for_again(body):
    with pytest.raises(UpstreamError) as caught:
        run_in_instant_time(begin_answer(ScriptedAnswer([body]), generates=True))

    assert caught.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":[{"index":0}]}',
        b'{"data":[{"embedding":[0.1]}]}',
        b'{"id":"c","choices":[]}',
        b'{"usage":{"prompt_tokens":9}}',
        b'{"output":[],"status":"failed","error":{"code":"server_error"}}',
    ],
)
def test_a_whole_answer_that_says_little_is_one(body):
    assert (
        run_in_instant_time(begin_answer(ScriptedAnswer([body]), generates=True)).first_piece
        == body
    )


def test_an_endpoint_that_generates_nothing_may_answer_anything():
    assert run_in_instant_time(begin_answer(ScriptedAnswer([b"{}"]))).first_piece == b"{}"


async def test_a_whole_answer_is_there_in_the_callers_words():
    class Shouting:
        def feed(self, piece: bytes) -> bytes:
            return piece.upper()

        def end(self) -> bytes:
            return b"!"

    exchange = FakeExchange(ScriptedAnswer([COMPLETION]))
    answer = UpstreamAnswer(exchange, OpenAIWire(), Timeline(ticks), generates=True)
    await answer.commit(Shouting())
    assert answer.first_piece == COMPLETION.upper() + b"!"
    assert answer.meter.usage == Usage(input=36, cache_read=64, output=10)


def test_events_that_open_a_stream_come_with_its_first_content():
    answer, pieces = run_in_instant_time(
        answer_and_pieces(stream(chunk(""), BEAT, chunk(""), chunk("a"), DONE))
    )

    assert pieces == [chunk("") + BEAT + chunk("") + chunk("a"), DONE]
    assert answer.meter.is_finished


def test_openings_are_not_held_without_end():
    opening = event({"choices": [], "padding": "x" * 400_000})
    answer, pieces = run_in_instant_time(
        answer_and_pieces(stream(*[opening] * 4, chunk("a"), DONE))
    )

    assert pieces == [opening * 3, opening, chunk("a"), DONE]
    assert answer.meter.has_begun


def test_a_model_that_writes_tokens_without_text_is_not_held_until_its_stream_ends():
    empty = [
        event({"id": "chatcmpl-1", "choices": [{"delta": {"content": ""}}], "token": n})
        for n in range(40)
    ]
    answer, pieces = run_in_instant_time(answer_and_pieces(stream(*empty, DONE)))

    assert pieces == [b"".join(empty[:17]), *empty[17:], DONE]
    assert answer.meter.is_finished
