"""Claude at Amazon Bedrock and at Vertex AI, behind a gateway, over HTTP.

Both check the proof of whose each request is, and refuse all but their own form.
"""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from proxy.records.receipt import Outcome
from tests.fakes.cloud_gateway import (
    ACCOUNT,
    BEDROCK,
    SECRET,
    SESSION,
    VERSION,
    VERTEX,
    CloudGateway,
    message,
    running_cloud_gateway,
)
from tests.fakes.plain_http import PLAIN

MODELS = [BEDROCK, VERTEX]
HANDBOOK = "Every return needs its receipt, its box and a reason. " * 400


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudGateway]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("clouds")
        with running_cloud_gateway(folder, patch, retries=0, control_share=0.0) as gateway:
            yield gateway


@pytest.fixture
def start_clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Starts a gateway of its own: in a block, with these settings."""
    return lambda **settings: running_cloud_gateway(tmp_path, monkeypatch, **settings)


def stream_events(clouds: CloudGateway, model: str, words: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a streamed Messages call."""
    answer = clouds.message(model, words, stream=True)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [
        (block[0].removeprefix("event: "), json.loads(block[1].removeprefix("data: ")))
        for block in blocks
        if block[0].startswith("event:")
    ]


@pytest.mark.parametrize("model", MODELS)
def test_a_message_reaches_a_cloud_in_its_form_and_is_metered_and_priced(
    clouds: CloudGateway, model: str
) -> None:
    answer = clouds.message(model, "Hello.")
    path, headers, body = clouds.upstream(model).heard[-1]
    (receipt,) = clouds.receipts(answer.headers["x-request-id"])

    assert answer.json()["content"][0]["text"]
    assert clouds.upstream(model).refused == []
    assert "model" not in body
    assert "stream" not in body
    assert body["messages"] == [{"role": "user", "content": "Hello."}]
    assert "x-api-key" not in headers
    assert (receipt.outcome, receipt.estimated) == (Outcome.ANSWERED, False)
    assert receipt.usage == clouds.lab.exchanges[-1].usage
    assert receipt.usage is not None
    assert receipt.cost_nanos == receipt.usage.prompt_tokens * 1_000 + (
        receipt.usage.generated_tokens * 4_000
    )
    assert (
        path
        == {
            BEDROCK: "/model/us.anthropic.claude-lab-v1%3A0/invoke",
            VERTEX: "/v1/projects/acme-1/locations/global/publishers/anthropic/models"
            "/claude-lab@20260101:rawPredict",
        }[model]
    )
    if model == BEDROCK:
        assert receipt.upstream_request_id == "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("model", MODELS)
def test_a_streamed_message_comes_in_anthropics_events(clouds: CloudGateway, model: str) -> None:
    events = stream_events(clouds, model, "Tell me.")
    names = [name for name, _ in events if name != "ping"]
    (receipt,) = clouds.all_receipts()[-1:]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert all(event["type"] == name for name, event in events)
    assert receipt.usage == clouds.lab.exchanges[-1].usage
    assert (receipt.streamed, receipt.estimated) == (True, False)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ["stream", "whole"])
def test_a_chat_call_is_translated_there_and_back(
    clouds: CloudGateway, model: str, form: str
) -> None:
    answer = clouds.chat(model, "Hello.", stream=form == "stream")

    assert answer.status_code == 200, answer.text
    if form == "stream":
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"finish_reason":"stop"' in answer.text
    else:
        assert answer.json()["choices"][0]["message"]["content"]
    assert clouds.upstream(model).heard[-1][2]["max_tokens"] == 4096


@pytest.mark.parametrize("model", MODELS)
def test_a_response_with_a_tool_is_translated_there_and_back(
    clouds: CloudGateway, model: str
) -> None:
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    body = {"model": model, "input": "Weather? [[fault:call]]", "tools": [tool], "store": False}
    answer = clouds.post("responses", body)

    assert [item["type"] for item in answer.json()["output"]][-1] == "function_call"


@pytest.mark.parametrize("model", MODELS)
def test_tokens_are_counted_by_the_cloud(clouds: CloudGateway, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "system": HANDBOOK}
    answer = clouds.post("messages/count_tokens", body, **VERSION)

    assert answer.json() == {"input_tokens": answer.json()["input_tokens"]}
    assert answer.json()["input_tokens"] > 3_000
    assert (
        clouds.upstream(model).heard[-1][0].rpartition("/")[2]
        == {
            BEDROCK: "count-tokens",
            VERTEX: "count-tokens:rawPredict",
        }[model]
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("429", 429, "rate_limit_error"),
        ("529", 529, "overloaded_error"),
        ("500", 502, "api_error"),
        ("400", 400, "invalid_request_error"),
    ],
)
def test_a_refusal_comes_in_anthropics_envelope(
    clouds: CloudGateway, model: str, fault: str, status: int, kind: str
) -> None:
    answer = clouds.message(model, f"Hello. [[fault:{fault}]]")

    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)


