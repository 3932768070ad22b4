"""The three APIs as a test of recall uses them: official SDKs, and prompts as the model gets them.

Each answer is read by its SDK's own helpers, so that a wrong number or a missing event shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
import openai
import orjson

from compaction.recall.tool_index import TOOL_NAME

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"name": {"type": "string"}}}


@dataclass(frozen=True, kw_only=True)
class RecalledReply:
    """An answer as its caller has it.

    Attributes:
        calls: Names and arguments of the tools it calls.
        kinds: The kinds of its parts, in order.
        prompt_tokens: Tokens of its prompt; None where a stream was not asked for them.
    """

    text: str
    end: str | None
    id: str
    headers: Mapping[str, str]
    calls: Sequence[tuple[str, Json]] = ()
    kinds: Sequence[str] = ()
    thinking: Sequence[Json] = field(default_factory=list)
    prompt_tokens: int | None = None

    @property
    def call_id(self) -> str:
        """The gateway's id of the call."""
        return self.headers["x-request-id"]


class Api(Protocol):
    """One API.

    Attributes:
        model: A model that is asked in it, end to end.
        stopped: The end of an answer that calls no tool.
        called: The end of one that does.
    """

    name: str
    model: str
    stopped: str
    called: str

    def connect(self, url: str, key: str) -> Any:
        """A client of the SDK."""
        ...

    async def ask(self, client: Any, messages: Sequence[Json], **fields: Any) -> RecalledReply:
        """The answer to a chat, in ``stream`` or not, with ``tools`` by name."""
        ...


class Chat:
    name, model, stopped, called = "chat", "talker", "stop", "tool_calls"

    def connect(self, url: str, key: str) -> Any:
        """A client."""
        return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)

    async def ask(self, client: Any, messages: Sequence[Json], **fields: Any) -> RecalledReply:
        """The answer to a chat."""
        tools = [
            {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
            for name in fields.pop("tools", ())
        ]
        fields |= {"tools": tools} if tools else {}
        raw: Any = await client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=messages,
            **fields,
        )
        if not fields.get("stream"):
            return self._whole_reply(raw)
        return self._streamed_reply(raw, [chunk async for chunk in raw.parse()])

    def _whole_reply(self, raw: Any) -> RecalledReply:
        answer = raw.parse()
        (choice,) = answer.choices
        calls = [call.function for call in choice.message.tool_calls or ()]
        return RecalledReply(
            text=choice.message.content or "",
            end=choice.finish_reason,
            id=answer.id,
            headers=raw.headers,
            calls=[(call.name, orjson.loads(call.arguments)) for call in calls],
            prompt_tokens=answer.usage.prompt_tokens,
        )

    def _streamed_reply(self, raw: Any, chunks: Sequence[Any]) -> RecalledReply:
        choices = [choice for chunk in chunks for choice in chunk.choices]
        (id_,) = {chunk.id for chunk in chunks}
        (end,) = [choice.finish_reason for choice in choices if choice.finish_reason]
        assert not any(chunk.usage for chunk in chunks)  # usage was not asked for
        assert [c.delta.role for c in choices if c.delta.role] == ["assistant"]
        parts: dict[int, list[Any]] = {}
        for choice in choices:
            for part in choice.delta.tool_calls or ():
                parts.setdefault(part.index, []).append(part.function)
        assert list(parts) == list(range(len(parts)))
        calls = [
            (call[0].name, orjson.loads("".join(part.arguments or "" for part in call)))
            for call in parts.values()
        ]
        text = "".join(choice.delta.content or "" for choice in choices)
        return RecalledReply(text=text, end=end, id=id_, headers=raw.headers, calls=calls)


class Messages:
    name, model, stopped, called = "messages", "thinker", "end_turn", "tool_use"

    def connect(self, url: str, key: str) -> Any:
        """A client."""
        return anthropic.AsyncAnthropic(
            base_url=url.removesuffix("/v1"), auth_token=key, max_retries=0
        )

    async def ask(self, client: Any, messages: Sequence[Json], **fields: Any) -> RecalledReply:
        """The answer to a chat."""
        tools = [{"name": name, "input_schema": SCHEMA} for name in fields.pop("tools", ())]
        fields |= {"tools": tools} if tools else {}
        request: Json = {"model": self.model, "max_tokens": 900, "messages": messages, **fields}
        if messages[0]["role"] == "system":
            request |= {"system": messages[0]["content"], "messages": messages[1:]}
        is_streamed = request.pop("stream", False)
        if not is_streamed:
            raw = await client.messages.with_raw_response.create(**request)
            return self._reply(await raw.parse(), raw.headers)
        async with client.messages.stream(**request) as stream:
            indices = [e.index async for e in stream if e.type == "content_block_start"]
            assert indices == list(range(len(indices)))
            return self._reply(await stream.get_final_message(), stream.response.headers)

    def _reply(self, message: Any, headers: Mapping[str, str]) -> RecalledReply:
        blocks = message.content
        return RecalledReply(
            text="".join(block.text for block in blocks if block.type == "text"),
            end=message.stop_reason,
            id=message.id,
            headers=headers,
            calls=[(block.name, block.input) for block in blocks if block.type == "tool_use"],
            kinds=[block.type for block in blocks],
            thinking=[block.model_dump() for block in blocks if block.type == "thinking"],
            prompt_tokens=message.usage.input_tokens,
        )


