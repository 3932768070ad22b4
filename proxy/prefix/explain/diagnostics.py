"""What a provider itself says about a miss, where its answer carries that.

Nothing is asked for unless the caller of this module sends the question: it names an earlier
answer, and a provider keeps fingerprints for it. A caller who asks by themselves is served: their
answer is read just the same.

Source: Anthropic, cache diagnostics (2026-11) and anthropic 2.11; OpenAI, prompt cache diagnostics
(2026-09) and openai 3.52, Responses.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from proxy.prefix.explain.reasons import Reason, Said
from proxy.prefix.prompts.objects import members, written

#: Bytes of an answer, or of one event, that are read; the answer itself may be longer.
MOST: Final = 8 * 2**20
_ANTHROPIC: Final[Mapping[str, tuple[Reason, str]]] = MappingProxyType(
    {
        "model_changed": (Reason.PARAMETER_CHANGED, "the model changed"),
        "system_changed": (Reason.DIVERGED, "the system text changed"),
        "tools_changed": (Reason.DIVERGED, "the tools changed"),
        "messages_changed": (Reason.DIVERGED, "the messages changed"),
    }
)
_OPENAI: Final[Mapping[str, tuple[Reason, str]]] = MappingProxyType(
    {
        "model_changed": (Reason.PARAMETER_CHANGED, "the model changed"),
        "prompt_cache_key_changed": (Reason.ELSEWHERE, "prompt_cache_key changed"),
        "tools_changed": (Reason.DIVERGED, "the tools changed"),
        "text_format_changed": (Reason.PARAMETER_CHANGED, "response_format changed"),
        "reasoning_effort_changed": (Reason.PARAMETER_CHANGED, "reasoning_effort changed"),
        "verbosity_changed": (Reason.PARAMETER_CHANGED, "verbosity changed"),
        "service_tier_changed": (Reason.PARAMETER_CHANGED, "service_tier changed"),
        "context_compacted": (Reason.COMPACTED, "the context was compacted"),
        "input_changed": (Reason.DIVERGED, "the input changed"),
    }
)


class Question(msgspec.Struct, frozen=True):
    """What is added to a request so that its answer carries the reason.

    Attributes:
        field: The field of the upstream's body.
        value: Its value, a JSON object; what the caller says in that field goes before it.
        headers: Headers beside it; each is a list to which this is added.
    """

    field: str
    value: bytes
    headers: Mapping[str, str] = {}

    def beside(self, own: bytes) -> bytes | None:
        """Its value with what the caller says in the same field; None where it cannot be put.

        That is where the caller asks, or says what is no object.

        Args:
            own: The caller's value of the field, as JSON.
        """
        said = members(own) if own[:1] == b"{" else {}
        asked = {**members(self.value), **said}
        return None if asked == said or (not said and own != b"null") else written(asked)


class Heard(msgspec.Struct, frozen=True):
    """What an answer says of itself, and of its cache.

    Attributes:
        id: The provider's id of the answer; "" where it gave none.
        said: Its own reason for a miss; None where it gave none.
    """

    id: str = ""
    said: Said | None = None


class _Cause(msgspec.Struct):
    type: Any = None
    reason: Any = None
    cache_missed_input_tokens: Any = None
    cache_missed_tokens: Any = None


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _Cause | None = None


class _Answer(msgspec.Struct):
    diagnostics: _Diagnostics | None = None
    prompt_cache_diagnostics: _Cause | None = None


class _Event(_Answer):
    message: _Answer | None = None
    response: _Answer | None = None


_event = msgspec.json.Decoder(_Event).decode


def question(wire: str, previous: str) -> Question | None:
    """How to ask about the answer before this one; None where the wire has no way.

    Anthropic keeps a fingerprint of calls that ask, and of no others: so a first call asks too,
    about nothing.

    Args:
        wire: ``messages`` for Anthropic's own API, ``responses`` for OpenAI's from GPT-5.6 on;
            neither Bedrock, Vertex nor chat completions can be asked.
        previous: The provider's id of that answer; "" for none.
    """
    if wire == "messages":
        value = msgspec.json.encode({"previous_message_id": previous or None})
        return Question("diagnostics", value, {"anthropic-beta": "cache-diagnosis-2026-04-07"})
    if wire == "responses" and previous:
        value = msgspec.json.encode({"comparison_response_id": previous})
        return Question("prompt_cache_options", value)
    return None


def told(answer: bytes) -> Said | None:
    """The reason in an answer, or in one event of a stream; None where it gives none.

    Anthropic puts it into ``message_start``, OpenAI into the response. A comparison that found no
    difference, is not done yet, or was not possible says nothing.
    """
    if len(answer) > MOST or b"diagnostics" not in answer:
        return None
    try:
        event = _event(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    for part in (event, event.message, event.response):
        said = _said(part) if part is not None else None
        if said is not None:
            return said
    return None


def _said(part: _Answer) -> Said | None:
    if part.diagnostics is not None and part.diagnostics.cache_miss_reason is not None:
        cause = part.diagnostics.cache_miss_reason
        return _named(_ANTHROPIC, cause.type, cause.cache_missed_input_tokens)
    found = part.prompt_cache_diagnostics
    return _named(_OPENAI, found.reason, found.cache_missed_tokens) if found is not None else None


def _named(names: Mapping[str, tuple[Reason, str]], name: object, tokens: object) -> Said | None:
    found = names.get(name) if isinstance(name, str) else None
    if found is None:
        return None
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    return Said(*found, tokens if isinstance(tokens, int) and counted else None)