@pytest.mark.parametrize("model", MODELS)
def test_throttling_is_worth_another_attempt_and_says_when(
    start_clouds: Callable[..., Any], model: str
) -> None:
    with start_clouds(retries=1) as clouds:
        clouds.lab.queue_directives(["429", "ok"])
        answer = clouds.chat(model, "Hello.")

        assert answer.status_code == 200
        assert [receipt.status for receipt in clouds.receipts(answer.headers["x-request-id"])] == [
            429,
            200,
        ]


@pytest.mark.parametrize("model", MODELS)
def test_an_error_in_the_middle_of_a_stream_ends_it_as_an_event(
    clouds: CloudGateway, model: str
) -> None:
    events = stream_events(clouds, model, "Tell me. [[fault:error-event=3]]")
    (receipt,) = clouds.all_receipts()[-1:]

    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["type"] == "overloaded_error"
    assert any(name == "content_block_delta" for name, _ in events)
    assert receipt.outcome is not Outcome.ANSWERED


@pytest.mark.parametrize("model", MODELS)
def test_a_connection_that_breaks_in_a_stream_ends_it_as_an_event(
    clouds: CloudGateway, model: str
) -> None:
    events = stream_events(clouds, model, "Tell me. [[fault:death=3]]")

    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["type"] == "api_error"


def test_a_frame_whose_checksum_is_wrong_is_no_answer(clouds: CloudGateway) -> None:
    clouds.bedrock.damages_frames = True
    try:
        answer = clouds.message(BEDROCK, "Tell me.", stream=True)
    finally:
        clouds.bedrock.damages_frames = False

    assert answer.status_code == 502
    assert "could not be read" in answer.json()["error"]["message"]


@pytest.mark.parametrize("model", MODELS)
def test_a_caller_who_leaves_a_stream_is_settled(clouds: CloudGateway, model: str) -> None:
    feature = f"left-{model}"
    body = message(model, "Tell me. [[fault:stall=3]]", stream=True)
    headers = clouds.headers({**VERSION, "x_thriftgate_feature": feature})
    with httpx.stream(
        "POST", f"{clouds.url}/messages", json=body, headers=headers, verify=PLAIN
    ) as answer:
        for line in answer.iter_lines():
            if "content_block_delta" in line:
                break
    (receipt,) = clouds.of_feature(feature)

    assert receipt.outcome is Outcome.HUNG_UP
    assert receipt.usage is not None
    assert receipt.usage.prompt_tokens > 0


def test_expired_credentials_that_nobody_renewed_are_the_operators_to_fix(
    clouds: CloudGateway,
) -> None:
    clouds.bedrock.expired.add(ACCOUNT)
    try:
        answer = clouds.message(BEDROCK, "Hello.")
    finally:
        clouds.bedrock.expired.clear()

    assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "false")
    assert answer.json()["error"]["code"] == "upstream_unauthorized"
    assert clouds.message(BEDROCK, "Hello.").status_code == 200


def test_expired_credentials_that_a_file_renewed_cost_the_caller_nothing(
    start_clouds: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(account: str) -> None:
        lines = f"[gateway]\naws_access_key_id={account}\naws_secret_access_key={SECRET}\n"
        (tmp_path / "aws-credentials.ini").write_text(lines)

    write("AKIDOLD")
    with start_clouds(retries=0, more='aws_profile = "gateway"') as clouds:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name)
        clouds.bedrock.accounts |= {"AKIDOLD": SECRET, "AKIDNEW": SECRET}
        assert clouds.message(BEDROCK, "Hello.").status_code == 200
        clouds.bedrock.expired.add("AKIDOLD")
        write("AKIDNEW")

        assert clouds.message(BEDROCK, "Hello again.").status_code == 200
        assert [why.split()[0] for why in clouds.bedrock.refused] == ["ExpiredTokenException"]


def test_a_token_that_google_no_longer_takes_is_replaced(start_clouds: Callable[..., Any]) -> None:
    with start_clouds(retries=0) as clouds:
        assert clouds.message(VERTEX, "Hello.").status_code == 200
        clouds.vertex.tokens[:] = ["another"]

        assert clouds.message(VERTEX, "Hello again.").status_code == 200
        assert clouds.vertex.refused == ["Bearer ya29.0"]
        assert clouds.vertex.tokens == ["another", "ya29.1"]


