"""Parameters of a chat call: each is translated, adapted, dropped with a note, or refused.

What only steers is dropped with a note; what would change the meaning of the answer is refused.
Source: OpenAI and Anthropic API references (2026-11).
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_body import ChatBody, unsupported_parameter
from proxy.providers.chat.chat_options import OWN_FIELDS, output_limit, stop_texts

#: Most output tokens where neither caller nor catalog names a limit.
_DEFAULT_MAX_TOKENS: Final = 4_096

_KNOWN: Final = frozenset(ChatBody.__struct_fields__) | OWN_FIELDS
#: Fields that only this wire refuses, and what to do instead.
REFUSED: Final[Mapping[str, str]] = {
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
