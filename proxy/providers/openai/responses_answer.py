"""A response of the Responses API as a chat completion.

Source: OpenAI API reference, the response object, the chat completion object (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.chat.call_parts import Arguments, arguments_text
from proxy.providers.chat.chat_answer import (
    ChatReply,
    Json,
    chat_choice,
    chat_message,
    function_call,
)
from proxy.providers.failures import failure_of_object
from proxy.providers.lenient import decode_leniently
from proxy.providers.messages.signatures import (
    own_signature,
    phase_signature,
    reasoning_signature,
)
from proxy.providers.readers import WholeReader
from proxy.providers.stream_endings import malformed_answer

#: Chat's reasons by those of an incomplete response; any other ends the answer.
_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
#: Names of usage, which both APIs have.
_COUNTS: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
#: Stands between two messages of an answer, and between two parts of a thought.
PARAGRAPH: Final = "\n\n"
#: Statuses of a response that has no answer.
_FAILED: Final = frozenset({"failed", "cancelled"})
#: Items that chat has words for.
_CHAT_ITEMS: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
_CITATION: Final = "url_citation"


class ResponsePart(msgspec.Struct):
    """A part of a message, or of a summary of reasoning."""

    type: str = ""
    text: str = ""
    refusal: str = ""
    annotations: list[Any] | None = None


class ResponseItem(msgspec.Struct):
    """An item of the output; which fields matter depends on its type."""

    type: str = ""
    id: str = ""
    call_id: str = ""
    name: str = ""
    arguments: Arguments = ""
    input: str = ""
    content: list[ResponsePart] | None = None
    summary: list[ResponsePart] | None = None
    encrypted_content: str | None = None
    phase: Any = None

    @property
    def thinking_text(self) -> str:
        """The words of an item of reasoning: their summary, else themselves; "" for none."""
        parts = self.summary or self.content or ()
        return PARAGRAPH.join(part.text for part in parts if part.text)


class _ItemKind(msgspec.Struct):
    type: Any = None


_kind: Final = msgspec.json.Decoder(_ItemKind).decode
_item: Final = msgspec.json.Decoder(ResponseItem).decode


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """A response, whole or as far as it has come."""

    id: str = ""
    status: str = ""
    output: list[msgspec.Raw] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None
    error: Any = None

    @property
    def chat_id(self) -> str:
        """The id of the completion."""
        return f"chatcmpl-{self.id.removeprefix('resp_')}"

    def finish_reason(self, *, calls: bool) -> str:
        """Chat's reason for the end."""
        why = self.incomplete_details.reason if self.incomplete_details is not None else None
        return _REASONS.get(why or "", "tool_calls" if calls else "stop")

    @property
    def chat_usage(self) -> Json | None:
        """The usage object by chat's names; None for none."""
        if self.usage is None:
            return None
        return {chat: self.usage[name] for name, chat in _COUNTS.items() if name in self.usage}


class ResponsesReply(ChatReply, frozen=True, kw_only=True):
    """The facts of a call that its answer repeats.

    Attributes:
        maker: Upstream and model that can read the encrypted reasoning; "" leaves it out.
    """

    maker: str

    def reasoning_blocks(self, item: ResponseItem) -> list[Json]:
        """An item of reasoning as ``thinking_blocks``: it is sealed, so that it can come back."""
        words = item.thinking_text
        if not self.maker or not (item.encrypted_content or words):
            return []
        signature = own_signature()
        if item.encrypted_content:
            summary = [{"type": part.type, "text": part.text} for part in item.summary or ()]
            sealed = {"type": item.type, "id": item.id, "summary": summary}
            sealed["encrypted_content"] = item.encrypted_content
            signature = reasoning_signature(sealed, self.maker)
        return [{"type": "thinking", "thinking": words, "signature": signature}]

    def phase_blocks(self, item: ResponseItem) -> list[Json]:
        """A message's phase as ``thinking_blocks`` without words, before the message."""
        signature = phase_signature(item.phase, self.maker) if self.maker else ""
        return [{"type": "thinking", "thinking": "", "signature": signature}] if signature else []


