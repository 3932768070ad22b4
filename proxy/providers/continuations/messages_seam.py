"""Answers of Anthropic's Messages that broke off, and the events that go on from them; pure.

Source: Anthropic, streaming messages (2026-11).
"""

from typing import Final

import msgspec

from proxy.providers.answers.usage import merge_usage
from proxy.providers.continuations.seam import (
    Json,
    Seam,
    SeamText,
    cannot_continue,
    checked_text,
    thinks_anew,
)
from proxy.providers.recalls.recall_filter import named_event, object_in, parse_object
from proxy.providers.sse import parse_events

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_THOUGHT_DELTAS: Final = frozenset({"thinking_delta", "signature_delta"})
_START, _DELTA, _STOP = "content_block_start", "content_block_delta", "content_block_stop"
_TEXT: Final = "text_delta"


class OpenMessage(msgspec.Struct, frozen=True):
    """A message that broke off in a block of text.

    Attributes:
        index: Number of that block.
    """

    text: str
    index: int

    def seam(self, *, echoes: bool) -> "MessagesSeam":
        """As ``OpenAnswer.seam``."""
        return MessagesSeam(self.index, SeamText(self.text, echoes=echoes))


def read_open_message(delivered: bytes) -> OpenMessage:
    """The answer in these events.

    Raises:
        ValueError: If it cannot be gone on from.
    """
    pieces: list[str] = []
    open_index: int | None = None
    for event in parse_events(delivered):
        block = parse_object(event.data) or {}
        kind, delta = block.get("type"), object_in(block, "delta")
        if kind == _START:
            start = object_in(block, "content_block")
            if start.get("type") not in _THINKING | {"text"}:
                raise cannot_continue()
            open_index = block.get("index") if start.get("type") == "text" else None
            pieces.append(str(start.get("text") or ""))
        elif kind == _DELTA and delta.get("type") == _TEXT:
            pieces.append(str(delta.get("text") or ""))
        elif kind == _STOP:
            open_index = None
        elif not _is_silent(kind, delta):
            raise cannot_continue()
    if not isinstance(open_index, int):
        raise cannot_continue()
    return OpenMessage(checked_text("".join(pieces)), open_index)


def _is_silent(kind: object, delta: Json) -> bool:
    """True for an event that says nothing that is gone on from."""
    is_thought = kind == _DELTA and delta.get("type") in _THOUGHT_DELTAS
    return is_thought or kind in {"message_start", "ping"}


class MessagesSeam(Seam):
    """Goes on with a message.

    Args:
        index: Number of the block of text that is open.
    """

    def __init__(self, index: int, text: SeamText) -> None:
        self._index = index
        self._text = text
        self._is_open = True
        self._next = index + 1
        self._numbers: dict[object, int] = {}
        self._usage: Json = {}

    def _feed_event(self, event: Json) -> bytes:
        kind = event.get("type")
        if kind == "message_start":
            merge_usage(self._usage, object_in(object_in(event, "message"), "usage"))
            return b""
        if kind == _START:
            return self._begin_block(event)
        if kind in {_DELTA, _STOP}:
            return self._feed_block_event(event)
        if kind == "message_delta":
            merge_usage(self._usage, object_in(event, "usage"))
            return self._close() + named_event({**event, "usage": self._usage})
        return named_event(event)

    def _begin_block(self, event: Json) -> bytes:
        """The caller's part of a block's start: the first text belongs to the open block."""
        index, block = event.get("index"), object_in(event, "content_block")
        if block.get("type") in _THINKING:
            raise thinks_anew()
        if block.get("type") == "text" and self._is_open and not self._numbers:
            self._numbers[index] = self._index
            return self._text_event(self._text.feed(str(block.get("text") or "")))
        closing = self._close()
        self._numbers[index], self._next = self._next, self._next + 1
        return closing + named_event({**event, "index": self._numbers[index]})

    def _feed_block_event(self, event: Json) -> bytes:
        """The caller's part of an event within a block, or of its end."""
        number = self._numbers.get(event.get("index"), self._index)
        is_merged = number == self._index
        if is_merged and event.get("type") == _STOP:
            return self._close()
        delta = object_in(event, "delta")
        if is_merged and delta.get("type") == _TEXT:
            return self._text_event(self._text.feed(str(delta.get("text") or "")))
        return named_event({**event, "index": number})

    def _close(self) -> bytes:
        """The end of the open block; b"" where it has ended."""
        if not self._is_open:
            return b""
        held = self._text_event(self._text.end())
        self._is_open = False
        return held + named_event({"type": _STOP, "index": self._index})

    def _text_event(self, text: str) -> bytes:
        if not text:
            return b""
        delta = {"type": _TEXT, "text": text}
        return named_event({"type": _DELTA, "index": self._index, "delta": delta})
