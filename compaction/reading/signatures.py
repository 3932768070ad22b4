"""Detects content that is valid only in its place: signed thinking, opaque state.

A provider checks it against the messages before it, so none of those may change.
"""

from collections.abc import Mapping
from typing import Any, Final

#: Keys whose non-empty values are opaque, anywhere in a message.
#: Sources: Anthropic, extended thinking and compaction (`signature`, `thinking_blocks` as LiteLLM
#: and this gateway hand them on); OpenAI, reasoning items (`encrypted_content`); Google, thought
#: signatures in the OpenAI form (`extra_content.google.thought_signature`); OpenRouter, reasoning
#: tokens (`reasoning_details`). All 2026-11.
_OPAQUE: Final = frozenset(
    {
        "encrypted_content",
        "reasoning_details",
        "reasoning_signature",
        "redacted_thinking",
        "signature",
        "thinking_signature",
        "thoughtSignature",
        "thought_signature",
        "thought_signatures",
    }
)
#: Types of content parts that are opaque whatever they hold.
_KINDS: Final = frozenset(
    {"compaction", "reasoning", "reasoning.encrypted", "redacted_thinking", "thinking"}
)
#: Keys whose values are searched for opaque content. Texts and arguments of calls are not searched.
_AROUND: Final = (
    "content",
    "custom",
    "extra_content",
    "function",
    "function_call",
    "google",
    "anthropic",
    "openai",
    "provider_specific_fields",
    "psf",
    "reasoning",
    "tool_calls",
    "vertex",
)
_BLOCKS: Final = "thinking_blocks"
#: Types of `thinking_blocks` entries that are valid anywhere: positions of texts ("said") and calls
#: ("called"), and phases of messages.
_UNBOUND: Final = frozenset({"called", "phase", "said"})
#: Keys of plain messages; a message with only these and a text as content has no signed content.
_PLAIN: Final = frozenset({"role", "content", "tool_call_id", "name"})
#: Maximum depth that is searched; deeper content counts as signed. No provider nests so deep.
_MAX_DEPTH: Final = 8


def is_signed(fields: Mapping[str, Any]) -> bool:
    """True if anything in the message is bound to its place."""
    return not _is_plain(fields) and _is_bound(fields, 0)


def _is_plain(fields: Mapping[str, Any]) -> bool:
    """True if a message is words and nothing more, as most are: that is quick to see."""
    return fields.keys() <= _PLAIN and isinstance(fields.get("content"), str | None)


def _is_bound(value: object, depth: int) -> bool:
    """The same for what stands so deep in it; what is too deep to be looked into is bound."""
    if depth > _MAX_DEPTH:
        return isinstance(value, dict | list)
    if isinstance(value, list):
        return any(_is_bound(one, depth + 1) for one in value)
    return isinstance(value, dict) and _is_bound_object(value, depth)


def _is_bound_object(value: Mapping[str, Any], depth: int) -> bool:
    kind = value.get("type")
    if depth and isinstance(kind, str) and kind in _KINDS:
        return True
    if any(value[name] for name in _OPAQUE.intersection(value)) or _has_opaque_blocks(value):
        return True
    return any(_is_bound(value[name], depth + 1) for name in _AROUND if name in value)


def _has_opaque_blocks(value: Mapping[str, Any]) -> bool:
    """True if an answer has blocks that may be bound, as any is that is not known."""
    blocks = value.get(_BLOCKS)
    if not isinstance(blocks, list):
        return bool(blocks)
    kinds = (one.get("type") if isinstance(one, dict) else None for one in blocks)
    return not all(isinstance(kind, str) and kind in _UNBOUND for kind in kinds)
