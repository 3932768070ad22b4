"""Compaction by the provider itself: which calls have it, and how to ask for it in their place.

::

    responses, OpenAI          context_management: compaction above so many tokens
    chat completions, Claude   context_management: old tool results cleared above so many tokens
    anything else              none: a sentence says why

OpenAI answers with an item that the client must send back with the others. Anthropic clears on its
side alone: the client keeps its history and sees nothing but a smaller usage.

Source: OpenAI, compaction guide and openai 3.52; Anthropic, context editing (2026-09).
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route
from proxy.prefix.prompts.objects import Unplannable, elements, members
from proxy.providers.lenient import UNREADABLE, decode_or
from proxy.records.request_fields import replace_fields

_FIELD: Final = "context_management"
_ON_DEMAND: Final = "compaction"
_CHAT: Final = "chat/completions"
_RESPONSES: Final = "responses"
#: OpenAI refuses a lower threshold. Source: OpenAI API reference (2026-08).
_MIN_TRIGGER_TOKENS: Final = 1_000
#: Share of the trigger that must be cleared at once, or nothing is: all behind the first result
#: cleared is written to the cache anew, and half of the prompt pays for that in a dozen calls.
_PART: Final = 2
#: A body without any of these names compacts nothing; text has its quotes escaped.
_MARKS: Final = (b'"context_management"', b'"compaction"', b'"compaction_trigger"')
_KINDS: Final = frozenset({"compaction", "compaction_trigger"})
_NOTHING: Final = b"null"
_RESULT: Final = b'"tool"'


_Scalar = str | float | bool | None


class NativeCompactionCall(msgspec.Struct, frozen=True):
    """The body of a call that asks its provider to compact, and the note on that."""

    body: bytes
    note: str


class _Item(msgspec.Struct):
    """A message or an item of a conversation, as far as it may be or hold a compaction."""

    type: _Scalar = None
    content: Raw = Raw()
    thinking_blocks: Raw = Raw()


_item = msgspec.json.Decoder(_Item).decode


def is_native(body: bytes) -> bool:
    """True if a call compacts at its provider already: by asking for it, or by what it sends back.

    False for a body that cannot be read.
    """
    if not _is_marked(body):
        return False
    try:
        fields = members(body)
    except Unplannable:
        return False
    if any(fields.get(name, _NOTHING) != _NOTHING for name in (_FIELD, _ON_DEMAND)):
        return True
    return any(
        kind in _KINDS
        for name in ("messages", "input")
        for raw in _elements(fields.get(name, _NOTHING))
        for kind in _kinds(raw)
    )


def request_native_compaction(
    endpoint: str, body: bytes, route: Route, *, trigger: int, keep: int
) -> NativeCompactionCall | str:
    """The call with its provider's own compaction; a sentence where it stays as it is.

    Args:
        trigger: Tokens of prompt above which to compact.
        keep: The latest tool results that stay, where those are what is cleared.
    """
    upstream = route.upstream
    if is_native(body):
        return "the caller compacts at the provider by itself"
    if upstream.kind == "anthropic" and upstream.provider == "anthropic":
        return _clear_tool_results(endpoint, body, trigger, keep)
    if upstream.kind == "openai" and upstream.provider == "openai" and upstream.serves_responses:
        return _compact_at_openai(endpoint, body, trigger)
    return f"{upstream.name} has no compaction of its own that the gateway knows"


def _clear_tool_results(
    endpoint: str, body: bytes, trigger: int, keep: int
) -> NativeCompactionCall | str:
    """A chat call whose old tool results are cleared at Anthropic."""
    if endpoint != _CHAT:
        return "Anthropic clears tool results of chat calls alone"
    if _RESULT not in body:
        return "there are no tool results to clear"
    least = max(trigger, 1)
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": least},
        "keep": {"type": "tool_uses", "value": max(keep, 0)},
        "clear_at_least": {"type": "input_tokens", "value": least // _PART},
    }
    note = f"asked Anthropic to clear old tool results above {least} tokens"
    return _with_compaction_request(body, {"edits": [edit]}, note)


def _compact_at_openai(endpoint: str, body: bytes, trigger: int) -> NativeCompactionCall | str:
    """A Responses call that OpenAI compacts."""
    if endpoint != _RESPONSES:
        return "OpenAI compacts Responses calls alone"
    least = max(trigger, _MIN_TRIGGER_TOKENS)
    edit = {"type": "compaction", "compact_threshold": least}
    return _with_compaction_request(body, [edit], f"asked OpenAI to compact above {least} tokens")


def _with_compaction_request(
    body: bytes, settings: object, note: str
) -> NativeCompactionCall | str:
    try:
        sent = replace_fields(body, {_FIELD: msgspec.json.encode(settings)})
    except UNREADABLE:
        return "the body cannot be read"
    return NativeCompactionCall(sent, note)


def _is_marked(raw: bytes) -> bool:
    """True if it may compact at all."""
    return any(mark in raw for mark in _MARKS)


def _elements(raw: bytes) -> tuple[bytes, ...]:
    """The elements that may matter; none where there is no list."""
    if not _is_marked(raw):
        return ()
    try:
        return tuple(filter(_is_marked, elements(raw)))
    except Unplannable:
        return ()


def _kinds(raw: bytes) -> Iterator[object]:
    """The types of an item and of the blocks it holds."""
    item = decode_or(_item, raw, _Item())
    yield item.type
    for held in (item.content, item.thinking_blocks):
        yield from (decode_or(_item, block, _Item()).type for block in _elements(bytes(held)))
