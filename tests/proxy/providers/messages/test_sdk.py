"""Anthropic's own SDK reads our answers, streams and errors, over a transport in memory."""

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import orjson
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.request import ChatRequest, chat_request
from proxy.providers.messages.target import ChatTarget
from proxy.providers.readers import PassthroughReader
from proxy.providers.sse import EventFramer
from tests.examples import examples
from tests.fakes.messages_calls import (
    CLAUDE,
    WEATHER,
    Json,
    assistant,
    calls,
    chat_stream,
    chunk,
    completion,
    part,
    result,
    text,
    user,
)

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
}
CALLS = [
    part(0, '{"city":"Bern"}', "weather", id="c0"),
    part(1, '{"city":"Ulm"}', "weather", id="c1"),
]
THINKING: Json = {"type": "adaptive", "display": "summarized"}


class MessagesGateway:
    """A gateway in front of an upstream with one chat answer for all calls.

    Attributes:
        asked: The chat calls.
    """

    def __init__(self, answer: bytes, target: ChatTarget | None = None) -> None:
        self.asked: list[Json] = []
        self._answer = answer
        self._target = target or ChatTarget()

    def client(self) -> anthropic.Anthropic:
        """The SDK, whose calls come here."""
        transport = httpx2.MockTransport(self._serve)
        http = anthropic.DefaultHttpxClient(transport=transport)
        return anthropic.Anthropic(api_key="k", base_url="http://g.test", http_client=http)

    def _serve(self, request: httpx2.Request) -> httpx2.Response:
        translated = chat_request(request.read(), self._target)
        chat = orjson.loads(translated.body)
        self.asked.append(chat)
        if not chat.get("stream"):
            return httpx2.Response(200, content=b"".join(self._pieces(translated, streamed=False)))
        kind = {"content-type": "text/event-stream"}
        return httpx2.Response(200, content=self._pieces(translated, streamed=True), headers=kind)

    def _pieces(self, translated: ChatRequest, *, streamed: bool) -> Iterator[bytes]:
        reader, frames = self._reader(translated, streamed=streamed), EventFramer()
        if not streamed:
            yield reader.feed(self._answer)
        for start in range(0, len(self._answer) if streamed else 0, 7):
            yield reader.feed(frames.feed(self._answer[start : start + 7]))
        yield reader.end()

    @staticmethod
    def _reader(translated: ChatRequest, *, streamed: bool) -> Any:
        return messages_reader(PassthroughReader(), translated.settings, streamed=streamed)


def request_fields(**fields: Any) -> Json:
    return {"model": "gpt-x", "max_tokens": 99, "messages": [user("Hi")], **fields}


WHOLE = completion("tool_calls", USAGE, content="I look.", reasoning_content="Hm", tool_calls=CALLS)
STREAM = chat_stream(
    b": keep-alive\n\n",
    chunk(role="assistant", content=""),
    chunk(reasoning_content="H"),
    chunk(reasoning_content="m"),
    chunk(content="I "),
    b": keep-alive\n\n",
    chunk(content="look."),
    chunk(tool_calls=CALLS[:1]),
    chunk(tool_calls=[part(1, '{"city":', "weather", id="c1")]),
    chunk(tool_calls=[part(1, '"Ulm"}')]),
    chunk("tool_calls"),
    usage=USAGE,
)


def check(message: Any) -> None:
    """Raise an AssertionError unless it is the message that the upstream meant."""
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert (message.content[0].thinking, message.content[1].text) == ("Hm", "I look.")
    assert [block.input for block in message.content[2:]] == [{"city": "Bern"}, {"city": "Ulm"}]
    assert message.stop_reason == "tool_use"
    counted = message.usage
    assert (counted.input_tokens, counted.cache_read_input_tokens) == (30, 60)
    assert (counted.cache_creation_input_tokens, counted.output_tokens) == (10, 9)


