"""The mock upstream takes what the API takes, and says what is wrong with anything else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseStreamEvent
from starlette.testclient import TestClient

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
