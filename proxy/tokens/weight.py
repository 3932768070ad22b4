"""What one part of a prompt weighs in tokens."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

#: How many tokens a text is.
Count = Callable[[str], int]

#: What surrounds each message, and what opens the answer.
#: Source: OpenAI Cookbook, "How to count tokens with tiktoken", 2026-11.
MESSAGE: Final = 3
PRIMING: Final = 3
_NAME: Final = 1
#: What surrounds a tool call, its result included. Fitted to recorded calls, which spread by 3.
_CALL: Final = 7
#: An image of 1024 x 1024 at high detail, and any at low. Source: OpenAI, images and vision guide.
_IMAGE: Final = 765
_LOW_IMAGE: Final = 85
#: A stand-in for sound and documents, whose tokens their bytes do not tell.
_FILE: Final = 1500

_IMAGES: Final = frozenset({"image", "image_url", "input_image"})
_FILES: Final = frozenset({"document", "file", "input_audio", "input_file"})
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
_DEEPEST: Final = 16


def weight(value: object, count: Count, depth: int = 0) -> int:
    """Tokens of a message, an item, a content block or a list of them, without ``MESSAGE``.

    Exact for text; tool calls, images, sound and files are estimates.
    """
    if isinstance(value, str):
        return count(value)
    if depth > _DEEPEST:
        return 0
    if isinstance(value, list):
        return sum(weight(item, count, depth + 1) for item in value)
    return _object(value, count, depth) if isinstance(value, dict) else 0


def _object(value: Mapping[str, Any], count: Count, depth: int) -> int:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in _IMAGES:
        return _image(value)
    if kind in _FILES:
        return _FILE
    tokens = _named(value, count)
    if kind == "tool_use":
        return tokens + count(orjson.dumps(value.get("input")).decode())
    return tokens + sum(weight(value.get(key), count, depth + 1) for key in _TEXT + _AROUND)


def _named(value: Mapping[str, Any], count: Count) -> int:
    """Tokens of the name of a call or of who speaks; the name of a tool's result is not shown."""
    name = value.get("name")
    if not isinstance(name, str):
        return 0
    if "arguments" in value or "input" in value:
        return _CALL + count(name)
    return 0 if value.get("role") in ("tool", "function") else _NAME + count(name)


def _image(value: Mapping[str, Any]) -> int:
    inner = value.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else value.get("detail")
    return _LOW_IMAGE if detail == "low" else _IMAGE
