"""Meters an answer's usage from the upstream's own bytes as they pass.

::

    upstream's bytes ──┬── reader ──▶ caller
                       └── Meter.feed

A chunk of a stream is parsed only if it may tell something: usage, an id, an error, the end. What
looks like it inside generated text is not believed, for only the places of the wire are read.
Usage may come anywhere and more than once; what comes later replaces what it names anew.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from proxy.prefix.explain.diagnostics import provider_reason
from proxy.prefix.explain.reasons import ProviderReason
from proxy.providers.generated_text import Place, answer_pieces, has_content, stream_pieces
from proxy.providers.json_size import MAX_ANSWER, ends_of, may_exceed
from proxy.providers.lenient import to_strict_json
from proxy.providers.sse import ServerSentEvent, parse_events
from proxy.providers.usage import merge_usage
from slo.usage import Usage

_Scalar = str | int | float | bool | list[msgspec.Raw] | None


class _Part(msgspec.Struct):
    """An object inside an answer that may carry its id, its usage or its service tier."""

    id: Any = None
    usage: Any = None
    service_tier: Any = None


class _Answer(_Part):
    """The places of an answer or an event that are read; all others are skipped unparsed.

    Attributes:
        message: The beginning of an Anthropic stream.
        response: The state of a Responses stream.
        x_groq: Where Groq puts the usage of a stream.
    """

    type: Any = None
    error: Any = None
    message: _Part | _Scalar = None
    response: _Part | _Scalar = None
    x_groq: _Part | _Scalar = None

    def answer_id(self) -> str:
        """The answer's id, from the likeliest place; "" for none. ``x_groq`` has the request's."""
        for part in (self, self.message, self.response):
            if isinstance(part, _Part) and isinstance(part.id, str) and part.id:
                return part.id
        return ""

    def parts(self) -> list[_Part]:
        """The objects that may carry usage; the last one's counts most."""
        inner = (self.message, self.response, self.x_groq)
        return [*(part for part in inner if isinstance(part, _Part)), self]


_DECODER: Final = msgspec.json.Decoder(_Answer)

#: Source: OpenAI API reference and Anthropic, streaming messages (2026-11).
_LAST_EVENTS: Final = frozenset(
    {
        "image_edit.completed",
        "image_generation.completed",
        "message_stop",
        "response.completed",
        "response.failed",
        "response.incomplete",
        "speech.audio.done",
        "transcript.text.done",
    }
)
#: What the last event of a stream holds, by what the types of its events begin with.
_END_MARKS: Final = {
    "image_edit": b"image_edit.completed",
    "image_generation": b"image_generation.completed",
    "message_start": b"message_stop",
    "response": b'"response"',
    "speech": b"speech.audio.done",
    "transcript": b"transcript.text.done",
}
_FAILURE_EVENTS: Final = frozenset({"error", "response.failed"})
#: Bytes of an event that is read once more where it is only nearly JSON.
_MAX_REPAIRED_EVENT_BYTES: Final = 64 * 1024
#: How many events are asked for the answer's id; some upstreams leave it out of the first.
_MAX_EVENTS_ASKED_FOR_ID: Final = 8
#: Why an answer ended; inside generated text its quotation marks would be escaped.
_STOP_REASON: Final = re.compile(rb'"(?:finish|stop)_reason"\s*:\s*"')


