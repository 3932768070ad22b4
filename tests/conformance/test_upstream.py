"""The mock upstream takes what the API takes, and says what is wrong with anything else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from anthropic.types import Message
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseStreamEvent
from starlette.testclient import TestClient

from tests.conformance.sdks import ANTHROPIC
from tests.conformance.upstream import KEY, app, stream

HEADERS = {"authorization": f"Bearer {KEY}"}
CHAT = {"model": "gpt-lab", "messages": []}


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return Path(tmp_path_factory.mktemp("upstream") / "requests.log")


@pytest.fixture(scope="module")
def client(log: Path) -> Iterator[TestClient]:
    with TestClient(app(log), headers=HEADERS) as client:
        yield client


@pytest.fixture(scope="module")
def claude(tmp_path_factory) -> Iterator[TestClient]:
    """A client of Anthropic's API, whose key comes in its own header."""
    log = Path(tmp_path_factory.mktemp("anthropic") / "requests.log")
    with TestClient(app(log, ANTHROPIC), headers={"x-api-key": KEY}) as client:
        yield client


MESSAGE = {"model": "claude-lab", "messages": [], "max_tokens": 9}


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "", **HEADERS}])
def test_a_message_is_answered_by_either_form_of_the_key(claude, headers):
    answer = claude.post("/v1/messages", json=MESSAGE, headers=headers)

    assert answer.status_code == 200
    assert Message.model_validate_json(answer.content).content


def test_a_stream_of_a_message_has_its_events_in_order_and_no_other_end(claude):
    answer = claude.post("/v1/messages", json=MESSAGE | {"stream": True})
    names = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]

    assert names == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert "[DONE]" not in answer.text


def test_a_batch_names_the_address_of_its_results_at_the_mock(claude):
    batch = MessageBatch.model_validate_json(claude.get("/v1/messages/batches/b1").content)
    lines = claude.get(batch.results_url).text.splitlines()

    assert str(batch.results_url).startswith("http://testserver/v1/messages/batches/")
    assert [MessageBatchIndividualResponse.model_validate_json(line) for line in lines]


def test_a_message_without_a_required_field_or_a_key_is_refused(claude):
    assert claude.post("/v1/messages", json={"model": "claude-lab"}).status_code == 422
    wrong = claude.post("/v1/messages", json=MESSAGE, headers={"x-api-key": "tg-1"})
    assert wrong.status_code == 401


def test_a_chat_call_gets_a_completion(client):
    answer = client.post("/v1/chat/completions", json=CHAT)

    assert answer.status_code == 200
    assert ChatCompletion.model_validate_json(answer.content).choices


def test_a_stream_has_events_and_an_end(client):
    answer = client.post("/v1/chat/completions", json=CHAT | {"stream": True})

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("data: {")
    assert answer.text.endswith("data: [DONE]\n\n")


def test_a_stream_of_responses_ends_with_the_completed_one():
    assert b"event: response.completed" in stream(ResponseStreamEvent).split(b"\n\n")[-3]


def test_a_content_path_answers_bytes(client):
    answer = client.get("/v1/files/file-1/content")

    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content


def test_a_multipart_body_is_read(client, log):
    answer = client.post("/v1/files", data={"purpose": "batch"}, files={"file": b"a"})

    assert answer.status_code == 200
    method, path, _, body = json.loads(log.read_text().splitlines()[-1])
    assert (method, path) == ("POST", "/files")
    assert "--BOUNDARY" in body


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("POST", "/v1/chat/completions", {"json": {"model": "gpt-lab"}}, 422),
        ("POST", "/v1/chat/completions", {"json": CHAT | {"odd": 1}}, 422),
        ("POST", "/v1/files", {"files": {"file": b"a"}}, 422),
        ("GET", "/v1/no/such/path", {}, 404),
        ("PUT", "/v1/files/file-1", {}, 404),
        ("GET", "/v1/files", {"headers": {"authorization": "Bearer tg-1"}}, 401),
    ],
)
def test_a_request_that_the_api_would_not_take_is_refused(client, method, path, given, status):
    answer = client.request(method, path, **given)

    assert answer.status_code == status
    assert answer.json()["error"]["message"]
