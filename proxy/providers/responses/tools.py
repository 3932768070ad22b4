"""Tools of the Responses API, which are flat, as chat's nested ones.

Source: OpenAI API reference, Responses and Chat Completions, tools and tool_choice (2026-11).
"""

from typing import Any, Literal

import msgspec

from proxy.providers.responses.fields import Json, convert_value


class FunctionTool(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """A function with JSON arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomTool(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    """A tool whose input is free text, perhaps bound by a grammar."""

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None


class NamedFunction(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """One function by name."""

    name: str


class NamedCustom(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    """One custom tool by name."""

    name: str


class Allowed(msgspec.Struct, frozen=True, tag_field="type", tag="allowed_tools"):
    """Some of the tools; the list itself stays, and with it the prefix."""

    mode: Literal["auto", "required"]
    tools: list[NamedFunction | NamedCustom]


AnyTool = FunctionTool | CustomTool
Choice = Literal["none", "auto", "required"] | NamedFunction | NamedCustom | Allowed


def chat_tools(given: object, choice: object, parallel: object) -> Json:
    """Chat's ``tools``, ``tool_choice`` and ``parallel_tool_calls``, where they were given.

    Without tools chat refuses the other two; there a choice of none or auto says nothing.
    """
    tools = [_nest_members(tool) for tool in convert_value(given, list[AnyTool], "tools")]
    chat_choice = None if choice is None else _choice(choice)
    if tools:
        return _without_nulls(
            {"tools": tools, "tool_choice": chat_choice, "parallel_tool_calls": parallel}
        )
    return {} if chat_choice in (None, "none", "auto") else {"tool_choice": chat_choice}


def _choice(choice: object) -> str | Json:
    converted: Any = convert_value(choice, Choice, "tool_choice")  # type: ignore[arg-type]  # a union is an annotation, not a type
    return converted if isinstance(converted, str) else _nest_members(converted)


def _nest_members(value: FunctionTool | CustomTool | NamedFunction | NamedCustom | Allowed) -> Json:
    """Chat's form, in which all but the type stands in a member of that name."""
    members: Json = msgspec.structs.asdict(value)
    if isinstance(value, CustomTool) and value.format and value.format.get("type") == "grammar":
        grammar = {name: member for name, member in value.format.items() if name != "type"}
        members["format"] = {"type": "grammar", "grammar": grammar}
    if isinstance(value, Allowed):
        members["tools"] = list(map(_nest_members, value.tools))
    kind = str(type(value).__struct_config__.tag)
    return {"type": kind, kind: _without_nulls(members)}


def _without_nulls(members: Json) -> Json:
    return {name: value for name, value in members.items() if value is not None}
