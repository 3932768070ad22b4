"""OpenAI's SDK reads the events and sends items back."""

from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import openai
import orjson
import pytest

from proxy.providers.responses.request import chat_body
from tests.proxy.providers.responses.read_streams import (
    MESSAGE,
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
