"""Google's wire: chat and Responses in, ``generateContent`` out, and back."""

from typing import Any

import orjson
import pytest

from proxy.providers.gemini.adapter import GeminiWire
from proxy.providers.kinds import WIRES, credentials
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call, Key
from proxy.records.request_fields import RequestFields
from slo.usage import Usage
from tests.fakes.converted_calls import prepare_converted
from tests.fakes.gemini_answers import USAGE, answer, event_stream, gemini_route
from tests.fakes.refusals import refusing

WIRE = GeminiWire()
HI = {"role": "user", "content": "Hi"}
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [HI]},
    "responses": {"input": "Hi"},
}


def gemini_call(endpoint: str, **fields: Any) -> Call:
    body = orjson.dumps({"model": "gemini-x", **BODIES.get(endpoint, {}), **fields})
    read = RequestFields(model="gemini-x", stream=fields.get("stream"))
    key = Key(id="k", team="t", team_name="T")
    return Call(
        id="1", key=key, method="POST", endpoint=endpoint, headers={}, body=body, fields=read,
        arrived=7.0,
    )  # fmt: skip


def translate(endpoint: str, **fields: Any) -> PreparedRequest:
    return prepare_converted(gemini_call(endpoint, **fields), gemini_route())


def read_answer(request: PreparedRequest, run: bytes) -> bytes:
    assert request.reader is not None
    return request.reader.feed(run) + request.reader.end()


def test_the_model_is_in_the_path_and_the_key_in_googles_header() -> None:
    whole, streamed = translate("chat/completions"), translate("chat/completions", stream=True)

    assert whole.path == "/models/gemini-3.8-flash:generateContent"
    assert streamed.path == "/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert credentials(gemini_route().upstream, "k") == ("x-goog-api-key", "k")
    assert isinstance(WIRES["gemini"], GeminiWire)


def test_a_model_that_the_route_does_not_name_is_the_callers() -> None:
    request = WIRE.request(gemini_call("chat/completions"), gemini_route(model=""))

    assert request.path == "/models/gemini-x:generateContent"


@pytest.mark.parametrize("endpoint", [*BODIES])
def test_chat_and_responses_calls_become_the_same_gemini_contents(endpoint: str) -> None:
    body = orjson.loads(translate(endpoint).body)

    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


@pytest.mark.parametrize(
    ("endpoint", "signs"),
    [
        ("chat/completions", b'"finish_reason":"stop"'),
        ("responses", b'"status":"completed"'),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_come_back_in_the_callers_api(endpoint: str, signs: bytes, *, stream: bool) -> None:
    pieces = answer({"text": "abc"}, finish="STOP", usage=USAGE)
    run = event_stream(pieces) if stream else orjson.dumps(pieces)
    read = read_answer(translate(endpoint, stream=stream), run)

    assert b"abc" in read
    assert signs in read


def test_a_refusal_of_a_responses_call_names_the_callers_field() -> None:
    with refusing(400) as caught:
        translate("responses", include=["message.output_text.logprobs"])

    assert caught.value.param == "include"


@pytest.mark.parametrize("endpoint", ["embeddings", "messages", "completions"])
def test_gemini_refuses_endpoints_other_than_chat(endpoint: str) -> None:
    with refusing(400, "ask a model of another provider"):
        WIRE.request(gemini_call(endpoint), gemini_route())


def test_usage_terms_and_failures_are_read() -> None:
    body = b'[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED"}}]'

    assert WIRE.usage(USAGE) == Usage(input=40, cache_read=60, output=7, reasoning=2)
    assert WIRE.terms("flex", "", {}, "eu").service_tier == "flex"
    assert WIRE.failure(429, {}, body).message == "Quota."