def tool_call(item: ResponseItem) -> Json | None:
    """The call of a tool that an item makes; None where it makes none."""
    if item.type == "function_call":
        return function_call(item.call_id, item.name, arguments_text(item.arguments))
    if item.type == "custom_tool_call":
        custom = {"name": item.name, "input": item.input}
        return {"id": item.call_id, "type": "custom", "custom": custom}
    return None


def read_item(raw: msgspec.Raw) -> ResponseItem:
    """An item of the output; an empty one for hosted tools, which have no words in chat."""
    kind = _kind(raw).type
    return _item(raw) if isinstance(kind, str) and kind in _CHAT_ITEMS else ResponseItem()


def chat_annotation(annotation: object, start: int) -> Json | None:
    """A citation of a page as chat has it; None for other annotations.

    Args:
        start: Characters of the answer before that part.
    """
    if not isinstance(annotation, dict) or annotation.get("type") != _CITATION:
        return None
    named = {name: annotation[name] for name in ("url", "title") if name in annotation}
    places = {
        name: start + annotation[name]
        for name in ("start_index", "end_index")
        if isinstance(annotation.get(name), int)
    }
    return {"type": _CITATION, _CITATION: named | places}


_responses: Final = msgspec.json.Decoder(Response)


class WholeResponse(WholeReader):
    """Turns the body of a response into a chat completion's."""

    def __init__(self, reply: ResponsesReply) -> None:
        self._reply = reply

    def _translate(self, body: bytes) -> Json:
        response = decode_leniently(_responses, body)
        if response.error is not None or response.status in _FAILED:
            raise failure_of_object(response.error)
        if response.output is None:
            raise malformed_answer()
        message = self._message([read_item(raw) for raw in response.output])
        reason = response.finish_reason(calls="tool_calls" in message)
        return self._reply.completion(
            response.chat_id,
            [chat_choice(message, reason)],
            service_tier=response.service_tier,
            usage=response.chat_usage,
        )

    def _message(self, output: list[ResponseItem]) -> Json:
        parts, order = _MessageParts(), BlockOrder()
        for item in output:
            if item.type == "reasoning":
                parts.thoughts.append(item.thinking_text)
                for block in self._reply.reasoning_blocks(item):
                    parts.blocks += order.entries_for_block(block)
            elif item.type == "message":
                for block in self._reply.phase_blocks(item):
                    parts.blocks += order.entries_for_block(block)
                order.note_words(parts.add_message(item.content or []))
            elif (call := tool_call(item)) is not None:
                parts.calls.append(call)
                order.note_call(item.call_id)
        parts.blocks += order.final_entries()
        return parts.message()


class _MessageParts:
    """The parts of a chat message, while its items are read."""

    def __init__(self) -> None:
        self.blocks: list[Json] = []
        self.calls: list[Json] = []
        self.thoughts: list[str] = []
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._links: list[Json] = []

    def add_message(self, parts: list[ResponsePart]) -> str:
        """Add a message; its words, as they go on from those before."""
        self._refusals += [part.refusal for part in parts]
        words = "".join(part.text for part in parts)
        before = PARAGRAPH if words and self._texts else ""
        start = sum(map(len, self._texts)) + len(before)
        for part in parts:
            links = (chat_annotation(annotation, start) for annotation in part.annotations or ())
            self._links += [link for link in links if link is not None]
            start += len(part.text)
        self._texts += [before + words] if words else []
        return before + words

    def message(self) -> Json:
        """The message; what an answer lacks is left out of it."""
        return chat_message(
            "".join(self._texts),
            self.calls,
            refusal="".join(self._refusals) or None,
            reasoning_content="".join(self.thoughts),
            thinking_blocks=self.blocks,
            annotations=self._links,
        )
