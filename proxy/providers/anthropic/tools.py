"""Tools, calls of tools and their results, between the two wires.

Source: Anthropic, tool use; OpenAI, function calling (2026-11).
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.anthropic.parts import blocks
from proxy.providers.chat.call_parts import arguments_object
from proxy.providers.chat.chat_body import (
    ChatBody,
    ChatMessage,
    ToolCall,
    ToolDefinition,
    invalid_parameter,
    is_given,
    tool_function,
    unsupported_parameter,
)
from proxy.providers.chat.chat_options import ToolMode, tool_mode, tool_names
from proxy.providers.chat.marked_blocks import Block, with_marker
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import ANTHROPIC

_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_members = msgspec.json.Decoder(dict[str, Raw]).decode


def tools(body: ChatBody, traits: frozenset[str], notes: list[str]) -> list[Block]:
    """The tool definitions, in the caller's order; schemas of tools not strict byte for byte."""
    return [
        _tool(tool, f"tools[{number}]", traits, notes)
        for number, tool in enumerate(body.tools or ())
    ]


def tool_choice(body: ChatBody, traits: frozenset[str]) -> dict[str, Any] | None:
    """The tool that the model may or must use; None to leave it the choice."""
    mode = tool_mode(body)
    if not body.tools:
        return None
    choice = _choice(mode, body.tools)
    if choice["type"] in {"any", "tool"} and "forced_tools" not in traits:
        raise unsupported_parameter(
            "tool_choice",
            "This model cannot be made to use a tool: send tool_choice 'auto' and say so in words,"
            " or ask another model.",
        )
    if body.parallel_tool_calls is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def tool_use(call: ToolCall, path: str) -> Block:
    """A call of a tool as a block; the arguments byte for byte."""
    if call.type != "function" or call.function is None:
        raise unsupported_parameter(
            path, f"`{path}` is no function call: this model knows only functions."
        )
    block = {
        "type": "tool_use",
        "id": _tool_id(call.id, f"{path}.id"),
        "name": call.function.name,
        "input": arguments_object(call.function.arguments or ""),
    }
    return with_marker(block, call)


def tool_result(message: ChatMessage, path: str) -> Block:
    """The answer to a call of a tool as a block.

    A marker on any part moves to the block: Anthropic caches no sub-blocks.
    """
    if message.tool_call_id is None:
        raise invalid_parameter(
            f"{path}.tool_call_id", f"`{path}` must name the call it answers: add tool_call_id."
        )
    content = blocks(message, path)
    marks = [block.pop("cache_control") for block in content if "cache_control" in block]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _tool_id(message.tool_call_id, f"{path}.tool_call_id"),
    }
    if content:
        block["content"] = content
    if message.is_error:
        block["is_error"] = True
    if marks:
        block["cache_control"] = marks[-1]
        return block
    return with_marker(block, message)


def _tool(tool: ToolDefinition, path: str, traits: frozenset[str], notes: list[str]) -> Block:
    function = tool_function(tool, path)
    block: Block = {"name": function.name}
    if function.description:
        block["description"] = function.description
    schema = _schema(function.parameters, f"{path}.function.parameters")
    if function.strict and "structured" not in traits:
        notes.append("dropped strict: this model cannot promise a tool's schema")
    is_strict = bool(function.strict) and "structured" in traits
    block |= _strict_fields(schema, notes) if is_strict else {"input_schema": schema}
    return with_marker(block, tool, function)


def _strict_fields(schema: Raw | dict[str, Any], notes: list[str]) -> Block:
    """The schema of a strict tool as the model promises one, and ``strict`` where it does."""
    fitted = fit_schema(Raw(msgspec.json.encode(schema)), ANTHROPIC)
    if fitted.is_recursive:
        notes.append("dropped strict: the model promises no schema that refers to itself")
        return {"input_schema": schema}
    notes += fitted.notes("strict tools")
    return {"input_schema": fitted.schema, "strict": True}


def _schema(parameters: Raw, path: str) -> Raw | dict[str, Any]:
    """The schema as the caller wrote it, with ``type: object`` put first where it is missing."""
    if not is_given(parameters):
        return {"type": "object", "properties": {}}
    try:
        members = _members(parameters)
    except (msgspec.DecodeError, RecursionError):
        raise invalid_parameter(path, f"`{path}` must be a JSON schema, an object.") from None
    return parameters if "type" in members else {"type": "object", **members}


def _choice(mode: ToolMode, offered: list[ToolDefinition]) -> dict[str, Any]:
    """The choice in Anthropic's format, restricted without touching the list of tools.

    A shorter list would be a new prefix, and every cached token of the conversation would be lost.
    """
    names = None if mode.names is None else set(mode.names)
    if mode.mode == "required" and names is not None and len(names) == 1:
        return {"type": "tool", "name": next(iter(names))}
    if names is None or names >= set(tool_names(offered)):
        return {"type": "any" if mode.mode == "required" else mode.mode}
    raise unsupported_parameter(
        "tool_choice.allowed_tools",
        "This model takes no list of allowed tools: allow all, require one, or send fewer tools.",
    )


def _tool_id(name: str, path: str) -> str:
    """The id in the letters Anthropic allows; different ids stay different."""
    if not name:
        raise invalid_parameter(path, f"`{path}` must not be empty.")
    return _FOREIGN.sub(lambda letter: f"_{ord(letter[0]):x}_", name)
