"""The assistant's message of an answer, as its caller will send it back with the next turn.

Clients send the text and the tool calls. They leave reasoning out, so it is left out here.
Source: OpenAI API reference, create a chat completion, and its streaming (2026-11).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from proxy.providers.sse import parse_events

_DONE: Final = b"[DONE]"
_MAX_TOOL_CALLS: Final = 128
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    type: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


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
        self._tools: dict[int, tuple[list[str], list[str], list[str]]] = {}

    def add(self, message: _Message) -> None:
        """Take over a part; of a tool call's id and name the first counts."""
        if message.content:
            self._content.append(message.content)
        for each in message.tool_calls or ():
            if each.index not in self._tools and len(self._tools) >= _MAX_TOOL_CALLS:
                continue
            ids, names, arguments = self._tools.setdefault(each.index, ([], [], []))
            ids.extend(filter(None, (each.id,)))
            if each.function is not None:
                names.extend(filter(None, (each.function.name,)))
                arguments.append(each.function.arguments or "")

    def message(self) -> bytes | None:
        """The whole message; None where there is none, or a tool call without an id or name."""
        if not self._content and not self._tools:
            return None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._content) if self._content else None,
        }
        if self._tools:
            message["tool_calls"] = [
                {
                    "id": ids[0],
                    "type": "function",
                    "function": {"name": names[0], "arguments": "".join(arguments)},
                }
                for _, (ids, names, arguments) in sorted(self._tools.items())
                if ids and names
            ]
            if len(message["tool_calls"]) != len(self._tools):
                return None
        return msgspec.json.encode(message)


def assistant_message(runs: Sequence[bytes], *, streamed: bool) -> bytes | None:
    """The message as JSON; None where there is none, there are several, or it cannot be read.

    Args:
        runs: The whole answer: runs of whole events of a stream, or the one body.
        streamed: True if it is a stream.
    """
    found = _Assembly()
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
                    found.add(_number_tool_calls(message) if not streamed else message)
    except _ERRORS:
        return None
    return found.message()


def _number_tool_calls(message: _Message) -> _Message:
    """The message of a whole answer, whose tool calls are numbered by their order alone."""
    for number, each in enumerate(message.tool_calls or ()):
        each.index = number
    return message
