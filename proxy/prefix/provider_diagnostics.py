"""Asks providers why their cache missed, and reads their reasons from their answers.

The question names the latest answer of the conversation, and a provider keeps fingerprints for it.
A caller who asks by themselves is served: their answer is read just the same. Answers are kept for
one process: a conversation that meets another one asks nothing there the first time.

Source: Anthropic, cache diagnostics (2026-11) and anthropic 2.11; OpenAI, prompt cache diagnostics
(2026-09) and openai 3.52, Responses.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.prefix.planned import DiagnosticsQuestion, Planned
from proxy.records.lru_cache import LruCache

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
#: Seconds an upstream is asked nothing once it refused a call that asked.
RETRY_AFTER_S: Final = 3_600.0
#: OpenAI refuses it beside the options that carry the question.
_RETENTION: Final = "prompt_cache_retention"
_RESPONSES: Final = "responses"
_STORE: Final = "store"
#: Upstreams whose refusals are remembered.
_MAX_UPSTREAMS: Final = 256


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
    if len(answer) > MAX_ANSWER_BYTES or answer.find(b"diagnostics") < 0:
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
        return _known_reason(_ANTHROPIC, cause.type, cause.cache_missed_input_tokens)
    found = part.prompt_cache_diagnostics
    return (
        _known_reason(_OPENAI, found.reason, found.cache_missed_tokens)
        if found is not None
        else None
    )


def _known_reason(
    names: Mapping[str, tuple[MissReason, str]], name: object, tokens: object
) -> ProviderReason | None:
    found = names.get(name) if isinstance(name, str) else None
    if found is None:
        return None
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    return ProviderReason(*found, tokens if isinstance(tokens, int) and counted else None)


class _LatestAnswer(msgspec.Struct, frozen=True, gc=False):
    """The latest answer of a conversation: its id, and how many the call held that got it."""

    id: str
    turns: int


class ProviderDiagnostics:
    """Asks providers why their caches missed; some 300 bytes a conversation, or 6 MB in all.

    Where an upstream names its answers by 256 characters, the most that is read, it is 10 MB.
    Conversations are told apart by keyed hashes of their team's, so that nobody's call can name
    the answer of another team.

    Args:
        most: Conversations remembered.
    """

    def __init__(self, most: int = 20_000) -> None:
        self._latest: LruCache[tuple[bytes, str], _LatestAnswer] = LruCache(most)
        self._resting: LruCache[str, float] = LruCache(_MAX_UPSTREAMS)

    def __len__(self) -> int:
        return len(self._latest)

    def add_question(self, planned: Planned, now: float) -> Planned:
        """The call with a question about the answer before it; as it is where there is none.

        The control arm, which goes unmodified, asks nothing; nor does a call whose caller asks.
        """
        way, said = planned.target, planned.prompt.fields
        if not way.asks:
            return planned
        rests = (self._resting.peek(way.upstream) or 0.0) > now
        if rests or planned.plan.arm is ExperimentArm.CONTROL or not _can_ask(planned):
            return planned
        if said.get(_RETENTION, b"null") != b"null":
            return planned
        found = diagnostics_question(way.asks, self._previous_answer(planned))
        if found is None or found.merged_value(said.get(found.field, b"null")) is None:
            return planned
        return msgspec.structs.replace(planned, question=found)

    def record_answer(self, planned: Planned, answer: str) -> None:
        """Remember what the provider calls the answer to a call.

        Not where the call ended in what no later call repeats: the provider would call that the
        difference. Nor where it is not stored, for then it cannot be compared with.
        """
        if planned.target.asks and answer:
            named = "" if planned.prompt.tail or not _can_ask(planned) else answer
            self._latest.put(_conversation_key(planned), _LatestAnswer(named, planned.draft.turns))

    def record_refusal(self, planned: Planned, now: float) -> bool:
        """True if a refused call asked; then its upstream is asked nothing for a while."""
        if planned.question is None:
            return False
        self._resting.put(planned.target.upstream, now + RETRY_AFTER_S)
        return True

    def _previous_answer(self, planned: Planned) -> str:
        """The answer that the call goes on from; "" where it is not known."""
        latest = self._latest.get(_conversation_key(planned))
        goes_on = latest is not None and latest.turns < planned.draft.turns
        return latest.id if latest is not None and goes_on else ""


def _can_ask(planned: Planned) -> bool:
    """True if the call's route can be asked; OpenAI compares stored responses alone."""
    is_kept = planned.prompt.fields.get(_STORE, b"null").strip() != b"false"
    return is_kept if planned.target.asks == _RESPONSES else bool(planned.target.asks)


def _conversation_key(planned: Planned) -> tuple[bytes, str]:
    return planned.draft.conversation, planned.target.upstream
