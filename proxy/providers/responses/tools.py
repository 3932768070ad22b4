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

    def chat(self) -> Json:
        """The nested form, with the fields that were given."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {"type": "function", "function": _without_nulls(found)}


class CustomTool(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    """A tool whose input is free text, perhaps bound by a grammar."""

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None

    def chat(self) -> Json:
        """The nested form, with the fields that were given."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            "type": "custom",
            "custom": _without_nulls(found | {"format": _grammar(self.format)}),
        }


class NamedFunction(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """One function by name."""

    name: str

    def chat(self) -> Json:
        """The nested form."""
        return {"type": "function", "function": {"name": self.name}}


class NamedCustom(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    """One custom tool by name."""

    name: str

    def chat(self) -> Json:
        """The nested form."""
        return {"type": "custom", "custom": {"name": self.name}}


class Allowed(msgspec.Struct, frozen=True, tag_field="type", tag="allowed_tools"):
    """Some of the tools; the list itself stays, and with it the prefix."""

    mode: Literal["auto", "required"]
    tools: list[NamedFunction | NamedCustom]

    def chat(self) -> Json:
        """The nested form."""
        named = [tool.chat() for tool in self.tools]
        return {"type": "allowed_tools", "allowed_tools": {"mode": self.mode, "tools": named}}


AnyTool = FunctionTool | CustomTool
Choice = Literal["none", "auto", "required"] | NamedFunction | NamedCustom | Allowed


def chat_tools(given: object, choice: object, parallel: object) -> Json:
    """Chat's ``tools``, ``tool_choice`` and ``parallel_tool_calls``, where they were given.

    Without tools chat refuses the other two; there a choice of none or auto says nothing.

    Args:
        given: Functions and custom tools, in one list.
        choice: As it came.
        parallel: As it came.

    Raises:
        CallerError: If a tool is malformed, or the choice is one that only OpenAI can run.
    """
    said = [tool.chat() for tool in convert_value(given, list[AnyTool], "tools")]
    wanted = None if choice is None else _choice(choice)
    if said:
        return _without_nulls(
            {"tools": said, "tool_choice": wanted, "parallel_tool_calls": parallel}
        )
    return {} if wanted in (None, "none", "auto") else {"tool_choice": wanted}


def _choice(choice: object) -> str | Json:
    found: Any = convert_value(choice, Choice, "tool_choice")  # type: ignore[arg-type]  # a union is an annotation, not a type
    return found if isinstance(found, str) else dict(found.chat())


def _grammar(form: dict[str, Any] | None) -> dict[str, Any] | None:
    if form is None or form.get("type") != "grammar":
        return form
    return {"type": "grammar", "grammar": {k: v for k, v in form.items() if k != "type"}}


def _without_nulls(found: Json) -> Json:
    return {name: value for name, value in found.items() if value is not None}
