"""Batches of both APIs, as a client makes and reads them."""

import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.batches import BatchShelf, openai_results, uploaded_file
from tests.proxy.tools.simulator.scene import Json, SimulatorHarness, user

BEARER = {"authorization": "Bearer sk"}
CLAUDE = {"x-api-key": "sk", "anthropic-version": "2023-06-01"}
MESSAGE: Json = {"model": "claude-haiku-4-5", "max_tokens": 20, "messages": [user("Hello")]}
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="calls.jsonl"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n%s\r\n--b--\r\n"
)
FORM_TYPE = "multipart/form-data; boundary=b"


def test_a_batch_of_messages_has_a_result_for_each_of_its_calls(scene: SimulatorHarness) -> None:
    unknown = MESSAGE | {"model": "claude-0"}
    requests = [{"custom_id": "a", "params": MESSAGE}, {"custom_id": "b", "params": unknown}]
    created = scene.send("POST", "messages/batches", {"requests": requests}, headers=CLAUDE).json()

    assert created["processing_status"] == "ended"
    assert (created["request_counts"]["succeeded"], created["request_counts"]["errored"]) == (1, 1)
    shown = scene.send("GET", f"messages/batches/{created['id']}", None, headers=CLAUDE).json()
    assert shown == created
    path = f"messages/batches/{created['id']}/results"
    lines = scene.send("GET", path, None, headers=CLAUDE).content.splitlines()
    first, second = map(orjson.loads, lines)
    assert (first["custom_id"], first["result"]["message"]["role"]) == ("a", "assistant")
    assert second["result"]["error"]["error"]["type"] == "not_found_error"


def test_a_batch_of_openais_is_made_from_an_uploaded_file(scene: SimulatorHarness) -> None:
    call = {
        "custom_id": "a",
        "url": "/v1/chat/completions",
        "body": {"model": "gpt-6.1-sol", "messages": [user("Hello")]},
    }
    form = FORM % orjson.dumps(call)
    headers = {**BEARER, "content-type": FORM_TYPE}
    file = scene.send("POST", "files", form, headers=headers).json()
    body = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions"}
    batch = scene.send("POST", "batches", body, headers=BEARER).json()

    assert (batch["status"], batch["request_counts"]["completed"]) == ("completed", 1)
    path = f"files/{batch['output_file_id']}/content"
    result = orjson.loads(scene.send("GET", path, None, headers=BEARER).content)
    assert result["custom_id"] == "a"
    assert result["response"]["body"]["object"] == "chat.completion"
    listed = scene.send("GET", "batches", None, headers=BEARER).json()
    assert [listed_batch["id"] for listed_batch in listed["data"]] == [batch["id"]]


@pytest.mark.parametrize("path", ["batches/b", "files/f/content", "messages/batches/b"])
def test_an_unknown_batch_or_file_is_refused(scene: SimulatorHarness, path: str) -> None:
    assert scene.send("GET", path, None, headers={**BEARER, **CLAUDE}).status_code == 404


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"url":"/v1/other","body":{}}'])
def test_a_file_that_holds_no_calls_is_refused(line: bytes) -> None:
    with pytest.raises(UpstreamError):
        openai_results(line, {})


@pytest.mark.parametrize("form", [b"", b"--b--", b'--b\r\nx: name="file"\r\n\r\n\r\n--b--'])
def test_a_form_without_a_file_is_refused(form: bytes) -> None:
    with pytest.raises(UpstreamError, match="file"):
        uploaded_file(form, FORM_TYPE)


def test_the_oldest_files_and_batches_make_room() -> None:
    shelf = BatchShelf(2)
    for name in "abc":
        shelf.add_file(name, b"x")
        shelf.add_batch({"id": name})

    assert [batch["id"] for batch in shelf.batches()] == ["c", "b"]
    with pytest.raises(UpstreamError):
        shelf.file("a")
