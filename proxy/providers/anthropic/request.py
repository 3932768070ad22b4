"""A chat completions body as a Messages body.

The same body gives the same bytes, and a body with more messages begins with them, so prompt
caches upstream keep hitting. Source: Anthropic, Messages API (2026-11).
"""

from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.anthropic.params import (
    REFUSED,
    end_user,
    max_tokens,
    note_dropped_fields,
    refuse_choices,
    sampling,
    service_tier,
    stop_sequences,
)
from proxy.providers.anthropic.parts import text
from proxy.providers.anthropic.thinking import Thinking, thinking
from proxy.providers.anthropic.tools import tool_choice, tools
from proxy.providers.anthropic.turns import Turn, close_turns, pair_tool_calls, system, turns
from proxy.providers.chat.chat_body import ChatBody, is_given, read, unsupported_parameter
from proxy.providers.chat.chat_options import answer_schema, refuse_unsupported
from proxy.providers.chat.compaction_blocks import betas, compaction_fields
from proxy.providers.chat.marked_blocks import Block, limit_markers
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import ANTHROPIC

#: Says what ``json_object`` says; the Messages API has no word for it.
_JSON_ONLY: Final = "Answer with one JSON object and nothing else."


class MessagesRequest(msgspec.Struct, frozen=True):
    """A request in Anthropic's format."""

    body: bytes
    notes: tuple[str, ...]
    betas: tuple[str, ...] = ()


def messages_body(body: bytes, route: Route) -> MessagesRequest:
    """The caller's chat body for this route."""
    request, names = read(body)
    notes: list[str] = []
    refuse_choices(request)
    refuse_unsupported(request, names, REFUSED)
    note_dropped_fields(names, notes)
    if any(message.name for message in request.messages if message.role != "tool"):
        notes.append("dropped name: this model's messages carry none")
    fields = _messages_request(request, route, notes)
    return MessagesRequest(msgspec.json.encode(fields), tuple(dict.fromkeys(notes)), betas(request))


def _messages_request(request: ChatBody, route: Route, notes: list[str]) -> dict[str, Any]:
    """The request as it will be written, fields in a fixed order."""
    traits = route.traits
    first, start = system(request.messages)
    offered, choice = tools(request, traits, notes), tool_choice(request, traits)
    conversation = pair_tool_calls(turns(request.messages, start, traits, notes))
    room = max_tokens(request, route, notes)
    forced = choice is not None and choice["type"] in {"any", "tool"}
    thought = thinking(request, traits, conversation, notes, room=room, forced=forced)
    output = _output_config(request, traits, thought, first, notes)
    if not is_given(request.compaction):
        conversation = close_turns(
            conversation, notes, prefill="prefill" in traits and not thought.is_on
        )
    _limit(request, offered, first, conversation, notes)
    user = end_user(request)
    return _without_empty_fields(
        {
            "model": route.model or request.model,
            "max_tokens": room,
            "stream": request.stream or None,
            "system": first,
            "tools": offered,
            "tool_choice": choice,
            "messages": [{"role": turn.role, "content": turn.content} for turn in conversation],
            "thinking": thought.field,
            "output_config": output,
            "stop_sequences": stop_sequences(request, notes),
            "service_tier": service_tier(request, notes),
            "metadata": {"user_id": user} if user else None,
            "cache_control": request.cache_control if is_given(request.cache_control) else None,
            **compaction_fields(request),
        }
    ) | sampling(request, traits, notes, thinks=thought.is_on)


def _without_empty_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that are empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def _output_config(
    request: ChatBody,
    traits: frozenset[str],
    thought: Thinking,
    first: list[Block],
    notes: list[str],
) -> dict[str, Any]:
    """``output_config``: effort and format; a request for any JSON goes to the system blocks."""
    output: dict[str, Any] = {"effort": thought.effort} if thought.effort else {}
    schema = answer_schema(request)
    if schema is None:
        return output
    if not is_given(schema):
        first.append(text(_JSON_ONLY))
        notes.append(
            "wrote response_format json_object as an instruction: the model has no such parameter"
        )
        return output
    if "structured" not in traits:
        raise unsupported_parameter(
            "response_format",
            "This model cannot promise a schema: offer it as a tool, or ask another model.",
        )
    fitted = fit_schema(schema, ANTHROPIC)
    notes += fitted.notes("response_format")
    output["format"] = {"type": "json_schema", "schema": fitted.schema}
    return output


def _limit(
    request: ChatBody, offered: list[Block], first: list[Block], turns: list[Turn], notes: list[str]
) -> None:
    """Keep no more cache markers than the model takes."""
    conversation = [block for turn in turns for block in turn.blocks]
    limit_markers(
        [*offered, *first, *conversation], notes, automatic=is_given(request.cache_control)
    )
