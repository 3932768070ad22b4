"""What a message weighs in tokens, all that it holds included."""

from collections.abc import Mapping
from typing import Any, Final

from compaction.reading.message import Count

#: What surrounds each message. Source: OpenAI Cookbook, "How to count tokens with tiktoken",
#: 2026-11.
MESSAGE: Final = 3
#: What surrounds a tool call, its result included. Fitted to recorded calls, which spread by 3.
_CALL: Final = 7
_NAME: Final = 1
#: Each role is a token. Source: the o200k and cl100k vocabularies.
_ROLE: Final = 1
#: An image of 1024 x 1024 at high detail, and any at low. Source: OpenAI, images and vision guide.
IMAGE: Final = 765
LOW_IMAGE: Final = 85
#: A stand-in for sound and documents, whose tokens their bytes do not tell.
FILE: Final = 1_500

IMAGES: Final = frozenset({"image", "image_url", "input_image"})
FILES: Final = frozenset({"document", "file", "input_audio", "input_file"})
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
        "tool_calls",
    }
)
#: Deeper than any message nests its text.
_DEEPEST: Final = 16


def weight(said: Mapping[str, Any], count: Count) -> int:
    """Tokens of a message, with what surrounds it; as exact for text as ``count`` is."""
    return MESSAGE + _ROLE + _object(said, count, 0)


def plain_weight(said: Mapping[str, str], count: Count) -> int:
    """The same of a message that is words alone."""
    content = said["content"]
    return MESSAGE + _ROLE + (count(content) if content else 0) + named(said, count)


def _weight(value: object, count: Count, depth: int) -> int:
    if isinstance(value, str):
        return count(value)
    if depth > _DEEPEST:
        return 0
    if isinstance(value, list):
        return sum([_weight(one, count, depth + 1) for one in value])
    return _object(value, count, depth) if isinstance(value, dict) else 0


def _object(value: Mapping[str, Any], count: Count, depth: int) -> int:
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in IMAGES:
        return image(value)
    if kind in FILES:
        return FILE
    held = [one for name, one in value.items() if one and name in _READ]
    return named(value, count) + sum([_weight(one, count, depth + 1) for one in held])


def named(value: Mapping[str, Any], count: Count) -> int:
    """Tokens of the name of a call or of who speaks; the name of a tool's result is not shown."""
    name = value.get("name")
    if not isinstance(name, str):
        return 0
    if "arguments" in value or "input" in value:
        return _CALL + count(name)
    return 0 if value.get("role") in ("tool", "function") else _NAME + count(name)


def image(value: Mapping[str, Any]) -> int:
    """Tokens of an image, by how closely it is looked at."""
    inner = value.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else value.get("detail")
    return LOW_IMAGE if detail == "low" else IMAGE
