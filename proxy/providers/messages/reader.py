"""Chat answers, whole or streamed, as Anthropic's; around whatever reader makes the chat.

::

    first chunk                message_start
    reasoning, words, calls    content_block_start ─ content_block_delta … ─ content_block_stop
    a comment                  ping, as after the first content_block_start; before: a comment
    [DONE]                     message_delta with stop reason and usage ─ message_stop
    an error                   error; nothing follows

Source: Anthropic, streaming messages (2026-11).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.answers.google_finish import failed_chat_finish
from proxy.providers.answers.usage import believable_usage, merge_usage
from proxy.providers.chat.chat_chunk import ChatChoice, Chunk, read_chunk
from proxy.providers.chat.message_order import in_order
from proxy.providers.failures import failure_of_object
from proxy.providers.lenient import UNREADABLE
from proxy.providers.messages.answer import (
    Ending,
    messages_counts,
    opening_message,
)
from proxy.providers.messages.blocks import Event
from proxy.providers.messages.names import message_id
from proxy.providers.messages.output import MessageOutput
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.port import Reader
from proxy.providers.readers import InnerReader
from proxy.providers.sse import parse_blocks
from proxy.providers.stream_endings import error_event, malformed_answer, truncated_stream

_DONE: Final = b"[DONE]"
_PING: Final[Event] = {"type": "ping"}
#: Before the message begins, when clients expect no event.
_AWAKE: Final = b": ping\n\n"


def messages_reader(inner: Reader, settings: AnswerSettings, *, streamed: bool) -> Reader:
    """A reader that gives Messages bytes where ``inner`` gives chat bytes.

    Args:
        inner: Turns the upstream's bytes into chat's.
    """
    return MessageStream(inner, settings) if streamed else WholeMessage(inner, settings)


class _Message:
    """One answer while it unfolds; a whole completion unfolds in one piece."""

    def __init__(self, settings: AnswerSettings) -> None:
        self.ending = Ending()
        self.answered = False
        self.output = MessageOutput(settings, settings.digest)
        self.name = ""
        self._settings = settings
        self._usage: dict[str, object] = {}
        self._tier: str | None = None

    def take(self, answer: Chunk) -> Iterator[Event]:
        """The events of a chunk or of a completion."""
        yield from self.begin(answer.id or "")
        if isinstance(answer.usage, dict):
            merge_usage(self._usage, answer.usage)
        self._tier = answer.service_tier or self._tier
        for choice in answer.choices or ():
            if choice.index == 0:
                yield from self._gain(choice)

    def begin(self, chat_id: str) -> Iterator[Event]:
        """The event that opens the message, once."""
        if self.name:
            return
        tail = chat_id.removeprefix("chatcmpl-") or self._settings.digest
        self.name = message_id(tail)
        self.output = MessageOutput(self._settings, tail)
        yield {"type": "message_start", "message": self._opening()}

    def end(self) -> Iterator[Event]:
        """The events of a good end."""
        yield from self.output.end()
        yield {"type": "message_delta", "delta": self._final_delta(), "usage": self._counts()}
        yield {"type": "message_stop"}

    def whole(self) -> dict[str, object]:
        """The message object, once it has ended."""
        opened = self._opening()
        ended = {"content": self.output.content(), "usage": self._counts()}
        return opened | ended | self._final_delta()

    def _gain(self, choice: ChatChoice) -> Iterator[Event]:
        self.answered = True
        if (failure := failed_chat_finish(choice.finish_reason)) is not None:
            raise failure
        self.ending.finish = choice.finish_reason or self.ending.finish
        if isinstance(choice.stop_reason, str) and choice.stop_reason in self._settings.stops:
            self.ending.stop = choice.stop_reason
        whole = () if choice.message is None else in_order(choice.message)
        for delta in whole if choice.delta is None else (choice.delta,):
            yield from self.output.gain(delta)

    def _final_delta(self) -> dict[str, object]:
        return self.ending.delta(calls=self.output.calls_tools, refused=self.output.refused)

    def _opening(self) -> dict[str, object]:
        settings = self._settings
        return opening_message(self.name, settings.model, settings.prompt_tokens)

    def _counts(self) -> dict[str, object]:
        """The upstream's usage; estimated where it reports none, so that callers' meters run."""
        counts = messages_counts(self._usage, self._tier)
        if any(self._usage.values()) and believable_usage(self._usage) is not None:
            return counts
        prompt, generated = self._settings.prompt_tokens, self.output.estimated_tokens
        return counts | {"input_tokens": prompt, "output_tokens": generated}


class WholeMessage(InnerReader):
    """A chat completion in one piece as a message in one piece."""

    def __init__(self, inner: Reader, settings: AnswerSettings) -> None:
        super().__init__(inner)
        self._settings = settings

    def _translate(self, run: bytes) -> bytes:
        if not run:
            return b""
        try:
            answer = read_chunk(run)
        except UNREADABLE:
            raise malformed_answer() from None
        if answer.error is not None:
            raise failure_of_object(answer.error)
        message = _Message(self._settings)
        for events in (message.take(answer), message.end()):
            for _ in events:
                pass  # the events build the message
        if not message.answered:
            raise malformed_answer()
        return msgspec.json.encode(message.whole())


class MessageStream:
    """Chat chunks as the events of one message."""

    def __init__(self, inner: Reader, settings: AnswerSettings) -> None:
        self._inner = inner
        self._message = _Message(settings)
        self._has_ended = False
        self._has_pinged = False
        self._unread: UpstreamError | None = None

    def feed(self, piece: bytes) -> bytes:
        """The events that these chunks mean; b"" once the stream has ended."""
        return self._translate(self._inner.feed(piece))

    def end(self) -> bytes:
        """The events that were still missing at the end."""
        last = self._translate(self._inner.end())
        if not self._has_ended and self._unread is None:
            if self._message.ending.finish is None:
                self._unread = truncated_stream()
            else:
                last += self._finish()
        if self._unread is not None:
            self._unread.stream_ending = last + error_event("messages", self._unread)
            raise self._unread
        return last

    def _translate(self, run: bytes) -> bytes:
        written = []
        for event in parse_blocks(run):
            if self._has_ended or self._unread is not None:
                break
            try:
                written.append(self._ping() if event is None else self._read(event.data))
            except UNREADABLE:
                self._unread = malformed_answer()
            except UpstreamError as error:
                self._unread = error
        events = b"".join(written)
        if self._unread is not None and not events:
            raise self._unread
        return events

    def _ping(self) -> bytes:
        return self._frame(_PING) if self._message.name else _AWAKE

    def _read(self, data: bytes) -> bytes:
        if data == _DONE:
            return self._finish()
        answer = read_chunk(data)
        if answer.error is not None:
            self._has_ended = True
            return error_event("messages", failure_of_object(answer.error))
        return self._frame_all(self._message.take(answer))

    def _finish(self) -> bytes:
        """The end that the upstream calls a good one; it is none if it has not answered."""
        if not self._message.answered:
            raise malformed_answer()
        events = self._frame_all(self._message.end())
        self._has_ended = self._unread is None
        return events

    def _frame_all(self, events: Iterator[Event]) -> bytes:
        """The events as bytes, those before a failure too."""
        framed: list[bytes] = []
        try:
            framed.extend(map(self._frame, events))
        except UpstreamError as error:
            self._unread = error
        return b"".join(framed)

    def _frame(self, event: Event) -> bytes:
        kind: str = event["type"]
        framed = b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(event))
        if kind == "content_block_start" and not self._has_pinged:
            self._has_pinged = True
            return framed + self._frame(_PING)
        return framed
