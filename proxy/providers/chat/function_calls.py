"""Translates deprecated functions of chat completions to tools, and calls back; pure.

::

    functions                        ─▶  tools, parallel_tool_calls false
    function_call                    ─▶  tool_choice
    function_call of an assistant    ─▶  one entry of tool_calls; its id holds the message's index
    role function                    ─▶  role tool, which answers the call before it
    function_call of an answer       ◀─  tool_calls

Source: OpenAI API reference, create chat completion, deprecated fields; Anthropic, OpenAI SDK
compatibility, which accepts the same functions (2026-11).
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import Fields
from proxy.providers.port import Reader
from proxy.providers.readers import InnerReader
from proxy.records.request_fields import raw_field

_NULL: Final = b"null"
_MARKS: Final = (b'"functions"', b'"function_call"')
_members: Final = msgspec.json.Decoder(Fields).decode
_messages: Final = msgspec.json.Decoder(list[Fields]).decode
_value: Final = msgspec.json.Decoder().decode
_UNREADABLE: Final = (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def has_functions(body: bytes) -> bool:
    """True if a chat body offers functions, so that its caller expects ``function_call``."""
    return _MARKS[0] in body and raw_field(body, "functions") not in {None, _NULL, b"[]"}


def with_tools(body: bytes) -> bytes:
    """The chat body with tools in place of functions; unmodified without any, or with both."""
    if not any(mark in body for mark in _MARKS):
        return body
    try:
        fields = _members(body)
        messages = _messages(fields["messages"])
        functions = _value(fields.pop("functions", _NULL)) or []
        choice = _value(fields.pop("function_call", _NULL))
    except _UNREADABLE:
        return body
    if functions and bytes(fields.get("tools", _NULL)) != _NULL:
        return body
    fields["messages"] = _raw(_as_tool_messages(messages))
    if functions:
        fields["tools"] = _raw(
            [{"type": "function", "function": function} for function in functions]
        )
        fields["parallel_tool_calls"] = Raw(b"false")
    if isinstance(choice, dict):
        choice = {"type": "function", "function": choice}
    if choice is not None:
        fields["tool_choice"] = _raw(choice)
    return msgspec.json.encode(fields)


def _as_tool_messages(messages: list[Fields]) -> list[Fields]:
    """The messages with function calls and results rewritten as tool calls and results."""
    call_id = ""
    for number, message in enumerate(messages):
        function = message.pop("function_call", _NULL)
        if bytes(function) != _NULL:
            call_id = f"call_{number}"
            call = {"id": call_id, "type": "function", "function": function}
            message["tool_calls"] = _raw([call])
        elif bytes(message.get("role", b"")) == b'"function"':
            message |= {"role": _raw("tool"), "tool_call_id": _raw(call_id)}
            message.pop("name", None)
    return messages


def with_functions(reader: Reader, body: bytes) -> Reader:
    """The reader of a chat answer, with function calls where the body offers functions."""
    return FunctionCallReader(reader) if has_functions(body) else reader


class FunctionCallReader(InnerReader):
    """Turns the tool call of a chat answer into the ``function_call`` that the caller reads."""

    def _translate(self, run: bytes) -> bytes:
        return _with_function_calls(run)


def _with_function_calls(answer: bytes) -> bytes:
    """A whole chat completion, or events of one, with function calls in place of tool calls."""
    if b'"tool_calls"' not in answer:
        return answer
    events = answer.split(b"\n\n")
    return b"\n\n".join(map(_with_function_call, events))


def _with_function_call(event: bytes) -> bytes:
    prefix, brace, rest = event.partition(b"{")
    if b'"tool_calls"' not in rest:
        return event
    chunk: Any = _value(brace + rest)
    for choice in chunk["choices"]:
        part = choice.get("message") or choice.get("delta") or {}
        for call in part.pop("tool_calls", None) or ():
            if not call.get("index"):  # a caller of functions reads one call alone
                part.setdefault("function_call", call["function"])
        if choice.get("finish_reason") == "tool_calls":
            choice["finish_reason"] = "function_call"
    return prefix + msgspec.json.encode(chunk)


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))
