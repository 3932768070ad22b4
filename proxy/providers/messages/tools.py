"""Tools, the choice among them and calls of them, as chat has them.

Source: Anthropic, tool use; OpenAI, function calling and structured outputs (2026-11).
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import invalid_parameter, is_given
from proxy.providers.chat.chat_options import short_tool_name
from proxy.providers.lenient import UNREADABLE
from proxy.providers.messages.body import (
    Json,
    MessagesBlock,
    MessagesBody,
    MessagesTool,
)
from proxy.providers.messages.names import chat_call_id
from proxy.providers.messages.parts import mark_member
from proxy.providers.messages.server_tools import check_choice, own_tools
from proxy.providers.messages.target import ChatTarget

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
#: Composition that OpenAI's strict mode refuses. Source: OpenAI, structured outputs (2026-11).
_UNSTRICT: Final = frozenset(
    {
        "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    }
)  # fmt: skip
_MAX_DEPTH: Final = 64
_value = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


def tool_fields(body: MessagesBody, target: ChatTarget, notes: list[str]) -> Json:
    """Chat's ``tools``, ``tool_choice`` and ``parallel_tool_calls``, where they were given."""
    offered = own_tools(body, target, notes)
    tools = [_tool(tool, f"tools[{n}]", target, notes) for n, tool in enumerate(offered)]
    choice = _choice(body, offered)
    if not tools:
        return {}
    fields: Json = {"tools": tools}
    if choice is not None:
        fields["tool_choice"] = choice
    if body.tool_choice is not None and body.tool_choice.disable_parallel_tool_use:
        fields["parallel_tool_calls"] = False
    return fields


def tool_call(block: MessagesBlock, path: str, target: ChatTarget) -> Json:
    """A call of a tool; its arguments are the JSON text of its input, byte for byte."""
    if not block.id or not block.name:
        raise invalid_parameter(path, f"`{path}` needs an `id` and a `name`: send both.")
    arguments = bytes(block.input) if is_given(block.input) else b"{}"
    if not arguments.startswith(b"{"):
        raise invalid_parameter(f"{path}.input", f"`{path}.input` must be an object.")
    called = {"name": short_tool_name(block.name), "arguments": arguments.decode()}
    call = {"id": chat_call_id(block.id, target.ids), "type": "function", "function": called}
    return call | mark_member(block.cache_control, target)


def is_strict_schema(schema: Raw) -> bool:
    """True if OpenAI's strict mode takes the schema: all objects closed, all properties required.

    Nor may it be composed but by ``anyOf``.

    Source: OpenAI, structured outputs, supported schemas (2026-11).
    """
    try:
        return _is_strict(_value(schema), 0)
    except UNREADABLE:
        return False


def _is_strict(schema: object, depth: int) -> bool:
    if depth > _MAX_DEPTH:
        return False
    if isinstance(schema, dict):
        if not _UNSTRICT.isdisjoint(schema):
            return False
        inner = [value for name, value in schema.items() if name != "properties"]
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties") or {}
            is_closed = schema.get("additionalProperties") is False
            if not is_closed or set(properties) != set(schema.get("required") or ()):
                return False
            inner += properties.values()
        return _is_strict(inner, depth + 1)
    return not isinstance(schema, list) or all(
        _is_strict(inner_schema, depth + 1) for inner_schema in schema
    )


def _tool(tool: MessagesTool, path: str, target: ChatTarget, notes: list[str]) -> Json:
    if not tool.name:
        raise invalid_parameter(f"{path}.name", f"`{path}` has no name: add `name`.")
    function: Json = {"name": short_tool_name(tool.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = _schema(tool.input_schema, f"{path}.input_schema")
    if tool.strict and (target.takes_extras or is_strict_schema(tool.input_schema)):
        function["strict"] = True
    elif tool.strict:
        notes.append("dropped strict: the schema has optional or open properties, or is composed")
    if is_given(tool.input_examples):
        notes.append("dropped input_examples: chat's tools have none")
    return {"type": "function", "function": function} | mark_member(tool.cache_control, target)


def _schema(schema: Raw, path: str) -> Raw:
    """The schema as the caller wrote it."""
    try:
        if is_given(schema):
            _members(schema)
            return schema
    except UNREADABLE:
        pass
    raise invalid_parameter(path, f"`{path}` must be a JSON schema, an object: send one.")


def _choice(body: MessagesBody, offered: list[MessagesTool]) -> Any:  # noqa: ANN401 - a word or an object
    """Chat's choice; None for its own default."""
    choice = body.tool_choice
    if choice is None or choice.type == "auto":
        return None
    if choice.type == "tool" and choice.name:
        check_choice(choice.name, offered)
        return {"type": "function", "function": {"name": short_tool_name(choice.name)}}
    if choice.type not in _CHOICES:
        raise invalid_parameter(
            "tool_choice", "tool_choice must be auto, any, none, or tool with the tool's name."
        )
    if choice.type == "any" and not offered:
        raise invalid_parameter(
            "tool_choice", "tool_choice asks for a tool, but there is none: send `tools`."
        )
    return _CHOICES[choice.type]
