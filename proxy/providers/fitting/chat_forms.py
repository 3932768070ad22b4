"""The API in which a model takes a chat call: chat completions, or Responses; pure.

OpenAI's models from GPT-5.4 on refuse function tools beside reasoning in chat completions, and some
models have no chat completions at all. A chat call that is translated for such a model goes by the
Responses API, where its upstream serves that and the API has all that the call needs. Else it goes
by chat completions with reasoning turned off, where the model can answer so.

Source: openai/openai-openapi 541 (2026-05); BerriAI/litellm 34569: an effort that is not sent is
not none (2026-11).
"""

from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_body import Fields

#: Features of a call that chat completions have and Responses lack, as ``CallRequirements.needs``
#: names them. Source: OpenAI API reference, create a response (2026-11).
_CHAT_FEATURES: Final = frozenset(
    {"audio", "choices", "functions", "logprobs", "stop", "web_search"}
)
_TRAITS: Final = frozenset({"responses_only", "tools_at_none"})
#: Fields that say such a feature, with the values by which they say that there is none.
_CHAT_FIELDS: Final = {
    "audio": (),
    "functions": (b"[]",),
    "function_call": (b'"none"',),
    "logprobs": (b"false",),
    "modalities": (b'["text"]', b"[]"),
    "n": (b"1",),
    "stop": (b"[]",),
    "top_logprobs": (b"0",),
    "web_search_options": (),
}
_NULL: Final = b"null"


def required_form(features: frozenset[str], *, has_tools: bool) -> str:
    """The form that a call needs of a model, as ``CallRequirements.needs`` names it."""
    suffix = "_tools" if has_tools else ""
    return f"chat{suffix}" if features & _CHAT_FEATURES else f"chat_or_responses{suffix}"


def accepted_forms(route: Route) -> frozenset[str]:
    """The forms of a chat call that the route's model takes."""
    forms = set()
    if "responses_only" not in route.traits:
        forms |= {"chat", "chat_or_responses"}
        if takes_chat_tools(route):
            forms |= {"chat_tools", "chat_or_responses_tools"}
    if serves_by_responses(route):
        forms |= {"chat_or_responses", "chat_or_responses_tools"}
    return frozenset(forms)


def takes_chat_tools(route: Route) -> bool:
    """True if the model takes tools in chat completions, at least without reasoning."""
    if "responses_only" in route.traits:
        return False
    return "tools_at_none" not in route.traits or "effort_none" in route.traits


def serves_by_responses(route: Route) -> bool:
    """True if chat calls that are translated for the route may go by the Responses API."""
    return route.upstream.serves_responses and not _TRAITS.isdisjoint(route.traits)


def goes_by_responses(fields: Fields, route: Route) -> bool:
    """True if a chat call that is translated for the route goes by the Responses API.

    Args:
        fields: Fields of its body, with the effort that the model takes.
    """
    if not serves_by_responses(route) or _chat_only_fields(fields):
        return False
    if "responses_only" in route.traits:
        return True
    return has_tools(fields) and _value(fields, "reasoning_effort") != b'"none"'


def has_tools(fields: Fields) -> bool:
    """True if a chat body has tools, by either of their names."""
    values = (_value(fields, name) for name in ("tools", "functions"))
    return any(raw.strip(b"[] \t\r\n") not in {b"", _NULL} for raw in values)


def _chat_only_fields(fields: Fields) -> list[str]:
    """The given fields that only chat completions have."""
    values = {name: _value(fields, name) for name in _CHAT_FIELDS if name in fields}
    return [name for name, raw in values.items() if raw not in (_NULL, *_CHAT_FIELDS[name])]


def _value(fields: Fields, name: str) -> bytes:
    return bytes(fields.get(name, msgspec.Raw(_NULL)))