def test_a_stream_is_a_message_to_the_stream_helper() -> None:
    gateway = MessagesGateway(STREAM)
    with gateway.client().messages.stream(
        **request_fields(tools=[WEATHER], thinking=THINKING)
    ) as stream:
        kinds = {event.type for event in stream}
        check(stream.get_final_message())

    assert {"text", "thinking", "input_json", "content_block_stop", "message_stop"} <= kinds
    assert gateway.asked[0]["stream_options"] == {"include_usage": True}


def test_structured_output_is_parsed() -> None:
    class WeatherAnswer(pydantic.BaseModel):
        city: str

    gateway = MessagesGateway(completion(content='{"city":"Bern"}'))
    message = gateway.client().messages.parse(**request_fields(output_format=WeatherAnswer))

    assert message.parsed_output == WeatherAnswer(city="Bern")
    assert gateway.asked[0]["response_format"]["json_schema"]["strict"] is True


def test_an_upstream_that_reads_its_reasoning_gets_it_back() -> None:
    gateway = MessagesGateway(WHOLE, ChatTarget(thinking="text"))
    client = gateway.client()
    for thinking in (THINKING, {"type": "adaptive", "display": "omitted"}):
        first = client.messages.create(**request_fields(tools=[WEATHER], thinking=thinking))
        results = [result(block.id) for block in first.content if block.type == "tool_use"]
        turns = [user("Hi"), {"role": "assistant", "content": first.content}, user(*results)]
        client.messages.create(**request_fields(messages=turns, tools=[WEATHER], thinking=thinking))

        assert gateway.asked[-1]["messages"][1]["reasoning_content"] == "Hm"


def _cuts(kinds: list[str]) -> list[Json]:
    """Chunks of a stream: words, reasoning and calls in any order."""
    cuts, index = [], 0
    for kind in kinds:
        if kind == "call":
            cuts.append(chunk(tool_calls=[part(index, '{"a":1}', "weather", id=f"c{index}")]))
            index += 1
        else:
            cuts.append(chunk(**{kind: "words"}))
    return cuts


@given(st.lists(st.sampled_from(["content", "reasoning_content", "refusal", "call"]), max_size=9))
@examples(10)
def test_a_stream_of_any_order_is_a_message(kinds: list[str]) -> None:
    gateway = MessagesGateway(chat_stream(*_cuts(kinds), chunk("stop"), usage=USAGE))
    with gateway.client().messages.stream(**request_fields(thinking=THINKING)) as stream:
        message = stream.get_final_message()

    words = "".join(block.text for block in message.content if block.type == "text")
    assert words == "words" * (kinds.count("content") + kinds.count("refusal"))
    made = [block for block in message.content if block.type == "tool_use"]
    assert len({block.id for block in made}) == len(made) == kinds.count("call")


@pytest.mark.parametrize("target", [ChatTarget(), ChatTarget(thinking="text"), CLAUDE])
def test_an_agents_call_is_said_whole(target: ChatTarget) -> None:
    mark = {"type": "ephemeral"}
    header = "x-anthropic-billing-header: cc_version=2.1.197.d00; cc_entrypoint=sdk-cli;"
    gateway = MessagesGateway(STREAM, target)
    call = request_fields(
        system=[text(header), text("You are an agent.", cache_control=mark), text("Rules.")],
        messages=[
            user(text("<system-reminder>Today</system-reminder>"), text("Go", cache_control=mark)),
            {"role": "system", "content": "Agents: a, b."},
            assistant(calls("toolu_01A")),
            user(result("toolu_01A", cache_control=mark)),
        ],
        tools=[WEATHER],
        thinking={"type": "adaptive"},
        output_config={"effort": "high"},
        metadata={"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
        extra_body={"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
    )
    with gateway.client().messages.stream(**call) as stream:
        stream.until_done()
    sent = gateway.asked[0]

    assert [message["role"] for message in sent["messages"]] == [
        "system", "user", "system", "assistant", "tool",
    ]  # fmt: skip
    assert "billing" not in orjson.dumps(sent).decode()
    assert sent["messages"][0]["content"][0]["cache_control"] == mark
    assert sent["reasoning_effort"] == "high"
