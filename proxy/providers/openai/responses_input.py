"""Messages of a chat call as the input items of a Responses call.

::

    system, developer, user    a message with parts of type input_text, input_image, input_file
    assistant                  its reasoning, messages with their phase, and calls, in the order
                               that they had
    tool                       function_call_output | custom_tool_call_output

A conversation that goes on keeps all items it had, so its cached prefix stays.

Source: OpenAI API reference, create a response; OpenAI, migrate to the Responses API (2026-11).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.block_order import PLACES, entry_kind, restore_order
from proxy.providers.chat.chat_body import (
    ChatMessage,
    ContentPart,
    ToolCall,
    invalid_parameter,
    is_given,
    unsupported_parameter,
)
from proxy.providers.lenient import UNREADABLE
from proxy.providers.messages.signatures import (
    PHASE,
    is_phase,
    reasoning_items,
    sealed_phase,
)

Json = dict[str, Any]

_BREAKPOINT: Final = "prompt_cache_breakpoint"
_ROLES: Final = frozenset({"system", "developer", "user"})
_REASONING: Final = "reasoning"
_block: Final = msgspec.json.Decoder(Json).decode


def input_items(messages: list[ChatMessage], maker: str) -> list[Json]:
    """The items of a conversation.

    Args:
        maker: Upstream and model, as sealed reasoning names those that can read it.
    """
    reader = _InputReader(maker)
    return [item for place, message in enumerate(messages) for item in reader.items(message, place)]


class _InputReader:
    """Turns messages into items, one after the other."""

    def __init__(self, maker: str) -> None:
        self._maker = maker
        self._custom_calls: set[str] = set()
        self._reasoning_ids: set[str] = set()

    def items(self, message: ChatMessage, place: int) -> Iterator[Json]:
        path = f"messages[{place}]"
        if message.role == "assistant":
            yield from self._answer(message, path)
        elif message.role == "tool":
            if not (name := message.tool_call_id):
                sentence = f"`{path}` must name the call that it answers: add `tool_call_id`."
                raise invalid_parameter(f"{path}.tool_call_id", sentence)
            kind = "custom_tool_call" if name in self._custom_calls else "function_call"
            output = _content(message.content, path)
            yield {"type": f"{kind}_output", "call_id": name, "output": output}
        elif message.role in _ROLES:
            yield {"role": message.role, "content": _content(message.content, path)}
        else:
            sentence = f"`{path}.role` {message.role!r} is not taken by this model."
            raise unsupported_parameter(f"{path}.role", sentence)

    def _answer(self, message: ChatMessage, path: str) -> Iterator[Json]:
        words = _words(message, path)
        calls = [self._call(call, f"{path}.tool_calls") for call in message.tool_calls or ()]
        named = [(str(call["call_id"]), call) for call in calls]
        entries = list(self._entries(message.thinking_blocks or []))
        ordered = restore_order(entries, words, named) if entries else None
        # Where it was edited since, reasoning would belong to nothing.
        for item in _as_items([*words, *calls] if ordered is None else ordered):
            if self._is_first(item):
                yield item

    def _is_first(self, item: Json) -> bool:
        """False for reasoning that stands before: a conversation with the same twice is refused.

        Source: OpenAI's error "Duplicate item found with id" (vercel/ai 7883, 2025-08).
        """
        if item.get("type") != _REASONING:
            return True
        is_first = item["id"] not in self._reasoning_ids
        self._reasoning_ids.add(item["id"])
        return is_first

    def _entries(self, blocks: list[Raw]) -> Iterator[Raw]:
        """Places of words and calls, and between them reasoning and phases of this model's own."""
        for raw in blocks:
            if entry_kind(raw) in PLACES:
                yield raw
                continue
            try:
                entry = _block(raw)
            except UNREADABLE:
                continue
            signature = entry.get("signature")
            sealed = signature if isinstance(signature, str) else None
            for item in reasoning_items(sealed, self._maker):
                yield Raw(msgspec.json.encode(item))
            phase_entry = sealed_phase(sealed) or entry
            if phase_entry.get("maker") == self._maker and is_phase(phase_entry.get(PHASE)):
                yield Raw(msgspec.json.encode({"type": PHASE, PHASE: phase_entry[PHASE]}))

    def _call(self, call: ToolCall, path: str) -> Json:
        is_custom = call.type == "custom"
        called = call.custom if is_custom else call.function
        if called is None:
            raise invalid_parameter(path, f"A call in `{path}` needs an `id` and what it calls.")
        if is_custom:
            self._custom_calls.add(call.id)
            return {
                "type": "custom_tool_call",
                "call_id": call.id,
                "name": called.name,
                "input": called.input or "",
            }
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": called.name,
            "arguments": called.arguments or "{}",
        }


def _words(message: ChatMessage, path: str) -> list[Json]:
    """The texts of an answer; a refusal goes on as what was said."""
    spoken = message.content or message.refusal or ""
    parts = [ContentPart(type="text", text=spoken)] if isinstance(spoken, str) else spoken
    if any(part.type not in {"text", "refusal"} for part in parts):
        raise unsupported_parameter(f"{path}.content", "An assistant's message holds text alone.")
    texts = [part.text or part.refusal or "" for part in parts]
    return [{"type": "text", "text": text} for text in texts if text]


def _as_items(content: list[Json | Raw]) -> Iterator[Json]:
    """Each text as a message, with the phase before it; reasoning that nothing follows is left out.

    Source: OpenAI, reasoning models: an item of reasoning needs the item that followed (2026-11).
    """
    waiting: list[Json] = []
    phase: Json = {}
    for block in content:
        if isinstance(block, Raw):
            item = _block(block)
            phase = {PHASE: item[PHASE]} if item["type"] == PHASE else {}
            waiting += [] if phase else [item]
            continue
        yield from waiting
        waiting.clear()
        if block["type"] == "text":
            yield {"role": "assistant", "content": block["text"], **phase}
        else:
            phase = {}
            yield block


def _content(content: str | list[ContentPart] | None, path: str) -> str | list[Json]:
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(part, f"{path}.content[{place}]") for place, part in enumerate(content)]


def _part(part: ContentPart, path: str) -> Json:
    if part.type == "text":
        item_part: Json = {"type": "input_text", "text": part.text or ""}
    elif part.type == "image_url" and part.image_url is not None:
        image = part.image_url
        item_part = {
            "type": "input_image",
            "image_url": image.url,
            "detail": image.detail or "auto",
        }
    elif part.type == "file" and part.file is not None:
        given = msgspec.structs.asdict(part.file)
        item_part = {"type": "input_file"}
        item_part |= {name: value for name, value in given.items() if value is not None}
    else:
        raise unsupported_parameter(
            path, f"`{path}` of type {part.type!r} is not taken by this model."
        )
    mark = part.prompt_cache_breakpoint
    return item_part | {_BREAKPOINT: mark} if is_given(mark) else item_part
