"""The places of an answer that are read for metering; all others are skipped unparsed.

Every field is kept raw and is decoded only where it is small or of a known shape. So an answer with
a million keys builds no more objects than one with ten, wherever the keys stand.
"""

from typing import Any, Final

import msgspec

from proxy.providers.answers.engine_timings import EngineTimings, read_timings
from proxy.providers.answers.google_finish import FAILED_REASONS
from proxy.providers.json_size import MAX_OBJECTS, may_exceed
from proxy.providers.lenient import UNREADABLE, to_strict_json

#: Bytes of a usage object; a longer one is none.
_MAX_USAGE_BYTES: Final = 64 * 1024
#: Field with the reason that a choice ended; inside generated text its quotation marks would be
#: escaped.
_END: Final = b'"finish_reason":"'
_USAGE: Final = b'"usage"'
#: A longer value than this is not empty, however it is written.
_MAX_EMPTY_BYTES: Final = 16
_NOTHING: Final = msgspec.Raw(b"")
_NO_PARTS: Final = (_NOTHING, _NOTHING, _NOTHING)


class _Part(msgspec.Struct):
    """An object inside an answer that may carry its id, its usage or its service tier."""

    id: msgspec.Raw = _NOTHING
    usage: msgspec.Raw = _NOTHING
    service_tier: msgspec.Raw = _NOTHING

    def usage_object(self) -> dict[str, Any] | None:
        """Its usage; None where it has none."""
        return _object(self.usage)

    def tier(self) -> str:
        """Its service tier; "" where it names none."""
        return _text(self.service_tier)


class _Choice(_Part):
    """A choice of a chunk: it may say why it ended, and what was used.

    Source: Moonshot API reference, streaming: usage stands in the last choice (2026-11).
    """

    index: msgspec.Raw = msgspec.Raw(b"0")
    finish_reason: msgspec.Raw = _NOTHING


class _Delta(msgspec.Struct):
    """Anthropic's last delta of a message."""

    stop_reason: msgspec.Raw = _NOTHING


class AnswerFields(_Part):
    """The fields that are read of an answer or of an event.

    Attributes:
        message: The beginning of an Anthropic stream.
        response: The state of a Responses stream.
        x_groq: Object in which Groq puts the usage of a stream.
        timings: llama.cpp's report of the call.
        metrics: vLLM's report of the call.
        usage_metadata: Google's usage.
    """

    type: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING
    message: msgspec.Raw = _NOTHING
    response: msgspec.Raw = _NOTHING
    x_groq: msgspec.Raw = _NOTHING
    choices: msgspec.Raw = _NOTHING
    delta: msgspec.Raw = _NOTHING
    timings: msgspec.Raw = _NOTHING
    metrics: msgspec.Raw = _NOTHING
    usage_metadata: msgspec.Raw = msgspec.field(default=_NOTHING, name="usageMetadata")
    candidates: msgspec.Raw = _NOTHING
    response_id: msgspec.Raw = msgspec.field(default=_NOTHING, name="responseId")

    def usage_object(self) -> dict[str, Any] | None:
        """Its usage, by either name; None where it has none."""
        return _object(self.usage) or _object(self.usage_metadata)

    @property
    def kind(self) -> str | None:
        """Its type; None where it names none."""
        if self.type is _NOTHING or not _begins_with(self.type, b'"'):
            return None
        return _text(self.type)

    @property
    def is_error(self) -> bool:
        """True if it says that something went wrong."""
        if self.error is _NOTHING:
            return False
        size = len(memoryview(self.error))
        if not 0 < size <= _MAX_EMPTY_BYTES:
            return size > 0
        try:
            return bool(msgspec.json.decode(self.error))
        except UNREADABLE:
            return True

    def answer_id(self) -> str:
        """The answer's id, from the likeliest place; "" for none. ``x_groq`` has the request's."""
        if name := _text(self.id):
            return name
        for raw in (self.message, self.response):
            if (part := _part(raw)) is not None and (name := _text(part.id)):
                return name
        return _text(self.response_id)

    def parts(self) -> list[_Part]:
        """The objects that may carry usage; the last one's counts most."""
        inner = (self.message, self.response, self.x_groq)
        inner_parts = [] if inner == _NO_PARTS else [part for part in map(_part, inner) if part]
        return [*self._choices_with_usage(), *inner_parts, self]

    def _choices_with_usage(self) -> list[_Choice]:
        """The choices that ended with their usage; in generated text its marks would be escaped."""
        raw = bytes(self.choices)
        if raw.find(_USAGE) < 0 or not raw.startswith(b"[") or may_exceed(raw, MAX_OBJECTS):
            return []
        try:
            return [choice for choice in _choices(raw) if _text(choice.finish_reason)]
        except UNREADABLE:
            return []

    def engine_timings(self) -> EngineTimings | None:
        """The report of a self-hosted engine; None where there is none."""
        if self.timings is _NOTHING and self.metrics is _NOTHING:
            return None
        return read_timings(bytes(self.timings), bytes(self.metrics))

    def ended_choices(self) -> list[bytes]:
        """The indices of choices that say why they ended; Anthropic's answers have but one.

        Of more choices than are parsed one is told of, and as the first.
        """
        try:
            if _begins_with(self.delta, b"{") and _text(_delta(self.delta).stop_reason):
                return [b"0"]
            if _begins_with(self.candidates, b"["):
                return _ended_candidates(self.candidates)
            return _ended_choices(self.choices) if _begins_with(self.choices, b"[") else []
        except UNREADABLE:
            return []

    @property
    def has_failed(self) -> bool:
        """True if all of Google's candidates ended without an answer."""
        if not _begins_with(self.candidates, b"[") or may_exceed(
            bytes(self.candidates), MAX_OBJECTS
        ):
            return False
        try:
            reasons = [_text(candidate.finish_reason) for candidate in _candidates(self.candidates)]
        except UNREADABLE:
            return False
        return bool(reasons) and all(reason in FAILED_REASONS for reason in reasons)


