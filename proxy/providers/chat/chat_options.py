"""Options of a chat call as its writers read them: output limit, answer's form, choice of tools.

Source: OpenAI API reference, create chat completion (2026-11).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_body import (
    ChatBody,
    ToolDefinition,
    invalid_parameter,
    is_given,
    unsupported_parameter,
)

#: Fields that are not sent on and need no note: the gateway itself uses them.
OWN_FIELDS: Final = frozenset({"stream_options", "metadata"})
#: Fields that cannot be left out without changing the answer, and what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "functions": "Send functions or tools, not both.",
    "audio": "This model cannot speak: leave audio out.",
    "web_search_options": "This model cannot search the web by itself: offer a tool that does.",
}
#: Source: OpenAI API reference, function tools (2026-11).
_MAX_NAME_CHARS: Final = 64
_DIGEST_CHARS: Final = 8
_MODES: Final = frozenset({"none", "auto", "required"})


class ToolMode(msgspec.Struct, frozen=True):
    """The tools that a model may or must use.

    Attributes:
        mode: ``none``, ``auto`` or ``required``.
        names: The tools that the mode is about; None for all that are offered.
    """

    mode: str = "auto"
    names: tuple[str, ...] | None = None


def refuse_unsupported(
    body: ChatBody, names: frozenset[str], further: Mapping[str, str] = {}
) -> None:
    """Refuse parameters that ask for what no model of another API can do.

    Args:
        names: Names of the fields that were sent.
        further: Further fields that the wire refuses, and what to do instead.
    """
    for name, fix in {**_REFUSED, **further}.items():
        if name in names:
            raise unsupported_parameter(name, fix)
    if body.logprobs or body.top_logprobs:
        raise unsupported_parameter(
            "logprobs", "This model reports no log probabilities: leave logprobs out."
        )
    if body.modalities is not None and body.modalities != ["text"]:
        raise unsupported_parameter(
            "modalities", "This model answers in text only: leave modalities out."
        )
    if not body.messages:
        raise invalid_parameter("messages", "There is nothing to answer: send a message.")


def output_limit(body: ChatBody, route: Route, notes: list[str]) -> int | None:
    """The most output tokens that the caller asks for, at most the model's; None for no limit."""
    name = "max_completion_tokens" if body.max_completion_tokens is not None else "max_tokens"
    limit: int | None = getattr(body, name)
    if limit is None:
        return None
    if limit < 1:
        raise invalid_parameter(name, f"{name} must be at least 1.")
    if route.max_output is not None and limit > route.max_output:
        notes.append(f"lowered {name} to {route.max_output}: the model's most")
        return route.max_output
    return limit


def stop_texts(body: ChatBody) -> list[str]:
    """The stop sequences."""
    return [body.stop] if isinstance(body.stop, str) else body.stop or []


def answer_schema(body: ChatBody) -> Raw | None:
    """The JSON schema of the answer, empty for any JSON object; None for free text."""
    form = body.response_format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return Raw()
    schema = form.json_schema.schema if form.json_schema is not None else Raw()
    if form.type != "json_schema" or not is_given(schema):
        raise invalid_parameter(
            "response_format", "response_format must be text, json_object or a json_schema."
        )
    return schema


def tool_mode(body: ChatBody) -> ToolMode:
    """The choice of tools; a restriction to all that are offered is none."""
    choice = body.tool_choice
    if not body.tools and choice not in (None, "none", "auto"):
        raise invalid_parameter(
            "tool_choice", "tool_choice asks for a tool, but there are none: send tools."
        )
    if choice is None or isinstance(choice, str):
        if choice is not None and choice not in _MODES:
            raise invalid_parameter(
                "tool_choice", "tool_choice must be none, auto, required or a tool."
            )
        return ToolMode(choice or "auto")
    if choice.type == "function" and choice.function is not None:
        return ToolMode("required", (choice.function.name,))
    if choice.type == "allowed_tools" and choice.allowed_tools is not None:
        names = tool_names(choice.allowed_tools.tools)
        mode = "required" if choice.allowed_tools.mode == "required" else "auto"
        is_open = mode == "auto" and set(names) >= set(tool_names(body.tools))
        return ToolMode(mode, None if is_open else names)
    raise unsupported_parameter(
        "tool_choice", "tool_choice must be none, auto, required or a function."
    )


def short_tool_name(name: str) -> str:
    """The name of a tool in at most 64 characters, as chat takes it; different ones stay so."""
    if len(name) <= _MAX_NAME_CHARS:
        return name
    digest = sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def tool_names(tools: list[ToolDefinition] | None) -> tuple[str, ...]:
    """The names of the functions among some tools."""
    return tuple(tool.function.name for tool in tools or () if tool.function is not None)
