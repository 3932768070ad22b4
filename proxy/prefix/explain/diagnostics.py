"""Reads a provider's own reason for a cache miss from its answer.

Nothing is asked for unless the caller of this module sends the question: it names an earlier
answer, and a provider keeps fingerprints for it. A caller who asks by themselves is served: their
answer is read just the same.

Source: Anthropic, cache diagnostics (2026-11) and anthropic 2.11; OpenAI, prompt cache diagnostics
(2026-09) and openai 3.52, Responses.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.prefix.prompts.objects import members, write_object

#: Bytes of an answer, or of one event, that are read; the answer itself may be longer.
MAX_ANSWER_BYTES: Final = 8 * 2**20
_ANTHROPIC: Final[Mapping[str, tuple[MissReason, str]]] = MappingProxyType(
    {
        "model_changed": (MissReason.PARAMETER_CHANGED, "the model changed"),
        "system_changed": (MissReason.DIVERGED, "the system text changed"),
        "tools_changed": (MissReason.DIVERGED, "the tools changed"),
        "messages_changed": (MissReason.DIVERGED, "the messages changed"),
    }
)
_OPENAI: Final[Mapping[str, tuple[MissReason, str]]] = MappingProxyType(
    {
        "model_changed": (MissReason.PARAMETER_CHANGED, "the model changed"),
        "prompt_cache_key_changed": (MissReason.ELSEWHERE, "prompt_cache_key changed"),
        "tools_changed": (MissReason.DIVERGED, "the tools changed"),
        "text_format_changed": (MissReason.PARAMETER_CHANGED, "response_format changed"),
        "reasoning_effort_changed": (MissReason.PARAMETER_CHANGED, "reasoning_effort changed"),
        "verbosity_changed": (MissReason.PARAMETER_CHANGED, "verbosity changed"),
        "service_tier_changed": (MissReason.PARAMETER_CHANGED, "service_tier changed"),
        "context_compacted": (MissReason.COMPACTED, "the context was compacted"),
        "input_changed": (MissReason.DIVERGED, "the input changed"),
    }
)


class DiagnosticsQuestion(msgspec.Struct, frozen=True):
    """The field and headers that ask a provider for its reason.

    Attributes:
        field: The field of the upstream's body.
        value: Its value, a JSON object; what the caller says in that field goes before it.
        headers: Headers beside it; each is a list to which this is added.
    """

    field: str
    value: bytes
    headers: Mapping[str, str] = {}

    def merged_value(self, own: bytes) -> bytes | None:
        """Its value with what the caller says in the same field; None where it cannot be put.

        That is where the caller asks, or says what is no object.

        Args:
            own: The caller's value of the field, as JSON.
        """
        said = members(own) if own[:1] == b"{" else {}
        asked = {**members(self.value), **said}
        return None if asked == said or (not said and own != b"null") else write_object(asked)


class AnswerDiagnostics(msgspec.Struct, frozen=True):
    """The id of an answer, and its provider's reason for a cache miss.

    Attributes:
        id: The provider's id of the answer; "" where it gave none.
        said: Its own reason for a miss; None where it gave none.
    """

    id: str = ""
    said: ProviderReason | None = None


_Scalar = str | int | float | bool | None


class _Cause(msgspec.Struct):
    type: _Scalar = None
    reason: _Scalar = None
    cache_missed_input_tokens: _Scalar = None
    cache_missed_tokens: _Scalar = None


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _Cause | None = None


class _Answer(msgspec.Struct):
    diagnostics: _Diagnostics | None = None
    prompt_cache_diagnostics: _Cause | None = None


class _Event(_Answer):
    message: _Answer | None = None
    response: _Answer | None = None


_event = msgspec.json.Decoder(_Event).decode


def diagnostics_question(wire: str, previous: str) -> DiagnosticsQuestion | None:
    """Return the question about the previous answer; None where the wire has none.

    Anthropic keeps a fingerprint of calls that ask, and of no others: so a first call asks too,
    about nothing.

    Args:
        wire: ``messages`` for Anthropic's own API, ``responses`` for OpenAI's from GPT-5.6 on;
            neither Bedrock, Vertex nor chat completions can be asked.
        previous: The provider's id of that answer; "" for none.
    """
    if wire == "messages":
        value = msgspec.json.encode({"previous_message_id": previous or None})
        return DiagnosticsQuestion(
            "diagnostics", value, {"anthropic-beta": "cache-diagnosis-2026-04-07"}
        )
    if wire == "responses" and previous:
        value = msgspec.json.encode({"comparison_response_id": previous})
        return DiagnosticsQuestion("prompt_cache_options", value)
    return None


def provider_reason(answer: bytes) -> ProviderReason | None:
    """The reason in an answer, or in one event of a stream; None where it gives none.

    Anthropic puts it into ``message_start``, OpenAI into the response. A comparison that found no
    difference, is not done yet, or was not possible says nothing.
    """
    if len(answer) > MAX_ANSWER_BYTES or b"diagnostics" not in answer:
        return None
    try:
        event = _event(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    for part in (event, event.message, event.response):
        said = _reason_in(part) if part is not None else None
        if said is not None:
            return said
    return None


def _reason_in(part: _Answer) -> ProviderReason | None:
    if part.diagnostics is not None and part.diagnostics.cache_miss_reason is not None:
        cause = part.diagnostics.cache_miss_reason
        return _named(_ANTHROPIC, cause.type, cause.cache_missed_input_tokens)
    found = part.prompt_cache_diagnostics
    return _named(_OPENAI, found.reason, found.cache_missed_tokens) if found is not None else None


def _named(
    names: Mapping[str, tuple[MissReason, str]], name: object, tokens: object
) -> ProviderReason | None:
    found = names.get(name) if isinstance(name, str) else None
    if found is None:
        return None
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    return ProviderReason(*found, tokens if isinstance(tokens, int) and counted else None)
