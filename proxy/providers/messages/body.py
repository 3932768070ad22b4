"""A Messages body as callers write it: typed, so that a wrong type names its place.

JSON that the gateway has no business reading (schemas, arguments, markers) stays raw.

Source: Anthropic, Messages API, create a message; anthropic 2.11 (2026-11).
"""

from typing import Any

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import decode_typed

Json = dict[str, Any]


class BlockSource(msgspec.Struct):
    """Content of an image or a document, or where it is."""

    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: "str | list[MessagesBlock] | None" = None


class MessagesBlock(msgspec.Struct, kw_only=True):
    """One content block; which fields matter depends on its type."""

    type: str
    text: str | None = None
    source: BlockSource | str | None = None
    title: str | None = None
    context: str | None = None
    citations: Raw = Raw()
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    tool_use_id: str | None = None
    tool_name: str | None = None
    content: "str | list[MessagesBlock] | dict[str, Raw] | None" = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    cache_control: Raw = Raw()


class MessagesTurn(msgspec.Struct, kw_only=True):
    """One message."""

    role: str
    content: str | list[MessagesBlock]


class MessagesTool(msgspec.Struct, kw_only=True):
    """A tool: the caller's own, or by its type one that Anthropic defines."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: Raw = Raw()
    strict: bool | None = None
    input_examples: Raw = Raw()
    cache_control: Raw = Raw()


class MessagesChoice(msgspec.Struct):
    """The tool that may or must be used."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class AnswerFormat(msgspec.Struct):
    """The form of the answer."""

    type: str
    schema: Raw = Raw()


class OutputConfig(msgspec.Struct):
    """Effort and form of the answer."""

    effort: str | None = None
    format: AnswerFormat | None = None


class ThinkingConfig(msgspec.Struct):
    """The thinking that is asked for."""

    type: str
    budget_tokens: int | None = None
    display: str | None = None


class _Edit(msgspec.Struct):
    type: str


class ContextManagement(msgspec.Struct):
    """Edits that Anthropic makes to the conversation before the model reads it."""

    edits: list[_Edit] = []


class CallMetadata(msgspec.Struct):
    """Facts about the call."""

    user_id: str | None = None


class MessagesBody(msgspec.Struct, kw_only=True):
    """The fields that are translated or refused; all others are dropped with a note."""

    messages: list[MessagesTurn]
    model: str = ""
    max_tokens: int | None = None
    system: str | list[MessagesBlock] | None = None
    stream: bool | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: AnswerFormat | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: CallMetadata | None = None
    service_tier: str | None = None
    context_management: ContextManagement | None = None
    mcp_servers: list[Raw] | None = None
    cache_control: Raw = Raw()


_body = msgspec.json.Decoder(MessagesBody)


def read_messages(body: bytes) -> tuple[MessagesBody, frozenset[str]]:
    """The body, and the names of all top-level fields it sets to something other than null."""
    return decode_typed(_body, body)


def blocks_of_content(
    content: "str | list[MessagesBlock] | dict[str, Raw] | None",
) -> list[MessagesBlock]:
    """The content as blocks; a text is one block, anything else none."""
    if isinstance(content, str):
        return [MessagesBlock(type="text", text=content)]
    return content if isinstance(content, list) else []
