"""Messages calls and the chat answers to them, in as few words as a story needs."""

from typing import Any

import msgspec
import orjson

from proxy.providers.messages.names import chat_call_id
from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.request import ChatRequest, chat_request
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.messages.target import ChatTarget
from proxy.providers.readers import PassthroughReader
from proxy.providers.sse import parse_events

Json = dict[str, Any]
#: A call as the model made it: id, name, arguments. Readers give the same.
Call = tuple[str, str, str]

#: An upstream that takes all of the gateway's own chat fields, as one that serves Claude does.
CLAUDE = ChatTarget(thinking="blocks", takes_extras=True)
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Json = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}


def user(*content: Any) -> Json:
    """A user's message of blocks, or of one text."""
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def assistant(*content: Any) -> Json:
    """An assistant's message likewise."""
    return user(*content) | {"role": "assistant"}


def text(words: str, **more: Any) -> Json:
    """A text block."""
    return {"type": "text", "text": words, **more}


def calls(name: str, tool: str = "weather", **more: Any) -> Json:
    """A call of a tool."""
    return {"type": "tool_use", "id": name, "name": tool, "input": {"city": "Bern"}, **more}


def result(name: str, content: Any = "22 degrees", **more: Any) -> Json:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def messages_call(*messages: Json, **fields: Any) -> bytes:
    """The body of a call; "Hi" where no message is given."""
    body = {"model": "gpt-x", "max_tokens": 99, "messages": [*messages] or [user("Hi")]}
    return orjson.dumps(body | fields)


def chat_body_and_notes(
    *messages: Json, target: ChatTarget | None = None, **fields: Any
) -> tuple[Json, tuple[str, ...]]:
    """The chat body of a call, and the notes on it."""
    translated = request(*messages, target=target, **fields)
    return orjson.loads(translated.body), translated.notes


def request(*messages: Json, target: ChatTarget | None = None, **fields: Any) -> ChatRequest:
    """The translation of a call."""
    return chat_request(messages_call(*messages, **fields), target or ChatTarget())


def chunk(finish: str | None = None, **delta: Any) -> Json:
    """A chunk of a chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-7f", "choices": [choice]}


def part(index: int, arguments: str = "", name: str | None = None, **more: Any) -> Json:
    """A piece of a tool call in a chunk."""
    return {"index": index, "function": {"name": name, "arguments": arguments}, **more}


def chat_stream(*chunks: Json | bytes, usage: Json | None = None) -> bytes:
    """The stream of these chunks, with its end; bytes stand for themselves."""
    usage_chunks = () if usage is None else ({"id": "chatcmpl-7f", "choices": [], "usage": usage},)
    framed = [
        chunk if isinstance(chunk, bytes) else b"data: " + orjson.dumps(chunk) + b"\n\n"
        for chunk in (*chunks, *usage_chunks)
    ]
    return b"".join(framed) + b"data: [DONE]\n\n"


def completion(finish: str = "stop", usage: Json | None = None, **message: Any) -> bytes:
    """A whole chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return orjson.dumps({"id": "chatcmpl-7f", "choices": [choice], "usage": usage})


def settings(**fields: Any) -> AnswerSettings:
    """The settings of an answer."""
    return msgspec.structs.replace(AnswerSettings(model="gpt-x", digest="d1"), **fields)


def messages_stream(run: bytes, **fields: Any) -> bytes:
    """The Messages stream for a whole chat stream."""
    reader = messages_reader(PassthroughReader(), settings(**fields), streamed=True)
    return reader.feed(run) + reader.end()


def message_of(body: bytes, **fields: Any) -> Json:
    """The message for a whole chat completion."""
    reader = messages_reader(PassthroughReader(), settings(**fields), streamed=False)
    document: Json = orjson.loads(reader.feed(body) + reader.end())
    return document


def payloads(events: bytes) -> list[Json]:
    """The data of the events of a stream."""
    return [orjson.loads(event.data) for event in parse_events(events)]


def calls_by_messages_stream(run: bytes) -> list[Call]:
    """The calls in the events of a Messages stream."""
    own_calls: dict[int, list[str]] = {}
    for event in payloads(messages_stream(run)):
        block = event.get("content_block", {})
        if block.get("type") == "tool_use":
            assert block["input"] == {}
            own_calls[event["index"]] = [chat_call_id(block["id"], "any"), block["name"], ""]
        if event.get("delta", {}).get("type") == "input_json_delta":
            own_calls[event["index"]][2] += event["delta"]["partial_json"]
    return [(one[0], one[1], one[2]) for one in own_calls.values()]
