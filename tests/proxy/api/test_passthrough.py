import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.passthrough import Relay
from proxy.calls.ports import Head
from proxy.errors import CallerError, ProxyError, Unready, UpstreamError
from proxy.records.receipt import Outcome, ServedBy, dollars
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import COMPLETION
from tests.fakes.asgi import AsgiConnection, refusal
from tests.fakes.clock import run_in_instant_time
from tests.fakes.receipts import a_receipt

HEAD = Head(200, {"Content-Type": "application/json"}, "gpt-x", ())
RECEIPT = a_receipt(usage=Usage(input=5, cache_read=64), cost_nanos=1_234_500, overhead=0.000456)


def relay(connection: AsgiConnection) -> Relay:
    return Relay("call_1", connection.receive, connection.send)


def whole(head: Head, receipt=RECEIPT) -> AsgiConnection:
    connection = AsgiConnection()
    run_in_instant_time(relay(connection).send_whole(head, COMPLETION, receipt))
    return connection


def refuse(error: ProxyError) -> AsgiConnection:
    connection = AsgiConnection()
    run_in_instant_time(relay(connection).refuse(error))
    return connection


def test_a_whole_answer_says_what_it_took_and_cost():
    answered = whole(HEAD)

    assert (answered.status, answered.body) == (200, COMPLETION)
    assert answered.headers == {
        "content-type": "application/json",
        "content-length": str(len(COMPLETION)),
        "x-request-id": "call_1",
        "x-thriftgate-model": "gpt-x",
        "x-thriftgate-cached-tokens": "64",
        "x-thriftgate-cost-usd": "0.0012345",
        "x-thriftgate-overhead-ms": "0.46",
    }


def test_the_cost_of_earlier_attempts_is_part_of_the_calls_cost():
    connection = AsgiConnection()
    caller = relay(connection)
    caller.wants_trailer = True
    caller.note_attempt(a_receipt(cost_nanos=765_500))
    caller.note_attempt(a_receipt(usage=None, ttft=None, cost_nanos=None))
    run_in_instant_time(caller.send_whole(HEAD, COMPLETION, RECEIPT))

    assert connection.headers["x-thriftgate-cost-usd"] == "0.002"
    assert b'"x-thriftgate-cost-usd":"0.002"' in caller.closing_event(RECEIPT)
    caller.note_attempt(a_receipt(cost_nanos=None))
    assert b"cost-usd" not in caller.closing_event(RECEIPT)


def test_a_price_nobody_knows_is_not_told():
    headers = whole(HEAD, a_receipt(usage=None, cost_nanos=None)).headers

    assert "x-thriftgate-cost-usd" not in headers
    assert "x-thriftgate-cached-tokens" not in headers


def test_an_answer_of_no_model_names_none():
    assert "x-thriftgate-model" not in whole(Head(200, {}, "", ())).headers


def test_only_the_callers_business_is_passed_on_of_an_upstreams_headers():
    head = Head(
        200,
        {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "Transfer-Encoding": "chunked",
            "Set-Cookie": "a=b",
            "Server": "inner",
            "X-Request-Id": "theirs",
            "Request-Id": "theirs, said twice",
            "OpenAI-Organization": "ours",
            "OpenAI-Processing-Ms": "12",
            "X-RateLimit-Remaining-Tokens": "9",
            "anthropic-ratelimit-requests-limit": "8",
            "Retry-After": "3",
        },
        "m",
        (),
    )
    ours = {"x-request-id", "x-thriftgate-model", "content-length"}
    ours |= {f"x-thriftgate-{name}" for name in ("cached-tokens", "cost-usd", "overhead-ms")}

    assert set(whole(head).headers) - ours == {
        "content-type",
        "openai-processing-ms",
        "x-ratelimit-remaining-tokens",
        "anthropic-ratelimit-requests-limit",
        "retry-after",
        "x-thriftgate-upstream-request-id",
    }
    assert whole(head).headers["x-request-id"] == "call_1"
    assert whole(head).headers["x-thriftgate-upstream-request-id"] == "theirs"


def test_anthropics_request_id_is_passed_under_the_same_name():
    headers = whole(Head(200, {"request-id": "req_1"}, "m", ())).headers

    assert headers["x-thriftgate-upstream-request-id"] == "req_1"


@given(st.text(max_size=30), st.lists(st.text(max_size=40), max_size=3).map(tuple))
def test_no_words_of_a_caller_can_end_a_header(model, notes):
    headers = whole(Head(200, {}, model, notes)).headers

    assert all(value.isprintable() for value in headers.values())
    assert ("x-thriftgate-notes" in headers) == bool(notes)


def test_notes_are_cut_short():
    assert len(whole(Head(200, {}, "m", ("x" * 5000,))).headers["x-thriftgate-notes"]) == 1024


def test_a_stream_is_sent_piece_by_piece_without_a_price_in_its_head():
    connection = AsgiConnection()
    caller = relay(connection)

    async def work() -> None:
        assert not caller.is_begun
        await caller.begin(HEAD)
        assert caller.is_begun
        await caller.send(b"a")
        await caller.end(b"")

    run_in_instant_time(work())
    assert [message.get("more_body") for message in connection.sent] == [None, True, False]
    assert "x-thriftgate-cost-usd" not in connection.headers
    assert "content-length" not in connection.headers


