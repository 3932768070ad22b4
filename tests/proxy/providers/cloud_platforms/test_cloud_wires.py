"""Requests as Amazon Bedrock's InvokeModel and Vertex AI's rawPredict take them."""

from base64 import b64decode

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.errors import UpstreamError
from proxy.providers.cloud_platforms.cloud_wires import BedrockWire, VertexWire
from proxy.providers.stream_endings import malformed_answer
from proxy.records.request_fields import parse_request_fields
from slo.price import BillingTerms
from tests.fakes.call_dependencies import call

UPSTREAM = Upstream(name="aws", kind="anthropic-bedrock", base_url="http://aws")
MODEL = "us.anthropic.claude-opus-4-8-v1:0"
WIRE = BedrockWire()
TURNS = [{"role": "user", "content": "Hi"}]
GOOGLE = Upstream(name="gcp", kind="anthropic-vertex", base_url="http://gcp", betas=frozenset("a"))
VERTEX = Route(name="gcp/claude", upstream=GOOGLE, model="claude-opus-4-8@20260101", max_output=64)
MODELS = "/publishers/anthropic/models"


def request(endpoint="messages", model=MODEL, headers=None, **fields):
    body = orjson.dumps({"model": "claude", "messages": TURNS, **fields})
    bedrock_call = call(body, endpoint, fields=parse_request_fields(body), headers=headers or {})
    route = Route(name="aws/claude", upstream=UPSTREAM, model=model, max_output=64)
    return WIRE.request(bedrock_call, route)


def test_a_message_is_invoked_with_its_model_in_the_path_and_the_version_in_the_body():
    prepared = request(max_tokens=9, stream=False)

    assert (prepared.method, prepared.path) == (
        "POST",
        f"/model/{MODEL.replace(':', '%3A')}/invoke",
    )
    assert prepared.headers == {"content-type": "application/json"}
    assert orjson.loads(prepared.body) == {
        "messages": TURNS,
        "max_tokens": 9,
        "anthropic_version": "bedrock-2023-05-31",
    }
    assert (prepared.reader, prepared.endpoint) == (None, "messages")


@pytest.mark.parametrize("endpoint", ["messages", "chat/completions"])
def test_a_stream_is_another_path_and_no_field(endpoint):
    prepared = request(endpoint, max_tokens=9, stream=True)

    assert prepared.path.endswith("/invoke-with-response-stream")
    assert "stream" not in orjson.loads(prepared.body)


def test_the_name_of_a_profile_of_ones_own_is_one_part_of_the_path():
    arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/ab"

    assert request(model=arn, max_tokens=9).path == (
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fab/invoke"
    )


def test_a_chat_call_is_translated_and_its_omissions_noted():
    prepared = request("chat/completions", service_tier="priority")
    body = orjson.loads(prepared.body)

    assert body["max_tokens"] == 64
    assert body["messages"][0]["role"] == "user"
    assert "service_tier" not in body
    assert prepared.reader is not None


def test_tokens_are_counted_of_the_model_itself():
    prepared = request("messages/count_tokens", system="Be brief.")
    counted = orjson.loads(b64decode(orjson.loads(prepared.body)["input"]["invokeModel"]["body"]))

    assert prepared.path == "/model/anthropic.claude-opus-4-8-v1%3A0/count-tokens"
    assert counted == {
        "messages": TURNS,
        "system": "Be brief.",
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 1,
    }
    assert prepared.reader is not None
    assert prepared.reader.feed(b'{"inputTokens":') + prepared.reader.feed(b"14}") == b""
    assert orjson.loads(prepared.reader.end()) == {"input_tokens": 14}


def test_a_bedrock_count_without_tokens_is_an_error():
    reader = request("messages/count_tokens").reader
    assert reader is not None
    reader.feed(b"{}")

    with pytest.raises(UpstreamError) as caught:
        reader.end()
    assert caught.value.code == malformed_answer().code


@pytest.mark.parametrize(
    ("status", "kind", "shown", "code", "retryable"),
    [
        (429, "ThrottlingException", 429, "rate_limit_exceeded", True),
        (400, "ServiceQuotaExceededException", 429, "rate_limit_exceeded", True),
        (424, "ModelErrorException", 502, "upstream_error", True),
        (408, "ModelTimeoutException", 504, "upstream_timeout", True),
        (503, "ServiceUnavailableException", 503, "upstream_overloaded", True),
        (403, "ExpiredTokenException", 502, "upstream_unauthorized", True),
        (400, "ValidationException", 400, "upstream_refused", False),
    ],
)
def test_an_error_is_known_by_its_type(status, kind, shown, code, retryable):
    prepared = WIRE.failure(status, {"x-amzn-errortype": kind}, b'{"message":"No."}')

    assert (prepared.status, prepared.code, prepared.retryable) == (shown, code, retryable)


def test_the_words_of_a_refusal_are_passed_on():
    prepared = WIRE.failure(
        400, {"x-amzn-errortype": "ValidationException"}, b'{"message":"Too long."}'
    )

    assert prepared.message == "Too long."


def test_usage_is_anthropics_and_the_region_is_the_upstreams():
    usage = WIRE.usage({"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3})

    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output) == (1, 2, 3)
    assert WIRE.terms("priority", "", {"service_tier": "standard"}, "eu") == BillingTerms(
        region="eu"
    )


def vertex_request(endpoint="messages", headers=None, **fields):
    body = orjson.dumps({"model": "claude", "max_tokens": 9, "messages": TURNS, **fields})
    vertex_call = call(body, endpoint, fields=parse_request_fields(body), headers=headers or {})
    return VertexWire().request(vertex_call, VERTEX)


@pytest.mark.parametrize(("streams", "way"), [(True, "streamRawPredict"), (False, "rawPredict")])
@pytest.mark.parametrize("endpoint", ["messages", "chat/completions"])
def test_the_model_stands_in_the_path_and_the_version_in_the_body(endpoint, streams, way):
    prepared = vertex_request(endpoint, stream=streams)
    body = orjson.loads(prepared.body)

    assert prepared.path == f"{MODELS}/claude-opus-4-8@20260101:{way}"
    assert body["anthropic_version"] == "vertex-2023-10-16"
    assert bool(body.get("stream")) is streams
    assert "model" not in body
    assert prepared.endpoint == "messages"


def test_betas_that_are_taken_stay_in_their_header_and_the_version_does_not():
    prepared = vertex_request(headers={"anthropic-beta": "a,b", "anthropic-version": "2023-06-01"})

    assert prepared.headers == {"content-type": "application/json", "anthropic-beta": "a"}
    assert prepared.notes == ("left out b: no beta feature that Vertex AI takes",)


def test_tokens_are_counted_under_a_path_of_their_own_by_the_model_in_the_body():
    prepared = vertex_request("messages/count_tokens")
    body = orjson.loads(prepared.body)

    assert prepared.path == f"{MODELS}/count-tokens:rawPredict"
    assert body["model"] == "claude-opus-4-8@20260101"
    assert prepared.endpoint == "messages/count_tokens"
    assert prepared.reader is None
