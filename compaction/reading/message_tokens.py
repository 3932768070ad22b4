"""Counts the tokens of a message: text, tool calls, images and files."""

from collections.abc import Mapping
from typing import Any, Final

from compaction.reading.message import Count

#: Tokens of each message's envelope.
#: Source: OpenAI Cookbook, "How to count tokens with tiktoken", 2026-11.
MESSAGE_TOKENS: Final = 3
#: Tokens of a tool call's envelope, including its result's. Fitted to recorded calls, which vary by
#: 3.
_CALL_TOKENS: Final = 7
_NAME_TOKENS: Final = 1
#: Each role is a token. Source: the o200k and cl100k vocabularies.
_ROLE_TOKENS: Final = 1
#: Tokens of an image of 1024 x 1024 at high detail, and of any at low.
#: Source: OpenAI, images and vision guide.
IMAGE_TOKENS: Final = 765
LOW_DETAIL_IMAGE_TOKENS: Final = 85
#: Estimated tokens of audio and documents, which cannot be derived from their bytes.
FILE_TOKENS: Final = 1_500

IMAGE_TYPES: Final = frozenset({"image", "image_url", "input_image"})
FILE_TYPES: Final = frozenset({"document", "file", "input_audio", "input_file"})
#: Keys whose strings the model reads, and whose objects and lists hold such strings.
_READ: Final = frozenset(
    {
        "arguments",
        "content",
        "custom",
        "function",
        "function_call",
        "input",
        "output",
        "reasoning_content",
        "refusal",
        "summary",
        "text",
        "thinking",
        "thinking_blocks",
        "tool_calls",
    }
)
#: Maximum depth at which text is read; no message nests it deeper.
_MAX_DEPTH: Final = 16


def message_tokens(fields: Mapping[str, Any], count: Count) -> int:
    """Tokens of a message, with what surrounds it; as exact for text as ``count`` is."""
    return MESSAGE_TOKENS + _ROLE_TOKENS + _object_tokens(fields, count, 0)


def plain_message_tokens(fields: Mapping[str, str], count: Count) -> int:
    """The same of a message that is words alone."""
    content = fields["content"]
    return (
        MESSAGE_TOKENS
        + _ROLE_TOKENS
        + (count(content) if content else 0)
        + name_tokens(fields, count)
    )


def _value_tokens(value: object, count: Count, depth: int) -> int:
    if isinstance(value, str):
        return count(value)
    if depth > _MAX_DEPTH:
        return 0
    if isinstance(value, list):
        return sum([_value_tokens(one, count, depth + 1) for one in value])
    return _object_tokens(value, count, depth) if isinstance(value, dict) else 0


def _object_tokens(value: Mapping[str, Any], count: Count, depth: int) -> int:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in IMAGE_TYPES:
        return image_tokens(value)
    if kind in FILE_TYPES:
        return FILE_TOKENS
    members = [one for name, one in value.items() if one and name in _READ]
    return name_tokens(value, count) + sum(
        [_value_tokens(one, count, depth + 1) for one in members]
    )


def name_tokens(value: Mapping[str, Any], count: Count) -> int:
    """Tokens of the name of a call or of who speaks; the name of a tool's result is not shown."""
    name = value.get("name")
    if not isinstance(name, str):
        return 0
    if "arguments" in value or "input" in value:
        return _CALL_TOKENS + count(name)
    return 0 if value.get("role") in ("tool", "function") else _NAME_TOKENS + count(name)


def image_tokens(value: Mapping[str, Any]) -> int:
    """Tokens of an image, by how closely it is looked at."""
    inner = value.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else value.get("detail")
    return LOW_DETAIL_IMAGE_TOKENS if detail == "low" else IMAGE_TOKENS
