"""Answers of OpenAI's Responses that broke off, and the events that go on from them; pure.

Source: OpenAI API reference, Responses, streaming events (2026-11).
"""

from typing import Any, Final

import msgspec

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

_OPENINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_PART_ADDED, _PART_DONE = "response.content_part.added", "response.content_part.done"
_DELTA, _TEXT_DONE = "response.output_text.delta", "response.output_text.done"
_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_REASONING: Final = "reasoning"
_NAMES: Final = ("id", "created_at")


class OpenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response that broke off in the text of a message.

    Attributes:
        names: Id and time of the response.
        item: The message, as it began.
        index: Its place in the output.
        part: The part of its content that is open, as it began.
        output: The items before it, whole.
        number: Number of the next event.
    """

    text: str
    names: Json
    item: Json
    index: int
    part: Json
    output: list[Json]
    number: int

    def seam(self, *, echoes: bool) -> "ResponsesSeam":
        """As ``OpenAnswer.seam``."""
        return ResponsesSeam(self, SeamText(self.text, echoes=echoes))


class _Reading:
    """The events of a response as far as they came."""

    def __init__(self) -> None:
        self.names: Json = {}
        self.added: Json = {}
        self.part: Json = {}
        self.output: list[Json] = []
        self.pieces: list[str] = []
        self.number = 0

    def read(self, event: Json) -> None:
        """Take note of an event.

        Raises:
            ValueError: If an answer with it cannot be gone on from.
        """
        kind = str(event.get("type"))
        if isinstance(number := event.get("sequence_number"), int):
            self.number = number + 1
        if kind in _OPENINGS:
            response = object_in(event, "response")
            self.names = {name: response[name] for name in _NAMES if name in response}
        elif kind == _ADDED and not self.part:
            self._add(event)
        elif kind == _DONE and object_in(event, "item").get("type") == _REASONING:
            self.output.append(object_in(event, "item"))
            self.added = {}
        elif kind == _PART_ADDED and self._is_message and not event.get("content_index"):
            self._begin_part(object_in(event, "part"))
        elif kind == _DELTA and self.part:
            self.pieces.append(str(event.get("delta") or ""))
        elif not kind.startswith("response.reasoning"):
            raise cannot_continue()

    @property
    def _is_message(self) -> bool:
        return object_in(self.added, "item").get("type") == "message" and not self.part

    def _add(self, event: Json) -> None:
        if object_in(event, "item").get("type") not in {_REASONING, "message"}:
            raise cannot_continue()
        self.added = event

    def _begin_part(self, part: Json) -> None:
        if part.get("type") != "output_text":
            raise cannot_continue()
        self.part = part


def read_open_response(delivered: bytes) -> OpenResponse:
    """The answer in these events.

    Raises:
        ValueError: If it cannot be gone on from.
    """
    reading = _Reading()
    for event in parse_events(delivered):
        reading.read(parse_object(event.data) or {})
    index = reading.added.get("output_index")
    if not reading.part or not isinstance(index, int):
        raise cannot_continue()
    return OpenResponse(
        text=checked_text("".join(reading.pieces)),
        names=reading.names,
        item=object_in(reading.added, "item"),
        index=index,
        part=reading.part,
        output=reading.output,
        number=reading.number,
    )


class ResponsesSeam(Seam):
    """Goes on with a response."""

    def __init__(self, answer: OpenResponse, text: SeamText) -> None:
        self._answer = answer
        self._text = text
        self._all_text = [answer.text]
        self._output = list(answer.output)
        self._number = answer.number
        self._is_open = True
        self._next = answer.index + 1
        self._places: dict[object, int] = {}

    def _feed_event(self, event: Json) -> bytes:
        kind = event.get("type")
        if kind in _OPENINGS:
            return b""
        if kind in _LAST:
            return self._feed_end(event)
        return self._feed_part(event) if "output_index" in event else self._frame(event)

    def _feed_part(self, event: Json) -> bytes:
        """The caller's part of an event of an item."""
        kind = event.get("type")
        if kind == _ADDED:
            return self._begin_item(event)
        if self._places.get(event["output_index"]) == self._answer.index:
            return self._feed_merged(event)
        if kind == _DONE:
            self._output.append(object_in(event, "item"))
        return self._frame({**event, "output_index": self._place(event)})

    def _begin_item(self, event: Json) -> bytes:
        """The caller's part of an item's start: the first message belongs to the open one."""
        item, index = object_in(event, "item"), event["output_index"]
        if item.get("type") == _REASONING:
            raise thinks_anew()
        if item.get("type") == "message" and self._is_open and not self._places:
            self._places[index] = self._answer.index
            return b""
        closing = self._close({})
        self._places[index], self._next = self._next, self._next + 1
        return closing + self._frame({**event, "output_index": self._place(event)})

    def _place(self, event: Json) -> int:
        return self._places.get(event["output_index"], self._answer.index)

    def _feed_merged(self, event: Json) -> bytes:
        """The caller's part of an event of the message that goes on."""
        kind = event.get("type")
        if kind == _DELTA:
            return self._delta(self._text.feed(str(event.get("delta") or "")))
        if kind == _DONE:
            return self._close(object_in(event, "item"))
        is_done = kind in {_PART_ADDED, _PART_DONE, _TEXT_DONE}
        place = {"item_id": self._answer.item.get("id"), "output_index": self._answer.index}
        return b"" if is_done else self._frame({**event, **place})

    def _close(self, ended: Json) -> bytes:
        """The end of the open message; b"" where it has ended.

        Args:
            ended: The item of the part that went on, whole; {} for none.
        """
        if not self._is_open:
            return b""
        held = self._delta(self._text.end())
        self._is_open = False
        text = "".join(self._all_text)
        part = {**self._answer.part, "text": text}
        item = {"status": "completed", **ended, "id": self._answer.item.get("id")}
        item = {**self._answer.item, **item, "content": [part]}
        if item["status"] == "in_progress":
            item["status"] = "completed"
        self._output.append(item)
        place = {**self._text_place, "content_index": 0}
        return (
            held
            + self._frame({"type": _TEXT_DONE, **place, "text": text, "logprobs": []})
            + self._frame({"type": _PART_DONE, **place, "part": part})
            + self._frame({"type": _DONE, "output_index": self._answer.index, "item": item})
        )

    @property
    def _text_place(self) -> Json:
        return {"item_id": self._answer.item.get("id"), "output_index": self._answer.index}

    def _delta(self, text: str) -> bytes:
        if not text:
            return b""
        self._all_text.append(text)
        place = {**self._text_place, "content_index": 0}
        return self._frame({"type": _DELTA, **place, "delta": text, "logprobs": []})

    def _feed_end(self, event: Json) -> bytes:
        """The caller's part of the event that ends the response, which holds all of it."""
        closing = self._close({})
        response = object_in(event, "response")
        response |= self._answer.names
        response["output"] = self._output
        return closing + self._frame({**event, "response": response})

    def _frame(self, event: dict[str, Any]) -> bytes:
        """An event as bytes, the next of the stream."""
        number, self._number = self._number, self._number + 1
        return named_event({**event, "sequence_number": number})