class Responses:
    name, model, stopped, called = "responses", "talker", "completed", "completed"

    def connect(self, url: str, key: str) -> Any:
        """A client."""
        return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)

    async def ask(self, client: Any, messages: Sequence[Json], **fields: Any) -> RecalledReply:
        """The answer to a chat, of which the provider keeps nothing."""
        tools = [
            {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}
            for name in fields.pop("tools", ())
        ]
        fields |= {"tools": tools} if tools else {}
        request: Json = {"model": self.model, "input": list(messages), "store": False, **fields}
        is_streamed = request.pop("stream", False)
        if not is_streamed:
            raw = await client.responses.with_raw_response.create(**request)
            return self._reply(raw.parse(), raw.headers)
        async with client.responses.stream(**request) as stream:
            events = [event async for event in stream]
            answer = self._reply(await stream.get_final_response(), stream._response.headers)
        raw_kinds = [event for event in events if event.type == "response.output_item.done"]
        assert [event.output_index for event in raw_kinds] == list(range(len(answer.kinds)))
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(deltas) == answer.text
        numbers = [event.sequence_number for event in events]
        assert sorted(set(numbers)) == list(range(numbers[-1] + 1))
        opening = [event.response.id for event in events if event.type == "response.created"]
        assert opening == [answer.id]
        return answer

    def _reply(self, response: Any, headers: Mapping[str, str]) -> RecalledReply:
        assert all(tool.name != TOOL_NAME for tool in response.tools)
        calls = [item for item in response.output if item.type == "function_call"]
        return RecalledReply(
            text=response.output_text,
            end=response.status,
            id=response.id,
            headers=headers,
            calls=[(call.name, orjson.loads(call.arguments)) for call in calls],
            kinds=[item.type for item in response.output],
            thinking=[item.model_dump() for item in response.output if item.type == "reasoning"],
            prompt_tokens=response.usage.input_tokens,
        )


class MessagesInChat(Messages):
    """Messages of a model that is asked in chat."""

    name, model = "messages in chat", "talker"


class ChatInMessages(Chat):
    """Chat of a model that is asked in Messages."""

    name, model = "chat in messages", "thinker"


class ResponsesInMessages(Responses):
    """Responses of a model that is asked in Messages."""

    name, model = "responses in messages", "thinker"


class ResponsesInChat(Responses):
    """Responses of a model whose upstream has chat alone."""

    name, model = "responses in chat", "whisperer"


APIS: Sequence[Api] = (Chat(), Messages(), Responses())


def history(body: Json) -> list[Json]:
    """The messages or items of a body."""
    messages: list[Json] = body["messages"] if "messages" in body else body["input"]
    return messages


def words_of(body: Json) -> str:
    """All that a body says."""
    return "\n".join(str(message.get("content")) for message in history(body))


def offers_recall(body: Json) -> bool:
    """True if the model may recall."""
    tools = body.get("tools", ())
    return any(tool.get("function", tool)["name"] == TOOL_NAME for tool in tools)


def question(body: Json) -> str:
    """The last message's words."""
    return _text_of(history(body)[-1]["content"])


def recalled_texts(body: Json) -> list[str]:
    """The texts that the model recalled in this turn, from the first on."""
    return [text for message in history(body) for text in _results(message)]


def _results(message: Json) -> list[str]:
    """The results in a message; chats of these tests have no others."""
    if message.get("role") == "tool":
        return [message["content"]]
    if message.get("type") == "function_call_output":
        return [message["output"]]
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return [_text_of(block["content"]) for block in blocks if block.get("type") == "tool_result"]


def _text_of(content: str | list[Json]) -> str:
    """A content, be it a text or parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
