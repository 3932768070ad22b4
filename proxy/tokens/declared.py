"""Renders tool declarations as OpenAI's models see them, closely enough to count tokens.

The rendering is not published. This one was fitted to 45 tool lists whose prompt tokens were
recorded (crewAI's cassettes, gpt-3.5 to gpt-4.1): all but four come within two tokens.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Deeper than any schema that a model could follow.
_MAX_DEPTH: Final = 32


def declaration(tools: Sequence[object]) -> str:
    """The tools as TypeScript types in a namespace; what is no tool with a name is left out."""
    shown = [text for tool in tools if (text := _tool(tool))]
    return "namespace functions {\n\n" + "".join(shown) + "} // namespace functions"


def _tool(tool: object) -> str:
    """One tool of a Chat, Responses or Anthropic list."""
    declared = tool.get("function", tool.get("custom", tool)) if isinstance(tool, dict) else None
    if not isinstance(declared, dict) or not isinstance(declared.get("name"), str):
        return ""
    schema = declared.get("parameters", declared.get("input_schema"))
    schema = schema if isinstance(schema, dict) else {}
    named = {**_object(schema, "definitions"), **_object(schema, "$defs")}
    fields = _fields(schema, named, 0, "")
    takes = "(_: {\n" + fields + "})" if fields else "()"
    return (
        _comment(declared.get("description"), "") + f"type {declared['name']} = {takes} => any;\n\n"
    )


def _fields(schema: Mapping[str, Any], named: dict[str, Any], depth: int, indent: str) -> str:
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    lines = []
    for name, entry in _object(schema, "properties").items():
        field = entry if isinstance(entry, dict) else {}
        title, description = field.get("title"), field.get("description")
        lines.append(_comment(title, indent) + (f"{indent}//\n" if title and description else ""))
        mark = "" if name in required else "?"
        kind = _type(field, named, depth, indent)
        default = f" // default: {field['default']}" if "default" in field else ""
        lines.append(f"{_comment(description, indent)}{indent}{name}{mark}: {kind},{default}\n")
    return "".join(lines)


def _type(schema: object, named: dict[str, Any], depth: int, indent: str) -> str:
    """A schema as a type; a definition is written out where it is first used, and once."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "any"
    if isinstance(schema.get("$ref"), str):
        name = schema["$ref"].rpartition("/")[2]
        return _type(named.pop(name), named, depth + 1, indent) if name in named else name
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list):
        return " | ".join(_type(choice, named, depth + 1, indent) for choice in choices)
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " | ".join(_plain_type(kind, schema, named, depth + 1, indent) for kind in kinds)


def _plain_type(
    kind: object, schema: Mapping[str, Any], named: dict[str, Any], depth: int, indent: str
) -> str:
    if kind == "object":
        fields = _fields(schema, named, depth, indent + "  ")
        return "{\n" + fields + indent + "}" if fields else "object"
    if kind == "array":
        return _type(schema.get("items"), named, depth, indent) + "[]"
    if kind == "integer":
        return "number"
    return kind if isinstance(kind, str) else "any"


def _comment(text: object, indent: str) -> str:
    """The text as comment lines; "" where there is none."""
    if not isinstance(text, str) or not text:
        return ""
    return "".join(f"{indent}// {line}\n" for line in text.split("\n"))


def _object(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = schema.get(name)
    return value if isinstance(value, dict) else {}
