"""Requests as Vertex AI's rawPredict takes them."""

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.providers.cloud_platforms.vertex import VertexWire
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call

UPSTREAM = Upstream(
    name="gcp", kind="anthropic-vertex", base_url="http://gcp", betas=frozenset("a")
)
ROUTE = Route(name="gcp/claude", upstream=UPSTREAM, model="claude-opus-4-8@20260101", max_output=64)
MODELS = "/publishers/anthropic/models"
TURNS = [{"role": "user", "content": "Hi"}]


def request(endpoint="messages", headers=None, **fields):
    body = orjson.dumps({"model": "claude", "max_tokens": 9, "messages": TURNS, **fields})
    vertex_call = call(body, endpoint, fields=parse_request_fields(body), headers=headers or {})
    return VertexWire().request(vertex_call, ROUTE)


@pytest.mark.parametrize(("streams", "way"), [(True, "streamRawPredict"), (False, "rawPredict")])
@pytest.mark.parametrize("endpoint", ["messages", "chat/completions"])
def test_the_model_stands_in_the_path_and_the_version_in_the_body(endpoint, streams, way):
    prepared = request(endpoint, stream=streams)
    body = orjson.loads(prepared.body)

    assert prepared.path == f"{MODELS}/claude-opus-4-8@20260101:{way}"
    assert body["anthropic_version"] == "vertex-2023-10-16"
    assert bool(body.get("stream")) is streams
    assert "model" not in body
    assert prepared.endpoint == "messages"


def test_betas_that_are_taken_stay_in_their_header_and_the_version_does_not():
    prepared = request(headers={"anthropic-beta": "a,b", "anthropic-version": "2023-06-01"})

    assert prepared.headers == {"content-type": "application/json", "anthropic-beta": "a"}
    assert prepared.notes == ("left out b: no beta feature that Vertex AI takes",)


def test_tokens_are_counted_under_a_path_of_their_own_by_the_model_in_the_body():
    prepared = request("messages/count_tokens")
    body = orjson.loads(prepared.body)

    assert prepared.path == f"{MODELS}/count-tokens:rawPredict"
    assert body["model"] == "claude-opus-4-8@20260101"
    assert prepared.endpoint == "messages/count_tokens"
    assert prepared.reader is None