def test_a_key_of_bedrocks_goes_as_a_bearer_token(
    start_clouds: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "ABSK-secret")
    with start_clouds(more='key_env = "AWS_BEARER_TOKEN_BEDROCK"') as clouds:
        clouds.bedrock.api_keys.add("ABSK-secret")
        answer = clouds.message(BEDROCK, "Hello.", stream=True)

        assert answer.text.endswith('data: {"type":"message_stop"}\n\n')
        assert clouds.bedrock.heard[-1][1]["authorization"] == "Bearer ABSK-secret"


def test_missing_credentials_are_said_with_what_to_set(
    start_clouds: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_clouds(retries=0, more='aws_profile = "nobody"') as clouds:
        answer = clouds.message(BEDROCK, "Hello.")

        assert answer.status_code == 503
        assert "no credentials for bedrock" in answer.json()["error"]["message"]
        assert "AWS_PROFILE" in answer.json()["error"]["message"]
        assert clouds.bedrock.heard == []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("field", ["container", "mcp_servers", "inference_geo"])
def test_a_field_of_anthropics_own_api_is_refused_by_name(
    clouds: CloudGateway, model: str, field: str
) -> None:
    fields = {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}
    answer = clouds.message(model, "Hello.", **{field: fields.get(field, "us")})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"`{field}` works at Anthropic's own API")


@pytest.mark.parametrize("path", ["messages/batches", "files"])
def test_batches_and_files_are_refused_in_one_sentence(clouds: CloudGateway, path: str) -> None:
    answer = clouds.post(path, {"requests": []}, **VERSION)

    assert answer.status_code == 400
    assert f"takes no /v1/{path} from here" in answer.json()["error"]["message"]


def test_fields_and_betas_that_bedrock_refuses_as_unknown_are_left_out_with_a_note(
    clouds: CloudGateway,
) -> None:
    betas = "interleaved-thinking-2025-05-14,oauth-2025-04-20"
    answer = clouds.post(
        "messages",
        message(BEDROCK, "Hello.", service_tier="auto", cache_control={"type": "ephemeral"}),
        **VERSION,
        anthropic_beta=betas,
    )
    body = clouds.bedrock.heard[-1][2]
    (receipt,) = clouds.receipts(answer.headers["x-request-id"])

    assert answer.status_code == 200, answer.text
    assert body["anthropic_beta"] == ["interleaved-thinking-2025-05-14"]
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert receipt.notes == (
        "left out service_tier: Amazon Bedrock does not take it",
        "left out oauth-2025-04-20: no beta feature that Amazon Bedrock takes",
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", ["messages", "chat/completions"])
def test_a_prefix_that_its_caller_marked_is_stored_once_and_read_by_the_next_call(
    clouds: CloudGateway, model: str, path: str
) -> None:
    block = {"type": "text", "text": f"{path}: {HANDBOOK}", "cache_control": {"type": "ephemeral"}}
    used = []
    for words in ("A box?", "A reason?"):
        turns = [{"role": "user", "content": words}]
        body = {"model": model, "max_tokens": 200, "messages": turns}
        if path == "messages":
            body["system"] = [block]
        else:
            body["messages"] = [{"role": "system", "content": [block]}, *turns]
        answer = clouds.post(path, body, **VERSION)
        assert answer.status_code == 200, answer.text
        (receipt,) = clouds.receipts(answer.headers["x-request-id"])
        assert receipt.usage is not None
        used.append(receipt.usage)

    assert used[1].write_5m < 20  # the question, which the gateway marks, too
    assert used[1].cache_read >= used[0].write_5m - 20 > 4_000


def test_a_ceiling_lowers_the_output_of_a_call_to_a_cloud(
    start_clouds: Callable[..., Any], tmp_path: Path
) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text('[[ceilings]]\nname = "small"\nlimit = "0.002"\non_exceed = ["clamp"]\n')
    with start_clouds(policies=policies) as clouds:
        assert clouds.message(BEDROCK, "Hello.", max_tokens=4000).status_code == 200
        assert clouds.bedrock.heard[-1][2]["max_tokens"] < 500


def test_neither_keys_nor_tokens_stand_in_any_log(
    start_clouds: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with start_clouds() as clouds:
        for model in MODELS:
            assert clouds.message(model, "Hello.").status_code == 200
            clouds.message(model, "Hello. [[fault:403]]")
        for secret in (SECRET, SESSION, "ya29.", "Signature="):
            assert secret not in caplog.text


def test_anthropics_sdk_streams_from_both(clouds: CloudGateway) -> None:
    http = anthropic.DefaultHttpxClient(verify=PLAIN)
    client: Any = anthropic.Anthropic(
        base_url=clouds.url.removesuffix("/v1"), api_key=clouds.key, http_client=http
    )
    for model in MODELS:
        with client.messages.stream(**message(model, "Hello.")) as stream:
            final = stream.get_final_message()
        assert final.stop_reason == "end_turn"
        assert final.usage.output_tokens > 0
    client.close()