class _Candidate(msgspec.Struct, rename="camel"):
    """One of Google's choices."""

    index: msgspec.Raw = msgspec.Raw(b"0")
    finish_reason: msgspec.Raw = _NOTHING


_decode: Final = msgspec.json.Decoder(AnswerFields).decode
_candidates: Final = msgspec.json.Decoder(list[_Candidate]).decode
_decode_part: Final = msgspec.json.Decoder(_Part).decode
_choices: Final = msgspec.json.Decoder(list[_Choice]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_delta: Final = msgspec.json.Decoder(_Delta).decode


def read_answer(data: bytes, *, max_repaired_bytes: int) -> AnswerFields | None:
    """The fields of an answer or of an event's data; None if it is no JSON object.

    Args:
        max_repaired_bytes: Bytes of what is read once more where it is only nearly JSON.
    """
    try:
        return _decode(data)
    except UNREADABLE:
        pass
    strict = to_strict_json(data) if len(data) <= max_repaired_bytes else None
    return _decode(strict) if strict is not None and strict[:1] == b"{" else None


def _ended_choices(raw: msgspec.Raw) -> list[bytes]:
    """The indices of choices that say why they ended."""
    if may_exceed(bytes(raw), MAX_OBJECTS):
        return [b"0"] if _END in bytes(raw) else []
    return [bytes(choice.index) for choice in _choices(raw) if _text(choice.finish_reason)]


def _ended_candidates(raw: msgspec.Raw) -> list[bytes]:
    """The indices of Google's candidates that say why they ended."""
    if may_exceed(bytes(raw), MAX_OBJECTS):
        return []
    return [
        bytes(candidate.index) for candidate in _candidates(raw) if _text(candidate.finish_reason)
    ]


def _part(value: msgspec.Raw) -> _Part | None:
    """An object's id, usage and tier; None where it is no object."""
    return _decode_part(value) if _begins_with(value, b"{") else None


def _object(value: msgspec.Raw) -> dict[str, Any] | None:
    """A short object, also one with numbers that none can hold; None where it is none."""
    if not _begins_with(value, b"{") or len(memoryview(value)) > _MAX_USAGE_BYTES:
        return None
    try:
        value_object: dict[str, Any] = msgspec.json.decode(value)
    except UNREADABLE:
        repaired = to_strict_json(bytes(value))
        return None if repaired is None else msgspec.json.decode(repaired)
    return value_object


def _text(value: msgspec.Raw) -> str:
    """A string; "" where it is none."""
    if not _begins_with(value, b'"'):
        return ""
    try:
        return _decode_text(value)
    except UNREADABLE:
        return ""


def _begins_with(value: msgspec.Raw, mark: bytes) -> bool:
    """True if the value is there and begins with this byte; most are absent from most events."""
    return value is not _NOTHING and memoryview(value)[:1] == mark
