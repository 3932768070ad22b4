"""Meters an answer's usage from the upstream's own bytes as they pass.

::

    upstream's bytes ──┬── reader ──▶ caller
                       └── Meter.feed

A chunk of a stream is parsed only if it may hold usage, an id, an error or the end. Only the wire's
own fields are read, so a lookalike inside generated text does not count. Usage may come anywhere
and more than once; a later count replaces the earlier one of its name.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from proxy.calls.metering.kept_answer import KeptAnswer
from proxy.prefix.explain.reasons import ProviderReason, provider_reason
from proxy.providers.answers.answer_fields import AnswerFields, read_answer
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.providers.answers.generated_text import has_content
from proxy.providers.answers.usage import merge_usage
from proxy.providers.json_size import MAX_ANSWER, ends_of, may_exceed
from proxy.providers.sse import ServerSentEvent, parse_event, to_line_feeds
from slo.usage import Usage

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
#: Marks in the last event of a stream, by the prefix of its event types.
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
#: Most events searched for the answer's id; some upstreams leave it out of the first.
_MAX_EVENTS_ASKED_FOR_ID: Final = 8
#: Events without content that begin an answer all the same: some models write tokens without text,
#: and their stream is not held back until it ends. An opening has fewer.
_MAX_EMPTY_EVENTS: Final = 16
#: Bytes of a run that are searched at once, up to the end of their last event.
_PART_BYTES: Final = 2048
#: Choices whose ends are remembered: more than any provider generates in one call.
_MAX_ENDED_CHOICES: Final = 1024


class Meter:
    """Watches one answer go by.

    Attributes:
        has_begun: True if an event came with content, one that says why there is none, or many
            events without.
        is_finished: True if the upstream said that the answer is complete.
        is_broken: True if it said that something went wrong; what it says after that is not read.
        has_final_usage: True if it said in the same breath what was used.
        upstream_id: The provider's own id of the answer; "" while none was seen.
        service_tier: The tier that served the answer, as the upstream names it; "" if it did not.
        miss_reason: The provider's own reason why its cache missed; None where it gave none.
        timings: A self-hosted engine's report of the call; None where it gave none.
        is_unreadable: True if something that was read should have been a JSON object and was none.
    """

    __slots__ = (
        "_buckets",
        "_empty_events",
        "_end",
        "_ended_choices",
        "_ended_choices_at_usage",
        "_found",
        "_has_text",
        "_kept",
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
        "timings",
        "upstream_id",
    )

    def __init__(
        self,
        read: Callable[[Mapping[str, Any]], Usage | None],
        *,
        streamed: bool,
        has_text: bool = True,
        bound: int = 4 * 1024 * 1024,
    ) -> None:
        """Begin to watch.

        Args:
            has_text: True if text is generated; embeddings are none.
            bound: Bytes that are kept to count them.
        """
        self._usage = read
        self._has_text = has_text
        self._streamed = streamed
        self._kept = KeptAnswer(streamed=streamed, bound=bound)
        self._found: dict[str, Any] = {}
        self._buckets: Usage | None = None
        self._to_ask = _MAX_EVENTS_ASKED_FOR_ID
        self._empty_events = 0
        self._end = b"[DONE]"
        self._ended_choices: set[bytes] = set()
        self._ended_choices_at_usage = 0
        self.has_begun = False
        self.is_finished = False
        self.is_broken = False
        self.has_final_usage = False
        self.upstream_id = ""
        self.service_tier = ""
        self.miss_reason: ProviderReason | None = None
        self.timings: EngineTimings | None = None
        self.is_unreadable = False

    def feed(self, run: bytes) -> None:
        """Take note of a run of whole events, or of the one body that is not a stream."""
        self._kept.add(run)
        if not self._may_matter(run):
            return
        if self._streamed:
            self._note_run(run)
        else:
            self._note_whole(run)

    def feed_part(self, run: bytes) -> None:
        """Take note of a part of an event that is too large to be read: of its text alone."""
        self._kept.add(run)
        self.is_unreadable = self.has_begun = True

    def feed_ends(self, body: bytes) -> None:
        """Take note of a body that takes too long to parse: of its id and usage alone."""
        ends = ends_of(body)
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

        Of several choices one has to have its end; use ``has_ended`` where that is not enough.
        """
        return self.is_finished or bool(self._ended_choices)

    def has_ended(self, choices: int | None) -> bool:
        """True if the upstream generates nothing more, and what it did is known as well as ever.

        That is where it said so, or where usage came with the last choice's end or after it. Before
        that nobody knows how much was reasoned out of sight.

        Args:
            choices: As many as were asked for; None where unknown.
        """
        return self.is_finished or bool(
            choices is not None
            and self._ended_choices_at_usage >= choices
            and not self.has_implausible_usage
        )

    @property
    def has_exact_usage(self) -> bool:
        """True if usage came with the answer's end, good or bad, and is plausible."""
        return self.has_final_usage and self.usage is not None and not self.has_implausible_usage

    @property
    def has_impossible_usage(self) -> bool:
        """True if usage came of which nothing can be believed."""
        return bool(self._found) and self.usage is None

    @property
    def has_implausible_usage(self) -> bool:
        """True if the usage cannot be true: text came, but no tokens were generated or sent.

        Such a usage is a placeholder, as good as missing: estimate instead. What takes long to look
        through is taken to have text.
        """
        usage = self.usage
        if usage is None or (usage.generated_tokens and usage.prompt_tokens):
            return False
        if not self._has_text:
            return False
        return self._kept.may_have_text

    def delivered_text(self) -> str:
        """The text generated so far, one line for each part of the answer.

        It parses all that was kept, so it belongs on a worker thread once an answer is long.
        Reasoning that the upstream hides is not in it.
        """
        return self._kept.text()

    def begun_choices(self) -> int:
        """Choices that began, by the stream's first events; 0 for an answer that is no stream."""
        return self._kept.begun_choices()

    def assistant_message(self, max_bytes: int) -> bytes | None:
        """The answer's message as its caller will send it back; None where it is not all known.

        Args:
            max_bytes: Longer answers are not put together.
        """
        return None if self.is_unreadable else self._kept.assistant_message(max_bytes)

    def output_items(self, max_bytes: int) -> bytes | None:
        """The items of a Responses answer as its caller will send them back, as a JSON list.

        Args:
            max_bytes: Longer answers are not read again.
        """
        return None if self.is_unreadable else self._kept.output_items(max_bytes)

    def _note_whole(self, body: bytes) -> None:
        """Note the fields of the one body that is not a stream."""
        self._note_event(ServerSentEvent(name="", data=body))
        self.has_final_usage = bool(self._found)
        self.is_finished = self.has_begun and not self.is_broken

    def _note_run(self, run: bytes) -> None:
        """Note the events of a run that may matter; most parts of a run have none."""
        run = to_line_feeds(run)
        start = 0
        while start < len(run):
            is_opening = self._to_ask > 0 or not self.has_begun
            end = run.find(b"\n\n", start if is_opening else start + _PART_BYTES) + 2
            part = run[start : end if end > 1 else None]
            start += len(part)
            if self._may_matter(part):
                self._note_part(part)

    def _note_part(self, part: bytes) -> None:
        for block in part.split(b"\n\n"):
            if self.is_broken:
                return
            event = parse_event(block) if self._may_matter(block) else None
            if event is None:
                continue
            if event.data == b"[DONE]":
                self.is_finished = True
                self.has_begun = (
                    self.has_begun or self._to_ask < _MAX_EVENTS_ASKED_FOR_ID
                )  # empty, but whole
            else:
                self._note_event(event)

    def _may_matter(self, text: bytes) -> bool:
        """True if a run or an event may hold more than generated text, by a look at its bytes.

        Where bytes are searched, CPython 3.11 raises an exception of its own for each `in`.
        """
        return (
            self._to_ask > 0
            or not self.has_begun
            or text.find(self._end) >= 0
            or text.find(b"error") >= 0
            or text.count(b'"usage') != text.count(b'"usage":null')
            or text.count(b'_reason"') != text.count(b'_reason":null')
        )

    def _note_event(self, event: ServerSentEvent) -> None:
        """Note the fields of one event; data that is no JSON object only begins the answer."""
        is_dense = self._streamed and may_exceed(event.data, MAX_ANSWER)
        if is_dense:
            event = ServerSentEvent(name=event.name, data=ends_of(event.data))
        repaired = _MAX_REPAIRED_EVENT_BYTES if self._streamed else 0
        answer = read_answer(event.data, max_repaired_bytes=repaired)
        if answer is None:
            self.is_unreadable = True
            answer = AnswerFields()
        is_googles_end = event.data.find(b'"finishReason"') >= 0
        if self._streamed and (is_googles_end or _has_stop_reason(event.data)):
            ended = islice(answer.ended_choices(), _MAX_ENDED_CHOICES - len(self._ended_choices))
            self._ended_choices.update(ended)
        kind = answer.kind
        kind = event.name if kind is None else kind
        wrong = answer.is_error or kind in _FAILURE_EVENTS or event.name == "error"
        wrong = wrong or (self._streamed and is_googles_end and answer.has_failed)
        self.is_finished = self.is_finished or kind in _LAST_EVENTS
        if wrong:
            self._note_failure(answer)
        elif kind != "ping":
            if self._to_ask:
                self._note_opening(kind, answer)
            is_certain = self.has_begun or is_dense or not self._streamed
            is_certain = is_certain or self._empty_events == _MAX_EMPTY_EVENTS
            self.has_begun = is_certain or has_content(kind, event.data)
            self._empty_events += not self.has_begun
        self._note_usage(answer)
        self.miss_reason = provider_reason(event.data) or self.miss_reason

    def _note_usage(self, answer: AnswerFields) -> None:
        """Take over what was used, and how it was served."""
        for part in answer.parts():
            if (usage := part.usage_object()) is not None:
                if self._found:
                    merge_usage(self._found, usage)
                else:
                    self._found = usage
                self._buckets = None
                self._ended_choices_at_usage = len(self._ended_choices)
            self.service_tier = part.tier() or self.service_tier
        self.timings = answer.engine_timings() or self.timings

    def _note_failure(self, answer: AnswerFields) -> None:
        """Note the error of a failure."""
        self.is_broken = True
        self.has_final_usage = any(part.usage_object() is not None for part in answer.parts())
        self.upstream_id = self.upstream_id or answer.answer_id()[:256]

    def _note_opening(self, kind: str, answer: AnswerFields) -> None:
        """Learn from one of the first events the answer's id, and what the last one will hold."""
        self._end = _END_MARKS.get(kind.partition(".")[0], self._end)
        self.upstream_id = answer.answer_id()[:256]
        self._to_ask = 0 if self.upstream_id else self._to_ask - 1


def _has_stop_reason(run: bytes) -> bool:
    """True if a run may say why a choice ended; most runs say that it has not."""
    return run.count(b'_reason"') != run.count(b'_reason":null')
