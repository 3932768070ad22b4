"""Counts the tokens of one part of a prompt."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from compaction.reading.message import Count
from compaction.reading.message_tokens import (
    FILE_TOKENS,
    FILE_TYPES,
    IMAGE_TYPES,
    image_tokens,
    name_tokens,
)

#: Tokens that open the answer.
PRIMING: Final = 3
#: Keys whose strings the model reads.
_TEXT: Final = (
    "arguments",
    "content",
    "input",
    "output",
    "refusal",
    "role",
    "summary",
    "text",
    "thinking",
)
#: Keys whose objects and lists hold such strings.
_AROUND: Final = ("custom", "function", "function_call", "tool_calls")
#: Deeper than any message nests its text.
_MAX_DEPTH: Final = 16


def part_tokens(value: object, count: Count, depth: int = 0) -> int:
    """Tokens of a message, an item, a content block or a list of them, without ``MESSAGE``.

    Exact for text; tool calls, images, sound and files are estimates.
    """
    if isinstance(value, str):
        return count(value)
    if depth > _MAX_DEPTH:
        return 0
    if isinstance(value, list):
        return sum(part_tokens(item, count, depth + 1) for item in value)
    return _object(value, count, depth) if isinstance(value, dict) else 0


def _object(value: Mapping[str, Any], count: Count, depth: int) -> int:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in IMAGE_TYPES:
        return image_tokens(value)
    if kind in FILE_TYPES:
        return FILE_TOKENS
    tokens = name_tokens(value, count)
    if kind == "tool_use":
        return tokens + count(orjson.dumps(value.get("input")).decode())
    return tokens + sum(part_tokens(value.get(key), count, depth + 1) for key in _TEXT + _AROUND)