def test_a_streams_head_says_what_the_gateway_took_until_then():
    clock = iter([10.0, 10.5, 12.5, 12.75])
    timeline = Timeline(lambda: next(clock))
    with timeline.waiting:
        pass
    connection = AsgiConnection()

    async def work() -> None:
        await Relay("call_1", connection.receive, connection.send, timeline).begin(HEAD)

    run_in_instant_time(work())
    assert connection.headers["x-thriftgate-overhead-ms"] == "750.00"


def test_a_trailer_is_a_comment_for_those_who_ask():
    caller = relay(AsgiConnection())
    assert caller.closing_event(RECEIPT) == b""

    caller.wants_trailer = True
    trailer = caller.closing_event(RECEIPT)
    assert trailer.startswith(b": thriftgate {")
    assert trailer.endswith(b"}\n\n")
    assert json.loads(trailer.removeprefix(b": thriftgate ")) == {
        "x-thriftgate-cached-tokens": "64",
        "x-thriftgate-cost-usd": "0.0012345",
        "x-thriftgate-overhead-ms": "0.46",
    }


def test_a_trailer_tells_which_upstreams_broke_off_and_were_continued():
    caller = relay(AsgiConnection())
    caller.wants_trailer = True
    broken = msgspec.structs.replace(
        RECEIPT, outcome=Outcome.BROKEN, final=False, upstream="one", error="upstream_cut_off"
    )
    caller.note_attempt(msgspec.structs.replace(broken, outcome=Outcome.FAILED))
    assert b"continued" not in caller.closing_event(RECEIPT)

    caller.note_attempt(broken)
    account = json.loads(caller.closing_event(RECEIPT).removeprefix(b": thriftgate "))
    assert account["x-thriftgate-continued"] == "one: upstream_cut_off"
    assert account["x-thriftgate-cost-usd"] == "0.0037035"


def test_a_draft_that_broke_off_is_not_told_as_continued():
    caller = relay(AsgiConnection())
    caller.wants_trailer = True
    draft = msgspec.structs.replace(
        RECEIPT, outcome=Outcome.BROKEN, final=False, served_by=ServedBy.DRAFT
    )
    caller.note_attempt(draft)
    account = json.loads(caller.closing_event(RECEIPT).removeprefix(b": thriftgate "))

    assert "x-thriftgate-continued" not in account
    assert account["x-thriftgate-cost-usd"] == "0.002469"


def end_call(path: str, *, begun: bool = True, over: bool = False) -> AsgiConnection:
    connection = AsgiConnection()
    caller = relay(connection)

    async def work() -> None:
        if begun:
            await caller.begin(HEAD)
            await caller.send(b"data: 1\n\n")
        if over:
            await caller.end(b"")
        await caller.end_call(path, CallerError("It was ended.", code="call_ended"))

    run_in_instant_time(work())
    return connection


def test_a_stream_that_is_ended_says_so_and_an_answer_that_had_not_begun_is_refused():
    stream = end_call("/v1/chat/completions")

    assert stream.body.startswith(b"data: 1\n\ndata: ")
    assert b'"code":"call_ended"' in stream.body
    assert refusal(end_call("/v1/messages", begun=False))["code"] == "call_ended"


@pytest.mark.parametrize(("path", "over"), [("/v1/audio/speech", False), ("/v1/responses", True)])
def test_an_answer_that_is_no_stream_or_is_over_gets_no_more_bytes(path, over):
    assert end_call(path, over=over).body == b"data: 1\n\n"


@pytest.mark.parametrize(
    ("wait", "seconds", "millis"), [(0.0, "0", "0"), (0.2, "1", "200"), (7.0, "7", "7000")]
)
def test_a_wait_is_reported_in_whole_seconds_never_too_few(wait, seconds, millis):
    answer = refuse(Unready("Full.", code="full", retry_after=wait))

    assert refusal(answer)["code"] == "full"
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == (seconds, millis)
    assert "x-should-retry" not in answer.headers


def test_an_error_that_would_repeat_is_not_worth_a_retry():
    answer = refuse(CallerError("Mend it.", code="bad", param="model"))

    assert (answer.status, refusal(answer)["param"]) == (400, "model")
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(("word", "header"), [(True, "true"), (False, "false"), (None, None)])
def test_an_upstreams_word_on_retries_reaches_the_caller(word, header):
    error = UpstreamError("Slow down.", status=429, code="slow", retryable=True, retry_after=7.0)
    error.should_retry = word
    error.headers = {"x-ratelimit-remaining-tokens": "0"}
    headers = refuse(error).headers

    assert headers.get("x-should-retry") == header
    assert headers["x-ratelimit-remaining-tokens"] == "0"


def test_a_caller_is_gone_once_it_disconnects():
    run_in_instant_time(
        relay(AsgiConnection([b"late", b"later"], leaves_after=2.0)).wait_until_gone()
    )


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (1_500_000_000, "1.5"),
        (12_000_000_000, "12"),
        (100_000_000_000_000, "100000"),
    ],
)
def test_money_is_reported_in_full_and_without_an_exponent(nanos, text):
    assert dollars(nanos) == text
