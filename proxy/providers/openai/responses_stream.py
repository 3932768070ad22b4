"""The events of a Responses stream as chat completion chunks.

::

    response.created                 role
    response.output_text.delta       content
    an item of reasoning, done       thinking_blocks, sealed
    a message, added                 thinking_blocks, its phase sealed
    a call, added and its deltas     tool_calls
    a citation, added                annotations
    response.completed | incomplete  finish_reason, usage if asked for, [DONE]
    response.failed | error          an error event; nothing follows it

Source: OpenAI API reference, Responses, streaming events; chat completion chunks (2026-11).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from proxy.providers.chat.call_parts import arguments_text
from proxy.providers.chat.chat_answer import ChunkWriter, Json
from proxy.providers.failures import failure_of_object
from proxy.providers.openai.responses_answer import (
    PARAGRAPH,
    Response,
    ResponseItem,
    ResponsesReply,
    chat_annotation,
    read_item,
    tool_call,
)
from proxy.providers.readers import EventReader

_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILURES: Final = frozenset({"error", "response.failed"})
_CONTENT: Final = "content"
#: Texts of an answer, by the field of a chunk that they belong to.
_TEXTS: Final = {
    "response.output_text.delta": _CONTENT,
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning_content",
    "response.reasoning_text.delta": "reasoning_content",
}
_ITEM_ADDED: Final = "response.output_item.added"
_ITEMS: Final = frozenset({_ITEM_ADDED, "response.output_item.done"})
_ANNOTATION: Final = "response.output_text.annotation.added"
_ARGUMENTS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    content_index: int = 0
    delta: Any = None
    item: msgspec.Raw = msgspec.Raw()
    annotation: Any = None
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_event: Final = msgspec.json.Decoder(_Event).decode


class _OpenCall:
    """A call that is being written."""

    __slots__ = ("is_custom", "is_written", "number")

    def __init__(self, number: int, *, is_custom: bool) -> None:
        self.number = number
        self.is_custom = is_custom
        self.is_written = False

    def delta(self, arguments: str) -> Json:
        """The change that further arguments make."""
        self.is_written = True
        field, name = ("custom", "input") if self.is_custom else ("function", "arguments")
        return {"tool_calls": [{"index": self.number, field: {name: arguments}}]}


class ResponsesChunks(EventReader):
    """Turns a Responses stream into chat completion chunks."""

    def __init__(self, reply: ResponsesReply) -> None:
        super().__init__()
        self._reply = reply
        self._writer = ChunkWriter(reply)
        self._writer.answer_id = Response().chat_id
        self._calls: dict[int, _OpenCall] = {}
        #: Place of the last words of each field.
        self._places: dict[str, tuple[int, int]] = {}
        #: Characters of the answer before each part of a message.
        self._starts: dict[tuple[int, int], int] = {}
        self._written = 0
        self._has_begun = False

    def _read(self, data: bytes) -> bytes:
        return b"".join(self._chunks(_event(data)))

    def _chunks(self, event: _Event) -> Iterator[bytes]:
        if event.response is not None:
            self._name(event.response)
        if event.type in _FAILURES:
            self._has_ended = True
            yield self._writer.error(failure_of_object(_error_of(event)))
            return
        if not self._has_begun:
            self._has_begun = True
            yield self._writer.begin()
        if event.type in _ENDS:
            yield from self._final_chunks(event.response or Response())
        elif delta := self._delta(event):
            yield self._writer.chunk(delta)

    def _delta(self, event: _Event) -> Json:
        """The change that an event makes; empty for none."""
        if event.type in _TEXTS and isinstance(event.delta, str):
            return self._words(_TEXTS[event.type], event, event.delta)
        if event.type in _ARGUMENTS and isinstance(event.delta, str):
            call = self._calls.get(event.output_index)
            return {} if call is None else call.delta(event.delta)
        if event.type == _ANNOTATION:
            start = self._starts.get((event.output_index, event.content_index), self._written)
            link = chat_annotation(event.annotation, start)
            return {} if link is None else {"annotations": [link]}
        if event.type not in _ITEMS or not bytes(event.item).startswith(b"{"):
            return {}
        item = read_item(event.item)
        is_start = event.type == _ITEM_ADDED
        return (self._begin if is_start else self._finish)(item, event.output_index)

    def _words(self, field: str, event: _Event, words: str) -> Json:
        """The change that words make; messages, and parts of a thought, are paragraphs."""
        if not words:
            return {}
        place = (event.output_index, event.summary_index)
        before = self._places.get(field, place)
        self._places[field] = place
        is_next = place != before and (field == _CONTENT or place[0] == before[0])
        text = PARAGRAPH + words if is_next else words
        if field == _CONTENT:
            self._written += len(text)
            part = (event.output_index, event.content_index)
            self._starts.setdefault(part, self._written - len(words))
        return {field: text}

    def _begin(self, item: ResponseItem, index: int) -> Json:
        """The change that a call makes when it begins, or the phase of a message."""
        if item.type == "message":
            blocks = self._reply.phase_blocks(item)
            return {"thinking_blocks": blocks} if blocks else {}
        started = tool_call(item)
        if started is None:
            return {}
        is_custom = started["type"] == "custom"
        call = self._calls[index] = _OpenCall(len(self._calls), is_custom=is_custom)
        call.is_written = bool(item.arguments or item.input)
        return {"tool_calls": [{"index": call.number, **started}]}

    def _finish(self, item: ResponseItem, index: int) -> Json:
        """The rest of an item that is done: its reasoning, or arguments that came at once."""
        if item.type == "reasoning":
            blocks = self._reply.reasoning_blocks(item)
            return {"thinking_blocks": blocks} if blocks else {}
        arguments = arguments_text(item.arguments) or item.input
        call = self._calls.get(index)
        if call is None or call.is_written or not arguments:
            return {}
        return call.delta(arguments)

    def _name(self, response: Response) -> None:
        """Name the answer by the first response that has an id."""
        if response.id and self._writer.answer_id == Response().chat_id:
            self._writer.answer_id = response.chat_id

    def _final_chunks(self, response: Response) -> Iterator[bytes]:
        self._has_ended = True
        reason = response.finish_reason(calls=bool(self._calls))
        yield self._writer.chunk({}, reason=reason, service_tier=response.service_tier)
        yield self._writer.end(response.chat_usage)


def _error_of(event: _Event) -> object:
    """The error object of an event, which says it in one of three places."""
    error = event.error or (event.response.error if event.response is not None else None)
    if error is not None:
        return error
    return {"code": event.code, "message": str(event.message or "The model failed.")}
