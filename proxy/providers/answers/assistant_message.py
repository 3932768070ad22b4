"""The assistant's message of an answer, as its caller will send it back with the next turn.

Clients send the text and the tool calls. They leave reasoning out, so it is left out here.
Source: OpenAI API reference, create a chat completion, and its streaming (2026-11).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from proxy.providers.chat.call_parts import (
    CallAssignment,
    CallPart,
    FunctionPart,
    number_calls,
    parts_of,
)
from proxy.providers.lenient import UNREADABLE
from proxy.providers.sse import parse_events

_DONE: Final = b"[DONE]"


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[CallPart] | None = None
    function_call: FunctionPart | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


class _Assembly:
    """A message that is put together from its parts."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._assignment = CallAssignment()
        self._is_legacy = False

    def add(self, message: _Message) -> None:
        """Take over a part."""
        if message.content:
            self._content.append(message.content)
        parts = parts_of(message.tool_calls, message.function_call)
        self._is_legacy = self._is_legacy or (bool(parts) and not message.tool_calls)
        for place, part in enumerate(parts):
            self._assignment.find(part, place)

    def message(self) -> bytes | None:
        """The whole message; None where there is none, or a tool call without an id or name."""
        calls = self._assignment.calls
        if not self._content and not calls:
            return None
        if not all(call.name and not call.is_custom for call in calls):
            return None
        if not self._is_legacy and not all(call.id for call in calls):
            return None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._content) if self._content else None,
        }
        functions = [{"name": call.name, "arguments": call.text} for call in calls]
        if self._is_legacy:
            message["function_call"] = functions[0]
        elif calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": function}
                for call, function in zip(calls, functions, strict=True)
            ]
        return msgspec.json.encode(message)


def assistant_message(runs: Sequence[bytes], *, streamed: bool) -> bytes | None:
    """The message as JSON; None where there is none, there are several, or it cannot be read.

    Args:
        runs: The whole answer: runs of whole events of a stream, or the one body.
    """
    assembly = _Assembly()
    events = (event.data for run in runs for event in parse_events(run)) if streamed else runs
    try:
        for data in events:
            if data == _DONE:
                break
            for choice in _decode(data).choices or ():
                if choice.index:
                    return None
                message = choice.delta if streamed else choice.message
                if message is not None:
                    assembly.add(message if streamed else _with_numbered_calls(message))
    except UNREADABLE:
        return None
    return assembly.message()


def _with_numbered_calls(message: _Message) -> _Message:
    calls = number_calls(message.tool_calls or ())
    return msgspec.structs.replace(message, tool_calls=calls)
