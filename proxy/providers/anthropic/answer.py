"""A Messages answer as a chat completion.

Source: Anthropic, Messages API; OpenAI, the chat completion object (2026-11).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.anthropic.failure import stream_failure
from proxy.providers.anthropic.usage import messages_usage
from proxy.providers.chat.block_order import OPAQUE, BlockOrder
from proxy.providers.chat.chat_answer import (
    ChatReply,
    chat_choice,
    chat_message,
    function_call,
    usage_object,
)
from proxy.providers.chat.compaction_blocks import applied_edits
from proxy.providers.readers import WholeReader

#: Source: Anthropic, Messages API, stop reasons (2026-11).
#: A reason we do not know ends the answer as any other, and so do a pause and a compaction: the
#: caller sends the message back and the model goes on.
FINISH_REASONS: Final[Mapping[str | None, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_TIERS: Final[Mapping[object, str]] = {"standard": "default", "priority": "priority"}


class AnthropicBlock(msgspec.Struct):
    """One content block of an answer."""

    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    input: Raw = Raw()
    citations: list[dict[str, Any]] | None = None


class AnthropicAnswer(msgspec.Struct):
    """A Messages answer, or the error that stands in its place."""

    id: str = ""
    content: list[Raw] = []
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    context_management: Any = None
    error: dict[str, Any] | None = None


_answer = msgspec.json.Decoder(AnthropicAnswer).decode
_block = msgspec.json.Decoder(AnthropicBlock).decode


class WholeAnswer(WholeReader):
    """Turns the body of a Messages answer into a chat completion's."""

    __slots__ = ("_reply",)

    def __init__(self, reply: ChatReply) -> None:
        self._reply = reply

    def _translate(self, body: bytes) -> dict[str, Any]:
        answer = _answer(body)
        if answer.error is not None:
            raise stream_failure(answer.error)
        usage = answer.usage or {}
        reason = FINISH_REASONS.get(answer.stop_reason, "stop")
        return self._reply.completion(
            answer.id,
            [chat_choice(message(answer.content), reason)],
            usage=usage_object(messages_usage(usage), has_writes=True),
            service_tier=tier_of(usage),
            context_management=applied_edits(answer.context_management),
        )


def message(content: list[Raw]) -> dict[str, Any]:
    """The assistant message of these blocks.

    Thinking stands in it twice: as text to read in ``reasoning_content``, and byte for byte in
    ``thinking_blocks``, which a caller that sends the message back must keep. A compaction stands
    there among it, in its place, and so does a word on what else stood between them.

    Raises:
        msgspec.DecodeError: If a block is none.
    """
    words, thoughts, opaque, order = "", "", [], BlockOrder()
    calls: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for raw in content:
        block = _block(raw)
        if block.type == "text":
            links += annotations(block.citations or (), len(words), len(words + block.text))
            words += block.text
            order.note_words(block.text)
        elif block.type == "tool_use":
            arguments = bytes(block.input).decode(errors="replace") or "{}"  # byte for byte
            calls.append(function_call(block.id, block.name, arguments))
            order.note_call(block.id)
        elif block.type in OPAQUE:
            thoughts += block.thinking
            opaque += order.entries_for_block(raw)
    return chat_message(
        words,
        calls,
        reasoning_content=thoughts,
        thinking_blocks=opaque + order.final_entries(),
        annotations=links,
    )


def annotations(
    citations: Sequence[Mapping[str, Any]], start: int, end: int
) -> list[dict[str, Any]]:
    """The citations that name a page, as OpenAI's; others have no counterpart and are left out.

    Args:
        start: Start of the block in the content, in characters.
        end: End of it, likewise.
    """
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": citation["url"],
                "title": citation.get("title") or "",
                "start_index": start,
                "end_index": end,
            },
        }
        for citation in citations
        if isinstance(citation.get("url"), str)
    ]


def tier_of(usage: Mapping[str, Any]) -> str | None:
    """The service tier by OpenAI's name; None where the answer names none."""
    tier = usage.get("service_tier")
    return _TIERS.get(tier) if isinstance(tier, str) else None
