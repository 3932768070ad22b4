"""The reasons for a cache miss: as codes, as a finding, and as text for people."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from slo.usage import Usage


class MissReason(StrEnum):
    """Reason for a cache miss."""

    FIRST_SEEN = "first_seen"
    BELOW_MINIMUM = "below_minimum"
    EXPIRED = "expired"
    DIVERGED = "diverged"
    UNMARKED = "unmarked"
    PARAMETER_CHANGED = "parameter_changed"
    REROUTED = "rerouted"
    ELSEWHERE = "elsewhere"
    COMPACTED = "compacted"
    PROVIDER_SIDE = "provider_side"


class ReasonConfidence(StrEnum):
    """Confidence in a reason."""

    CERTAIN = "certain"  #: It follows from what was sent and what is published.
    LIKELY = "likely"  #: Nothing else is known that would do it.
    POSSIBLE = "possible"  #: The cache promises nothing; it may have been something else.


class ProviderReason(msgspec.Struct, frozen=True):
    """A provider's own reason.

    Attributes:
        tokens: Tokens that it reports as missed; None where it does not.
    """

    reason: MissReason
    detail: str
    tokens: int | None = None


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


def provider_reason(answer: bytes) -> ProviderReason | None:
    """The reason in an answer, or in one event of a stream, whose caller asked for it; else None.

    Anthropic puts it into ``message_start``, OpenAI into the response. A comparison that found no
    difference, is not done yet, or was not possible says nothing.

    Source: Anthropic, cache diagnostics (2026-11) and anthropic 2.11; OpenAI, prompt cache
    diagnostics (2026-09) and openai 3.52, Responses.
    """
    if len(answer) > _MAX_ANSWER_BYTES or answer.find(b"diagnostics") < 0:
        return None
    try:
        event = _event(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    reasons = (_reason_in(part) for part in (event, event.message, event.response) if part)
    return next(filter(None, reasons), None)


def _reason_in(part: _Answer) -> ProviderReason | None:
    anthropic = part.diagnostics.cache_miss_reason if part.diagnostics is not None else None
    if anthropic is not None:
        name, tokens = anthropic.type, anthropic.cache_missed_input_tokens
    elif (openai := part.prompt_cache_diagnostics) is not None:
        name, tokens = openai.reason, openai.cache_missed_tokens
    else:
        return None
    reason_and_detail = _PROVIDER_REASONS.get(name) if isinstance(name, str) else None
    count = tokens if isinstance(tokens, int) and type(tokens) is not bool and tokens >= 0 else None
    return ProviderReason(*reason_and_detail, count) if reason_and_detail is not None else None


class CacheMiss(msgspec.Struct, frozen=True, kw_only=True):
    """Reason for a cache miss, and its cost.

    Attributes:
        detail: The evidence in a short sentence; text of the prompt only where it may be shown.
        tokens: Tokens that could have been read and were not.
        nanos: Cost of that, in nano-dollars; None where a price is unknown.
    """

    reason: MissReason
    detail: str = ""
    confidence: ReasonConfidence | None = None
    tokens: int = 0
    nanos: int | None = None


#: By their names in the answers of Anthropic and OpenAI.
_PROVIDER_REASONS: Final[Mapping[str, tuple[MissReason, str]]] = MappingProxyType(
    {
        "model_changed": (MissReason.PARAMETER_CHANGED, "the model changed"),
        "system_changed": (MissReason.DIVERGED, "the system text changed"),
        "tools_changed": (MissReason.DIVERGED, "the tools changed"),
        "messages_changed": (MissReason.DIVERGED, "the messages changed"),
        "prompt_cache_key_changed": (MissReason.ELSEWHERE, "prompt_cache_key changed"),
        "text_format_changed": (MissReason.PARAMETER_CHANGED, "response_format changed"),
        "reasoning_effort_changed": (MissReason.PARAMETER_CHANGED, "reasoning_effort changed"),
        "verbosity_changed": (MissReason.PARAMETER_CHANGED, "verbosity changed"),
        "service_tier_changed": (MissReason.PARAMETER_CHANGED, "service_tier changed"),
        "context_compacted": (MissReason.COMPACTED, "the context was compacted"),
        "input_changed": (MissReason.DIVERGED, "the input changed"),
    }
)
#: Bytes of an answer, or of one event, that are read; the answer itself may be longer.
_MAX_ANSWER_BYTES: Final = 8 * 2**20
#: Advice for each reason.
FIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        MissReason.FIRST_SEEN: (
            "Nothing to fix where the text is new; where prompts begin with what varies, move it"
            " behind what stays the same: the feature's page and `thriftgate layout list` have"
            " proposals."
        ),
        MissReason.BELOW_MINIMUM: (
            "Put more of what stays the same in front, such as examples, or leave it: so short"
            " a prompt is never cached."
        ),
        MissReason.EXPIRED: (
            "Choose a longer lifetime where that pays, or bring calls closer together."
        ),
        MissReason.DIVERGED: (
            "Move what varies behind what stays the same, or wrap it in"
            " <tg:variable>…</tg:variable>. In mode `auto` the gateway applies the layout that it"
            " learns by itself; in `observe` or `apply`, approve it on the feature's page or by"
            " `thriftgate layout approve`."
        ),
        MissReason.UNMARKED: (
            "Nothing to fix: the gateway sends marks as far as they may lose their surcharge, and"
            " says while they wait; conversations of the control arm go without."
        ),
        MissReason.PARAMETER_CHANGED: (
            "Keep this parameter the same within a conversation, or set it for all of a feature."
        ),
        MissReason.REROUTED: (
            "Nothing to fix in the calls: the gateway fell back or came back, and the receipt says"
            " why."
        ),
        MissReason.ELSEWHERE: (
            "Keep one conversation on one key and upstream; share a busy prefix out over a few"
            " cache keys."
        ),
        MissReason.COMPACTED: (
            "Shorten a conversation seldom and by much, best when its cache is cold anyway."
        ),
        MissReason.PROVIDER_SIDE: (
            "Nothing to fix on this side: ask the provider if it happens often."
        ),
    }
)
_REASON_TEXTS: Final[Mapping[MissReason, str]] = MappingProxyType(
    {
        MissReason.FIRST_SEEN: "it was seen for the first time",
        MissReason.BELOW_MINIMUM: "it is below the minimum",
        MissReason.EXPIRED: "what was stored had expired",
        MissReason.DIVERGED: "the prompt parted from what was sent before",
        MissReason.UNMARKED: "nothing was stored, or looked for, where it was needed",
        MissReason.PARAMETER_CHANGED: "a parameter changed that is part of the prefix",
        MissReason.REROUTED: "the gateway sent it to another model or upstream than the last call",
        MissReason.ELSEWHERE: "what it repeats lies in another cache",
        MissReason.COMPACTED: "the conversation was shortened",
        MissReason.PROVIDER_SIDE: "the provider did not read what should have been there",
    }
)
_NOTHING_TO_FIX: Final = "Nothing to fix"
_NANOS_PER_DOLLAR: Final = 1_000_000_000


def explanation_lines(
    miss: CacheMiss | None, expected: int | None, usage: Usage | None
) -> list[str]:
    """The lines that explain one call's cache; none where nothing is known of it."""
    if usage is None:
        return []
    share = f", {100 * usage.cache_read / usage.prompt_tokens:.0f} %" if usage.prompt_tokens else ""
    lines = [f"Read from the cache: {usage.cache_read:,} of {usage.prompt_tokens:,} tokens{share}."]
    if expected is not None:
        could = f"{expected:,} tokens" if expected else "none"
        lines.append(f"To be expected, as the prompt was sent: {could}.")
    if miss is None:
        return lines
    lines += [_reason_line(miss)]
    if miss.tokens:
        lines.append(
            f"Could have been read besides: {miss.tokens:,} tokens; {_savings_text(miss.nanos)}."
        )
    fix = FIXES[miss.reason]
    return [*lines, fix if fix.startswith(_NOTHING_TO_FIX) else f"Fix: {fix}"]


def _reason_line(miss: CacheMiss) -> str:
    sure = (
        f" ({miss.confidence})" if miss.confidence not in {None, ReasonConfidence.CERTAIN} else ""
    )
    detail = f": {miss.detail}" if miss.detail else ""
    return f"Why not more: {_REASON_TEXTS[miss.reason]}{sure}{detail}."


def _savings_text(nanos: int | None) -> str:
    """The change of cost had the tokens been read, in dollars."""
    if nanos is None:
        return "what that would have saved is not known"
    whole, rest = divmod(abs(nanos), _NANOS_PER_DOLLAR)
    cents = f"{rest:09d}".rstrip("0").ljust(2, "0")
    verb = "saved" if nanos >= 0 else "cost another"
    return f"that would have {verb} ${whole:,}.{cents}"
