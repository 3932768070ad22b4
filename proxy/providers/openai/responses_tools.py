"""Tools of a chat call, the choice among them and its answer's form, in the words of Responses.

Each goes with the members that chat completions have; what else a caller wrote would mean something
else in the Responses API, such as tools that run at the provider.

Source: OpenAI API reference, create a chat completion, create a response (2026-11).
"""

from typing import Any, Final

from msgspec import Raw

from proxy.providers.chat.chat_body import (
    ResponseFormat,
    TextFormat,
    ToolChoice,
    ToolDefinition,
    invalid_parameter,
    unsupported_parameter,
)

Json = dict[str, Any]

_KINDS: Final = frozenset({"function", "custom"})
_PLAIN_FORMS: Final = frozenset({"text", "json_object"})
_NO_PARAMETERS: Final = frozenset({b"", b"null", b"{}"})
_OPEN_SCHEMA: Final = Raw(b'{"type":"object","properties":{}}')


def responses_tool(tool: ToolDefinition, path: str) -> Json:
    """A tool without the object around its function; not strict unless it was, as in chat."""
    _check_kind(tool.type, f"{path}.type")
    inner = tool.function if tool.type == "function" else tool.custom
    if inner is None:
        raise invalid_parameter(path, f"`{path}` has no `{tool.type}`: add it.")
    flat: Json = {"type": tool.type, "name": inner.name}
    if inner.description is not None:
        flat["description"] = inner.description
    if tool.type == "custom":
        return flat if inner.format is None else flat | {"format": _text_format(inner.format)}
    has_schema = bytes(inner.parameters) not in _NO_PARAMETERS
    schema = inner.parameters if has_schema else _OPEN_SCHEMA
    return flat | {"parameters": schema, "strict": bool(inner.strict)}


def responses_choice(choice: str | ToolChoice) -> str | Json:
    """The choice without the object around its name."""
    if isinstance(choice, str):
        return choice
    if choice.type != "allowed_tools":
        return _named_tool(choice, "tool_choice")
    if choice.allowed_tools is None:
        raise invalid_parameter("tool_choice", "`tool_choice` has no `allowed_tools`: add it.")
    allowed = choice.allowed_tools
    tools = [
        _named_tool(tool, f"tool_choice.allowed_tools.tools[{n}]")
        for n, tool in enumerate(allowed.tools)
    ]
    return {"type": choice.type, "mode": allowed.mode, "tools": tools}


def responses_format(form: ResponseFormat) -> Json:
    """The answer's form without the object around its schema."""
    if form.type in _PLAIN_FORMS:
        return {"type": form.type}
    if form.type != "json_schema" or form.json_schema is None:
        raise invalid_parameter(
            "response_format", "`response_format` must be text, json_object, or a json_schema."
        )
    schema = form.json_schema
    members = {name: getattr(schema, name) for name in ("name", "description", "schema", "strict")}
    given = {name: value for name, value in members.items() if value not in (None, Raw())}
    return {"type": form.type, **given}


def _text_format(form: TextFormat) -> Json:
    if form.grammar is None:
        return {"type": form.type}
    grammar = form.grammar
    return {"type": form.type, "syntax": grammar.syntax, "definition": grammar.definition}


def _named_tool(choice: ToolChoice | ToolDefinition, path: str) -> Json:
    _check_kind(choice.type, f"{path}.type")
    inner = choice.function if choice.type == "function" else choice.custom
    if inner is None:
        raise invalid_parameter(path, f"`{path}` has no `{choice.type}`: add it.")
    return {"type": choice.type, "name": inner.name}


def _check_kind(kind: str, path: str) -> None:
    if kind not in _KINDS:
        raise unsupported_parameter(
            path, f"`{path}` {kind!r} is not taken: use function or custom."
        )
