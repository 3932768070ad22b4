"""Tool loops of Anthropic's API, and of chat, on models that take tools in Responses alone."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from proxy.providers.messages.signatures import reasoning_signature
from proxy.providers.sse import parse_events
from tests.fakes.gateway_fixture import GPT_NEXT, PRICE, GatewayFixture, running_gateway
from tests.fakes.messages_sdk import WEATHER, SyncMessages
from tests.fakes.plain_http import PLAIN

CATALOG = f"""{GPT_NEXT}
[upstreams.chat-alone]
base_url = "{{url}}"
key_env = "SIMULATOR_KEY"
serves_responses = false

[[models]]
id = "gpt-chat-alone"
upstream = "chat-alone"
model = "gpt-next"
price = {PRICE}
traits = ["max_completion_tokens", "effort", "effort_none", "forced_tools", "tools_at_none"]

[[models]]
id = "gpt-always"
upstream = "chat-alone"
model = "gpt-next"
price = {PRICE}
traits = ["max_completion_tokens", "effort", "forced_tools", "tools_at_none"]

[teams."*".model_aliases]
"house" = "gpt-next"
"""
ASKED: dict[str, Any] = {
    "max_tokens": 4_000,
    "tools": [WEATHER],
    "tool_choice": {"type": "any"},
    "thinking": {"type": "adaptive"},
}
QUESTION: dict[str, Any] = {"role": "user", "content": "Weather in Oslo?"}


@pytest.fixture(scope="module")
def lab_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        folder = tmp_path_factory.mktemp("responses")
        with running_gateway(folder, more_catalog=CATALOG) as running:
            yield running


@pytest.fixture(scope="module")
def claude(lab_gateway: GatewayFixture) -> Iterator[Any]:
    sdk = SyncMessages(lab_gateway.url, lab_gateway.key)
    yield sdk.client
    sdk.close()


def sent_body(lab_gateway: GatewayFixture) -> tuple[str, dict[str, Any]]:
    exchange = lab_gateway.lab.exchanges[-1]
    return exchange.path, json.loads(exchange.body)


def chat_answer(run: bytes) -> dict[str, Any]:
    """The completion that a stream of chunks adds up to."""
    state = ChatCompletionStreamState()
    for event in parse_events(run):
        if event.data != b"[DONE]":
            state.handle_chunk(ChatCompletionChunk.model_validate_json(event.data))
    return state.get_final_completion().to_dict()


def next_turn(answer: Any) -> list[dict[str, Any]]:
    """The conversation with the answer and the result of its call."""
    content = [block.to_dict() for block in answer.content]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "Rain."}
        for block in content
        if block["type"] == "tool_use"
    ]
    turns = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return [QUESTION, *turns]


@pytest.mark.parametrize("way", ["streamed", "whole"])
def test_reasoning_goes_back_to_its_model_in_a_tool_loop(
    lab_gateway: GatewayFixture, claude: Any, way: str
) -> None:
    def ask(messages: list[dict[str, Any]], **options: Any) -> Any:
        request_body: dict[str, Any] = {
            **ASKED,
            "model": "gpt-next",
            "messages": messages,
            **options,
        }
        if way == "whole":
            return claude.messages.create(**request_body)
        with claude.messages.stream(**request_body) as stream:
            return stream.get_final_message()

    first = ask([QUESTION])
    path, body = sent_body(lab_gateway)
    second = ask(next_turn(first), tool_choice={"type": "none"})
    _, later = sent_body(lab_gateway)
    kinds = [item.get("type", item.get("role")) for item in later["input"]]

    assert (path, body["reasoning"], body["store"]) == ("/v1/responses", {"effort": "high"}, False)
    assert [block.type for block in first.content] == ["thinking", "tool_use"]
    assert first.stop_reason == "tool_use"
    assert first.usage.output_tokens_details.thinking_tokens > 0
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert later["input"][: len(body["input"])] == body["input"]
    assert second.content[-1].type == "text"


@pytest.mark.parametrize("way", ["streamed", "whole"])
def test_the_phase_of_an_answer_goes_back_to_its_model(
    lab_gateway: GatewayFixture, claude: Any, way: str
) -> None:
    def ask(messages: list[dict[str, Any]]) -> Any:
        body = {**ASKED, "tool_choice": {"type": "none"}, "messages": messages}
        if way == "whole":
            return claude.messages.create(model="gpt-next", **body)
        with claude.messages.stream(model="gpt-next", **body) as stream:
            return stream.get_final_message()

    content = [block.to_dict() for block in ask([QUESTION]).content]
    question = {"role": "user", "content": "And Rome?"}
    ask([QUESTION, {"role": "assistant", "content": content}, question])
    kinds = [(item.get("type"), item.get("phase")) for item in sent_body(lab_gateway)[1]["input"]]
    words = [block for block in content if block["type"] == "text"]
    ask([QUESTION, {"role": "assistant", "content": words}, question])
    without = sent_body(lab_gateway)[1]["input"]

    assert [block["type"] for block in content] == ["thinking", "thinking", "text"]
    assert kinds == [(None, None), ("reasoning", None), (None, "final_answer"), (None, None)]
    assert [item.get("phase") for item in without] == [None, None, None]


def test_the_tokens_are_booked_and_the_caller_is_told_how_it_went(
    lab_gateway: GatewayFixture, claude: Any
) -> None:
    raw = claude.messages.with_raw_response.create(model="gpt-next", messages=[QUESTION], **ASKED)
    (receipt,) = lab_gateway.receipts(raw.headers["request-id"])

    assert "sent by the Responses API" in raw.headers["x-thriftgate-notes"]
    assert receipt.usage == lab_gateway.lab.exchanges[-1].usage
    assert (receipt.endpoint, receipt.estimated) == ("messages", False)
    assert receipt.usage is not None
    assert receipt.usage.reasoning > 0


def test_a_conversation_goes_on_where_its_reasoning_can_no_longer_be_decrypted(
    lab_gateway: GatewayFixture, claude: Any
) -> None:
    """The upstream's key is another organisation's now, which did not encrypt what comes back."""
    first = claude.messages.create(model="gpt-next", messages=[QUESTION], **ASKED)
    messages = next_turn(first)
    foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3RoZXI"}
    messages[1]["content"][0]["signature"] = reasoning_signature(foreign, "lab/gpt-next")
    before = len(lab_gateway.lab.exchanges)
    raw = claude.messages.with_raw_response.create(model="gpt-next", messages=messages, **ASKED)
    bodies = [json.loads(exchange.body) for exchange in list(lab_gateway.lab.exchanges)[before:]]
    receipts = lab_gateway.receipts(raw.headers["request-id"])

    assert [b"rs_1" in json.dumps(body["input"]).encode() for body in bodies] == [True, False]
    assert raw.parse().stop_reason == "tool_use"
    assert "left out the reasoning of earlier answers" in raw.headers["x-thriftgate-notes"]
    assert [(receipt.status, receipt.final) for receipt in receipts] == [(400, False), (200, True)]


def test_a_caller_without_thinking_sees_none(lab_gateway: GatewayFixture, claude: Any) -> None:
    fields = {name: value for name, value in ASKED.items() if name != "thinking"}
    fields["output_config"] = {"effort": "high"}
    answer = claude.messages.create(model="gpt-next", messages=[QUESTION], **fields)

    assert sent_body(lab_gateway)[0] == "/v1/responses"
    assert [block.type for block in answer.content] == ["tool_use"]


@pytest.mark.parametrize("way", ["streamed", "whole"])
def test_a_chat_call_that_another_model_answers_keeps_its_tools_and_effort(
    lab_gateway: GatewayFixture, way: str
) -> None:
    function = {"name": "weather", "parameters": WEATHER["input_schema"]}
    request_body: dict[str, Any] = {
        "model": "house",
        "messages": [QUESTION],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "reasoning_effort": "low",
    }
    raw = httpx.post(
        f"{lab_gateway.url}/chat/completions",
        json={**request_body, "stream": way == "streamed"},
        headers={"authorization": f"Bearer {lab_gateway.key}"},
        timeout=30,
        trust_env=False,
        verify=PLAIN,
    )
    answer = chat_answer(raw.content) if way == "streamed" else raw.json()
    path, body = sent_body(lab_gateway)
    (choice,) = answer["choices"]

    assert (path, body["reasoning"]) == ("/v1/responses", {"effort": "low"})
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert "thinking_blocks" not in choice["message"]


def test_a_refusal_of_the_model_reaches_the_caller_as_its_apis_error(
    lab_gateway: GatewayFixture, claude: Any
) -> None:
    question: dict[str, Any] = {"role": "user", "content": "Hi [[fault:400]]"}
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(model="gpt-next", messages=[question], **ASKED)

    assert sent_body(lab_gateway)[0] == "/v1/responses"
    assert refused.value.body["type"] == "error"  # type: ignore[index]


@pytest.mark.parametrize(
    ("fault", "last"),
    [
        ("split", "message_stop"),
        ("crlf", "message_stop"),
        ("keepalives=3", "message_stop"),
        ("double-usage", "message_stop"),
        ("no-usage", "message_stop"),
        ("refuse", "message_stop"),
        ("death=3", "error"),
        ("error-event=2", "error"),
        ("short=2", "error"),
        ("malformed=2", "error"),
    ],
)
def test_a_faulty_stream_ends_as_anthropics_streams_do(
    lab_gateway: GatewayFixture, fault: str, last: str
) -> None:
    question = {"role": "user", "content": f"Hi [[fault:{fault}]]"}
    raw = httpx.post(
        f"{lab_gateway.url}/messages",
        json={"model": "gpt-next", **ASKED, "messages": [question], "stream": True},
        headers={"x-api-key": lab_gateway.key},
        timeout=30,
        trust_env=False,
        verify=PLAIN,
    )
    events = list(parse_events(raw.content))

    assert sent_body(lab_gateway)[0] == "/v1/responses"
    assert (events[0].name, events[-1].name) == ("message_start", last)
    assert [event.name for event in events].count(last) == 1


def test_tools_go_without_reasoning_where_there_are_no_responses(
    lab_gateway: GatewayFixture, claude: Any
) -> None:
    raw = claude.messages.with_raw_response.create(
        model="gpt-chat-alone", messages=[QUESTION], **ASKED
    )
    path, body = sent_body(lab_gateway)

    assert raw.parse().stop_reason == "tool_use"
    assert (path, body["reasoning_effort"]) == ("/v1/chat/completions", "none")
    assert "sent reasoning_effort none" in raw.headers["x-thriftgate-notes"]


def test_a_model_that_always_reasons_is_refused_with_the_reason_where_there_are_none(
    lab_gateway: GatewayFixture, claude: Any
) -> None:
    before = len(lab_gateway.lab.exchanges)
    with pytest.raises(anthropic.BadRequestError, match="takes no tools"):
        claude.messages.create(model="gpt-always", messages=[QUESTION], **ASKED)

    assert len(lab_gateway.lab.exchanges) == before
