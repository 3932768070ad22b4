"""The output items of a Responses answer, as its caller will send them back with the next turn.

Clients send all of them back, reasoning too.
Source: OpenAI API reference, Responses, conversation state and its streaming (2026-11).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from proxy.providers.lenient import UNREADABLE
from proxy.providers.sse import parse_events

#: Items that mean the same as input.
_SENT_BACK: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
_LAST_EVENTS: Final = frozenset({"response.completed", "response.incomplete"})


class _Response(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: Any = None
    response: _Response | None = None


class _Item(msgspec.Struct):
    type: Any = None


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _ToolCall(msgspec.Struct):
    id: str
    function: _Function


class _ChatMessage(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


_response: Final = msgspec.json.Decoder(_Response).decode
_event: Final = msgspec.json.Decoder(_Event).decode
_item: Final = msgspec.json.Decoder(_Item).decode
_chat_message: Final = msgspec.json.Decoder(_ChatMessage).decode


def output_items(runs: Sequence[bytes], *, streamed: bool) -> bytes | None:
    """The items as a JSON list; None where there are none, or one cannot be sent back.

    Args:
        runs: The whole answer: runs of whole events of a stream, or the one body.
    """
    try:
        response = _last_response(runs) if streamed else _response(b"".join(runs))
        items = (response.output if response is not None else None) or []
        if not items or any(_item(item).type not in _SENT_BACK for item in items):
            return None
    except UNREADABLE:
        return None
    return msgspec.json.encode(items)


def items_of_message(message: bytes | None) -> bytes | None:
    """The items for a chat message of the assistant, where the engine was asked in chat.

    Args:
        message: As ``assistant_message`` puts it together; None where it is not known.
    """
    if message is None:
        return None
    chat_message = _chat_message(message)
    items: list[dict[str, str]] = []
    if chat_message.content:
        items.append({"type": "message", "role": "assistant", "content": chat_message.content})
    items += (
        {"type": "function_call", "call_id": call.id}
        | {"name": call.function.name, "arguments": call.function.arguments}
        for call in chat_message.tool_calls or ()
    )
    return msgspec.json.encode(items) if items else None


def _last_response(runs: Iterable[bytes]) -> _Response | None:
    """The whole answer, which the last event of its stream holds."""
    for run in runs:
        if b"response.completed" in run or b"response.incomplete" in run:
            for event in parse_events(run):
                parsed = _event(event.data) if event.data.startswith(b"{") else _Event()
                if parsed.type in _LAST_EVENTS:
                    return parsed.response
    return None
