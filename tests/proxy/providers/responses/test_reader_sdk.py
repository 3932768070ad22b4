"""OpenAI's SDK reads the events and sends items back, also around Anthropic's API."""

from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import openai
import orjson
import pytest
from pydantic import BaseModel

from proxy.catalog.entries import Route, Upstream
from proxy.providers.responses.request import chat_body
from proxy.records.call import Call, Key
from proxy.records.request_fields import parse_request_fields
from tests.fakes.converted_calls import prepare_converted
from tests.proxy.providers.responses.read_streams import (
    DONE,
    MESSAGE,
    STREAM,
    WHOLE,
    chunk,
    read_stream,
    sse,
    whole,
)

TOOLS: list[Any] = [{"type": "function", "name": "f", "parameters": {}, "strict": False}]


def client(answer: Callable[[bytes], bytes], kind: str) -> openai.OpenAI:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=answer(request.content), headers={"content-type": kind})

    return openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


def streaming_client(pieces: Iterable[bytes]) -> openai.OpenAI:
    def answer(body: bytes) -> bytes:
        chat_body(body)
        return read_stream(*pieces, body=body)

    return client(answer, "text/event-stream")


@pytest.mark.slow
def test_the_sdk_adds_a_stream_up_to_its_response() -> None:
    with streaming_client(STREAM).responses.stream(model="m", input="Hi", tools=TOOLS) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()

    assert "".join(texts) == response.output_text == "Hello"
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]


class WeatherReport(BaseModel):
    """The schema of a structured answer."""

    degrees: int


@pytest.mark.slow
def test_the_sdk_parses_structured_output() -> None:
    pieces = [chunk(content='{"degrees"'), chunk(content=":7}"), chunk(finish="stop"), DONE]
    with streaming_client(pieces).responses.stream(
        model="m", input="Hi", text_format=WeatherReport
    ) as stream:
        response = stream.get_final_response()

    assert response.output_parsed == WeatherReport(degrees=7)


def test_the_sdk_raises_what_broke_the_stream() -> None:
    pieces = [chunk(content="Hi"), sse({"error": {"message": "oh", "code": "overloaded"}})]
    stream = streaming_client(pieces).responses.create(model="m", input="Hi", stream=True)

    with pytest.raises(openai.APIError, match="oh") as caught:
        list(stream)
    assert caught.value.code == "overloaded"


def test_a_conversation_with_tools_goes_round() -> None:
    """The SDK sends back what it got; the model sees its own words, calls and signed thoughts."""
    sent: list[dict[str, Any]] = []

    def answer(body: bytes) -> bytes:
        sent.append(orjson.loads(chat_body(body).body))
        return whole(WHOLE, body=body)

    sdk = client(answer, "application/json")
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    response = sdk.responses.create(model="m", input=history, tools=TOOLS, store=False)
    history += response.output
    history += [
        {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
        for call in response.output
        if call.type == "function_call"
    ]
    sdk.responses.create(model="m", input=history, tools=TOOLS, store=False)

    sent_back = {name: value for name, value in MESSAGE.items() if name != "reasoning_content"}
    assert sent[1]["messages"] == [
        *sent[0]["messages"],
        sent_back,
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "42"},
    ]
    assert {k: v for k, v in sent[1].items() if k != "messages"} == {
        k: v for k, v in sent[0].items() if k != "messages"
    }


#: Anthropic's API behind the gateway, to which the SDK sends its items back.
ROUTE = Route(
    name="a/claude",
    upstream=Upstream(name="a", kind="anthropic", base_url="http://a/v1"),
    model="claude",
    max_output=4096,
    traits=frozenset({"adaptive_thinking"}),
)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s=="}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}


def messages_stream() -> bytes:
    happenings: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s=="}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Look:"}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": CALLED | {"input": {}}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta",
                                                  "partial_json": '{"a":1}'}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
         "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return b"".join(map(sse, happenings))


def test_signed_thoughts_of_anthropic_go_round_through_the_sdk() -> None:
    sent: list[dict[str, Any]] = []

    def answer(body: bytes) -> bytes:
        call = Call(
            id="call_1",
            key=Key(id="key_1", team="t", team_name="T"),
            method="POST",
            endpoint="responses",
            headers={},
            body=body,
            fields=parse_request_fields(body),
            arrived=1.0,
        )
        prepared = prepare_converted(call, ROUTE)
        sent.append(orjson.loads(prepared.body))
        assert prepared.reader is not None
        return prepared.reader.feed(messages_stream()) + prepared.reader.end()

    sdk = client(answer, "text/event-stream")
    effort: Any = {"effort": "high"}
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    with sdk.responses.stream(model="m", input=history, tools=TOOLS, reasoning=effort) as stream:
        response = stream.get_final_response()
    result: Any = {"type": "function_call_output", "call_id": "toolu_1", "output": "42"}
    again = [*history, *response.output, result]
    sdk.responses.create(model="m", input=again, tools=TOOLS, reasoning=effort, stream=True)

    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (9, 4)
    thought, words, call = sent[1]["messages"][1]["content"]
    assert (thought, words["text"], call) == (THOUGHT, "Look:", CALLED)
    assert sent[1]["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"
