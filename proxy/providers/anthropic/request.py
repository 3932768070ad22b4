"""A chat completions body as a Messages body.

The same body gives the same bytes, and a body with more messages begins with them, so prompt
caches upstream keep hitting. A parameter that only steers is dropped with a note; one that would
change the meaning of the answer is refused.

Source: OpenAI and Anthropic API references, Messages API (2026-11).
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.anthropic.parts import text
from proxy.providers.anthropic.thinking import Thinking, thinking
from proxy.providers.anthropic.tools import tool_choice, tools
from proxy.providers.anthropic.turns import Turn, close_turns, pair_tool_calls, system, turns
from proxy.providers.chat.chat_body import ChatBody, is_given, read, unsupported_parameter
from proxy.providers.chat.chat_options import (
    OWN_FIELDS,
    answer_schema,
    output_limit,
    refuse_unsupported,
    stop_texts,
)
from proxy.providers.chat.compaction_blocks import betas, compaction_fields
from proxy.providers.chat.marked_blocks import Block, limit_markers
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import ANTHROPIC

#: Most output tokens where neither caller nor catalog names a limit.
_DEFAULT_MAX_TOKENS: Final = 4_096

_KNOWN: Final = frozenset(ChatBody.__struct_fields__) | OWN_FIELDS
#: Fields that only this wire refuses, and what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "system": "Send the system prompt as a message with the role system.",
    "inference_geo": "Where a model runs is set in the gateway's catalog: leave inference_geo out.",
}


def refuse_choices(body: ChatBody) -> None:
    """Refuse a call for several answers."""
    if body.n is not None and body.n != 1:
        raise unsupported_parameter(
            "n", "This model gives one answer per call: leave n out, or call again."
        )


def note_dropped_fields(names: frozenset[str], notes: list[str]) -> None:
    """Note the fields that this wire cannot express."""
    if unknown := sorted(names - _KNOWN):
        notes.append(f"dropped {', '.join(unknown)}: the model has no such parameter")


def max_tokens(body: ChatBody, route: Route, notes: list[str]) -> int:
    """The ``max_tokens`` of the request, which the Messages API requires."""
    limit = output_limit(body, route, notes)
    return (route.max_output or _DEFAULT_MAX_TOKENS) if limit is None else limit


def sampling(
    body: ChatBody, traits: frozenset[str], notes: list[str], *, thinks: bool
) -> dict[str, Any]:
    """Temperature, top_p and top_k as far as the model takes them.

    Models that take both take only one of temperature and top_p at a time.
    Source: Anthropic, migration to Claude 4.5 and to API version 2026-10-21.
    """
    named = {"temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k}
    values = {name: value for name, value in named.items() if value is not None}
    if "sampling" not in traits or thinks:
        why = "while it thinks" if "sampling" in traits else "at all"
        notes += [f"dropped {name}: the model does not take it {why}" for name in values]
        return {}
    if "temperature" in values and "top_p" in values:
        del values["top_p"]
        notes.append("dropped top_p: the model takes temperature or top_p, not both")
    if values.get("temperature", 0) > 1:
        values["temperature"] = 1
        notes.append("lowered temperature to 1: the model's most")
    return values


def stop_sequences(body: ChatBody, notes: list[str]) -> list[str]:
    """The stop sequences; those of only whitespace are refused by the model and left out."""
    stops = stop_texts(body)
    worded_stops = [words for words in stops if words.strip()]
    if len(worded_stops) < len(stops):
        notes.append("dropped a stop of only whitespace: the model does not take it")
    return worded_stops


def service_tier(body: ChatBody, notes: list[str]) -> str | None:
    """The tier by Anthropic's name; None for its default, the best the account has."""
    if body.service_tier in {None, "auto", "priority"}:
        return None
    if body.service_tier != "default":
        notes.append(
            f"sent service_tier {body.service_tier} as default: the model has no such tier"
        )
    return "standard_only"


def end_user(body: ChatBody) -> str:
    """The opaque end user; "" for none.

    Names longer than the 256 characters Anthropic takes are hashed.
    """
    name = body.safety_identifier or body.user or ""
    return name if len(name) <= 256 else hashlib.sha256(name.encode()).hexdigest()


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
    refuse_unsupported(request, names, _REFUSED)
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
