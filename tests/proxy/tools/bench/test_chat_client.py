import asyncio
import json

import pytest

from proxy.errors import OperatorError
from proxy.tools.bench.chat_client import BenchTarget, ChatClient, base_url
from proxy.tools.bench.stream_timing import CallTiming
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.streams import chat_usage, chunk, event
from tests.fakes.upstream import (
    EVENTS,
    JSON,
    SILENCE,
    After,
    FakeTransport,
    ScriptedAnswer,
    broken_connection,
)

END = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + event(
    {"choices": [], "usage": chat_usage(20, 3)}
)


def event_stream(*pieces: object) -> ScriptedAnswer:
    return ScriptedAnswer(pieces, headers=EVENTS)  # type: ignore[arg-type]


def refusal(status: int, **error: object) -> ScriptedAnswer:
    return ScriptedAnswer([json.dumps({"error": error}).encode()], status=status, headers=JSON)


def measure(script: object, **target: object) -> CallTiming:
    async def call() -> CallTiming:
        client = ChatClient(
            FakeTransport([script]),  # type: ignore[list-item]
            BenchTarget(base_url="http://engine/v1", **target),  # type: ignore[arg-type]
            ticks,
        )
        return await client.measure(client.body("m", "hello", 8))

    return run_in_instant_time(call())


def test_a_call_is_timed_from_sending_to_its_end():
    call = measure(event_stream(After(0.5, chunk("a")), After(0.25, chunk("b")), After(0.1, END)))

    assert call.ttft_s == pytest.approx(0.5)
    assert call.chunk_gaps_s == pytest.approx((0.25,))
    assert call.e2el_s == pytest.approx(0.85)
    assert call.prompt_tokens == 20


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (refusal(429, code="rate_limit_exceeded"), "HTTP 429 rate_limit_exceeded"),
        (ScriptedAnswer([b"busy"], status=503), "HTTP 503"),
        (event_stream(chunk("a"), broken_connection()), "upstream_connection_broken"),
        (event_stream(chunk("a"), SILENCE), "no end within 3 s"),
        (ScriptedAnswer([b"{}"]), "not a stream"),
        (event_stream(chunk("a")), "stream ended early"),
    ],
)
def test_a_failed_call_is_a_value_with_a_name(script, error):
    assert measure(script, timeout_s=3.0).error == error


def first_call(*scripts: ScriptedAnswer) -> tuple[int | None, list[dict[str, object]]]:
    async def call() -> tuple[int | None, list[dict[str, object]]]:
        transport = FakeTransport(scripts)
        client = ChatClient(transport, BenchTarget(base_url="http://engine/v1"), ticks)
        tokens = await client.first_call("m", "hello")
        return tokens, [json.loads(request.body) for _, request in transport.sent]

    return run_in_instant_time(call())


def test_a_model_that_wants_max_completion_tokens_gets_it_from_then_on():
    tokens, bodies = first_call(
        refusal(400, message="Use 'max_completion_tokens' instead."), event_stream(chunk("a"), END)
    )

    assert tokens == 20
    assert "max_tokens" in bodies[0]
    assert bodies[1]["max_completion_tokens"] == 16
    assert "max_tokens" not in bodies[1]


def test_a_server_that_knows_no_stream_options_is_not_asked_for_usage():
    _, bodies = first_call(
        refusal(400, message="unknown field stream_options"), event_stream(chunk("a"), END)
    )

    assert "stream_options" not in bodies[1]


def test_a_refused_first_call_ends_the_bench_with_what_the_server_says():
    with pytest.raises(OperatorError, match=r"does not answer m: HTTP 401 .*wrong key"):
        first_call(refusal(401, code="invalid_api_key", message="wrong key"))


def test_extra_fields_go_with_every_call():
    target = BenchTarget(base_url="http://engine/v1", extra_body={"ignore_eos": True})
    client = ChatClient(FakeTransport([]), target, ticks)

    assert json.loads(client.body("m", "hello", 8))["ignore_eos"] is True


def test_the_first_model_that_the_server_lists_is_taken():
    async def first(answer: bytes) -> str:
        client = ChatClient(
            FakeTransport([ScriptedAnswer([answer])]),
            BenchTarget(base_url="http://engine/v1"),
            ticks,
        )
        return await client.first_model()

    assert asyncio.run(first(b'{"data":[{"id":"tiny"},{"id":"other"}]}')) == "tiny"
    with pytest.raises(OperatorError, match="name one with --model"):
        asyncio.run(first(b'{"data":[]}'))


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("https://api.example.com/v1/", "https://api.example.com/v1"),
        ("https://api.example.com/openai/v1/chat/completions", "https://api.example.com/openai/v1"),
    ],
)
def test_base_urls_may_be_typed_in_short(typed, url):
    assert base_url(typed) == url


def test_text_that_is_no_url_is_refused():
    with pytest.raises(ValueError, match="http"):
        base_url("localhost:8000")