class Meter:
    """Watches one answer go by.

    Attributes:
        has_begun: Whether an event came with content, or one that says why there is none.
        is_finished: Whether the upstream said that the answer is complete.
        is_broken: Whether it said that something went wrong; what it says after that is not read.
        has_final_usage: Whether it said in the same breath what was used.
        upstream_id: The provider's own id of the answer; "" while none was seen.
        service_tier: The tier that served the answer, as the upstream names it; "" if it did not.
        miss_reason: The provider's own reason why its cache missed; None where it gave none.
        unkept_bytes: Bytes that passed after the bound and are missing from ``delivered_text``.
        is_unreadable: Whether something that was read should have been a JSON object and was none.
    """

    __slots__ = (
        "_buckets",
        "_end",
        "_found",
        "_kept",
        "_room",
        "_streamed",
        "_to_ask",
        "_usage",
        "has_begun",
        "has_final_usage",
        "is_broken",
        "is_finished",
        "is_unreadable",
        "miss_reason",
        "service_tier",
        "unkept_bytes",
        "upstream_id",
    )

    def __init__(
        self,
        read: Callable[[Mapping[str, Any]], Usage | None],
        *,
        streamed: bool,
        bound: int = 4 * 1024 * 1024,
    ) -> None:
        self._usage = read
        self._streamed = streamed
        self._room = bound
        self._kept: list[bytes] = []
        self._found: dict[str, Any] = {}
        self._buckets: Usage | None = None
        self._to_ask = _MAX_EVENTS_ASKED_FOR_ID
        self._end = b"[DONE]"
        self.has_begun = False
        self.is_finished = False
        self.is_broken = False
        self.has_final_usage = False
        self.upstream_id = ""
        self.service_tier = ""
        self.miss_reason: ProviderReason | None = None
        self.unkept_bytes = 0
        self.is_unreadable = False

    def feed(self, run: bytes) -> None:
        """Take note of a run of whole events, or of the one body that is not a stream."""
        size = len(run)
        if size <= self._room:
            self._room -= size
            self._kept.append(run)
        else:
            self.unkept_bytes += size
        if (
            self._to_ask
            or not self.has_begun
            or self._end in run
            or b"error" in run
            or run.count(b'"usage"') != run.count(b'"usage":null')
        ):
            self._look(run)

    def feed_ends(self, body: bytes) -> None:
        """Take note of a body that takes too long to parse: of its id and usage alone."""
        ends = ends_of(body)
        self.unkept_bytes += len(body) - len(ends)
        if ends:
            self.feed(ends)
        else:
            self.is_unreadable = self.has_begun = self.is_finished = True

    @property
    def usage(self) -> Usage | None:
        """The usage reported so far; None if none was."""
        if self._buckets is None and self._found:
            self._buckets = self._usage(self._found)
        return self._buckets

    @property
    def usage_object(self) -> Mapping[str, Any]:
        """The usage object as the upstream wrote it; empty if it has said nothing."""
        return self._found

    @property
    def is_complete(self) -> bool:
        """True if the answer has its end: some upstreams say why they stop, but not that they have.

        True where the end was not kept, for want of better knowledge.
        """
        return bool(
            self.is_finished
            or self.unkept_bytes
            or any(map(_STOP_REASON.search, reversed(self._kept)))
        )

    @property
    def has_exact_usage(self) -> bool:
        """True if what was used was said with the answer's end, good or bad, and may be true."""
        return self.has_final_usage and not self.has_implausible_usage

    @property
    def has_implausible_usage(self) -> bool:
        """True if the usage cannot be true: text came, but no tokens were generated or sent.

        Such a usage is a placeholder, as good as missing: estimate instead.
        """
        usage = self.usage
        if usage is None or (usage.generated_tokens and usage.prompt_tokens):
            return False
        return any(True for _ in self._pieces())

    def delivered_text(self) -> str:
        """The text generated so far, one line for each part of the answer.

        It parses all that was kept, so it belongs on a worker thread once an answer is long.
        Reasoning that the upstream hides is not in it.
        """
        parts: dict[Place, list[str]] = {}
        for place, piece in self._pieces():
            parts.setdefault(place, []).append(piece)
        return "\n".join("".join(pieces) for pieces in parts.values())

    def _pieces(self) -> Iterator[tuple[Place, str]]:
        pieces = stream_pieces if self._streamed else answer_pieces
        for run in self._kept:
            yield from pieces(run)

    def _look(self, run: bytes) -> None:
        if not self._streamed:
            self._note(ServerSentEvent(name="", data=run))
            self.has_final_usage = bool(self._found)
            self.is_finished = self.has_begun and not self.is_broken
            return
        for event in parse_events(run):
            if self.is_broken:
                return
            if event.data == b"[DONE]":
                self.is_finished = True
                self.has_begun = (
                    self.has_begun or self._to_ask < _MAX_EVENTS_ASKED_FOR_ID
                )  # empty, but whole
            else:
                self._note(event)

    def _note(self, event: ServerSentEvent) -> None:
        """Take over what one event says; data that is no JSON object only begins the answer."""
        is_dense = self._streamed and may_exceed(event.data, MAX_ANSWER)
        if is_dense:
            event = ServerSentEvent(name=event.name, data=ends_of(event.data))
        answer = _read(event.data, most=_MAX_REPAIRED_EVENT_BYTES if self._streamed else 0)
        if answer is None:
            self.is_unreadable = True
            answer = _Answer()
        kind = answer.type if isinstance(answer.type, str) else event.name
        wrong = bool(answer.error) or kind in _FAILURE_EVENTS or event.name == "error"
        self.is_finished = self.is_finished or kind in _LAST_EVENTS
        if wrong:
            self._note_failure(answer)
        elif kind != "ping":
            if self._to_ask:
                self._note_opening(kind, answer)
            is_certain = self.has_begun or is_dense or not self._streamed
            self.has_begun = is_certain or has_content(kind, event.data)
        self._note_usage(answer)
        self.miss_reason = provider_reason(event.data) or self.miss_reason

    def _note_usage(self, answer: _Answer) -> None:
        """Take over what was used, and how it was served."""
        for part in answer.parts():
            if isinstance(part.usage, dict):
                if self._found:
                    merge_usage(self._found, part.usage)
                else:
                    self._found = part.usage
                self._buckets = None
            if isinstance(part.service_tier, str):
                self.service_tier = part.service_tier

    def _note_failure(self, answer: _Answer) -> None:
        """Take over what is said of a failure."""
        self.is_broken = True
        self.has_final_usage = any(isinstance(part.usage, dict) for part in answer.parts())
        self.upstream_id = self.upstream_id or answer.answer_id()[:256]

    def _note_opening(self, kind: str, answer: _Answer) -> None:
        """Learn from one of the first events the answer's id, and what the last one will hold."""
        self._end = _END_MARKS.get(kind.partition(".")[0], self._end)
        self.upstream_id = answer.answer_id()[:256]
        self._to_ask = 0 if self.upstream_id else self._to_ask - 1


def _read(data: bytes, *, most: int) -> _Answer | None:
    """The fields of an event's data; None if it is no JSON object.

    Args:
        data: The event's.
        most: Bytes of what is read once more where it is only nearly JSON.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    found = to_strict_json(data) if len(data) <= most else None
    return _DECODER.decode(found) if found is not None and found[:1] == b"{" else None
