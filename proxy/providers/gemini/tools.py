"""Tools and the choice among them, as Google has them.

Source: Google, Gemini API, function calling (2026-11).
"""

from typing import Final

from proxy.providers.chat.chat_body import (
    ToolDefinition,
    is_given,
    tool_function,
    unsupported_parameter,
)
from proxy.providers.chat.chat_options import ToolMode, tool_mode
from proxy.providers.gemini.body import GeminiChatBody, Json

_MODES: Final = {"none": "NONE", "required": "ANY"}


def tool_fields(request: GeminiChatBody, notes: list[str]) -> Json:
    """``tools`` and ``toolConfig``, where they were given; schemas byte for byte."""
    mode, tools = tool_mode(request), request.tools or []
    if not tools:
        return {}
    declarations = [
        _declaration(tool, f"tools[{number}]", notes) for number, tool in enumerate(tools)
    ]
    if request.parallel_tool_calls is False:
        notes.append("dropped parallel_tool_calls: the model has no such parameter")
    fields: Json = {"tools": [{"functionDeclarations": declarations}]}
    if (config := _calling_config(mode)) is not None:
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


def _calling_config(choice: ToolMode) -> Json | None:
    """The mode of calling; None for Google's own default. The list of tools stays whole."""
    if choice.names is None:
        return None if choice.mode == "auto" else {"mode": _MODES[choice.mode]}
    if choice.mode == "required":
        return {"mode": "ANY", "allowedFunctionNames": list(choice.names)}
    raise unsupported_parameter(
        "tool_choice.allowed_tools",
        "This model takes allowed tools only where one is required: allow all, or send fewer.",
    )
