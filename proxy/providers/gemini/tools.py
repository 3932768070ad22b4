"""Tools and the choice among them, as Google has them.

Source: Google, Gemini API, function calling (2026-11).
"""

from typing import Final

from proxy.providers.chat.chat_body import (
    ToolChoice,
    ToolDefinition,
    invalid_parameter,
    is_given,
    tool_function,
    unsupported_parameter,
)
from proxy.providers.gemini.body import GeminiChatBody, Json

_MODES: Final = {"none": "NONE", "auto": "AUTO", "required": "ANY"}


def tool_fields(request: GeminiChatBody, notes: list[str]) -> Json:
    """``tools`` and ``toolConfig``, where they were given; schemas byte for byte."""
    tools = request.tools or []
    if not tools:
        if request.tool_choice not in (None, "none", "auto"):
            raise invalid_parameter(
                "tool_choice", "tool_choice asks for a tool, but there are none: send tools."
            )
        return {}
    declarations = [
        _declaration(tool, f"tools[{number}]", notes) for number, tool in enumerate(tools)
    ]
    if request.parallel_tool_calls is False:
        notes.append("dropped parallel_tool_calls: the model has no such parameter")
    fields: Json = {"tools": [{"functionDeclarations": declarations}]}
    if (config := _calling_config(request.tool_choice, tools)) is not None:
        fields["toolConfig"] = {"functionCallingConfig": config}
    return fields


def _declaration(tool: ToolDefinition, path: str, notes: list[str]) -> Json:
    function = tool_function(tool, path)
    declaration: Json = {"name": function.name}
    if function.description:
        declaration["description"] = function.description
    if is_given(function.parameters):
        declaration["parametersJsonSchema"] = function.parameters
    if function.strict:
        notes.append("dropped strict: this model cannot promise a tool's schema")
    return declaration


def _calling_config(choice: str | ToolChoice | None, tools: list[ToolDefinition]) -> Json | None:
    """The mode of calling; None for Google's own default."""
    if choice is None or isinstance(choice, str):
        if choice is not None and choice not in _MODES:
            raise invalid_parameter(
                "tool_choice", "tool_choice must be none, auto, required or a tool."
            )
        return None if choice in (None, "auto") else {"mode": _MODES[choice]}
    if choice.type == "function" and choice.function is not None:
        return {"mode": "ANY", "allowedFunctionNames": [choice.function.name]}
    if choice.type == "allowed_tools" and choice.allowed_tools is not None:
        return _allowed_tools(choice.allowed_tools.mode, choice.allowed_tools.tools, tools)
    raise unsupported_parameter(
        "tool_choice", "tool_choice must be none, auto, required or a function."
    )


def _allowed_tools(
    mode: str, allowed: list[ToolDefinition], tools: list[ToolDefinition]
) -> Json | None:
    """The restriction to some of the tools, which the list itself stays out of."""
    names = [tool.function.name for tool in allowed if tool.function is not None]
    if mode == "required":
        return {"mode": "ANY", "allowedFunctionNames": names}
    if {tool.function.name for tool in tools if tool.function is not None} <= set(names):
        return None
    raise unsupported_parameter(
        "tool_choice.allowed_tools",
        "This model takes allowed tools only where one is required: allow all, or send fewer.",
    )
