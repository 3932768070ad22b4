"""The output of one response: items in order, begun and done as a chat answer goes on.

Reasoning and messages are done when something else begins. Calls stay open to the end, because
chat may take up any of them again by its index. A call begins once its name is whole.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.providers.chat.call_parts import CallAssignment, CallIdentity, CallPart
from proxy.providers.chat.chat_chunk import Citation, Delta, Token
from proxy.providers.chat.compaction_blocks import is_compaction
from proxy.providers.chat.message_order import blocks_of
from proxy.providers.responses.fields import Json
from proxy.providers.responses.items import (
    Event,
    OutputCall,
    OutputCompaction,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    ToolNames,
)
from proxy.providers.responses.namespaces import OwnName

_NO_NAMES: Final[ToolNames] = MappingProxyType({})


class ResponseOutput:
    """The items of one answer; ``tail`` is what their ids have in common."""

    def __init__(self, tail: str, names: ToolNames = _NO_NAMES) -> None:
        self._tail = tail
        self._names = names
        self._items: list[OutputItem] = []
        self._done: dict[int, Json] = {}
        self._calls: dict[int, OutputCall] = {}
        self._assignment = CallAssignment()
        self._waiting: list[CallIdentity] = []
        self._written = 0
        self._start = 0

    def gain(self, delta: Delta, tokens: list[Token]) -> Iterator[Event]:
        """The events of a delta: of a compaction first, reasoning, words, then calls."""
        opaque = blocks_of(delta.thinking_blocks or [])
        for block in filter(is_compaction, opaque):
            yield from self._begin(OutputCompaction(self._next_place()[0], block))
        thoughts = [block for block in opaque if not is_compaction(block)]
        if delta.reasoning_text or thoughts:
            yield from self._think(delta.reasoning_text, thoughts)
        if delta.text or delta.refusal:
            yield from self._say(delta, tokens)
        for annotation in delta.annotations or ():
            yield from self._cite(annotation.url_citation)
        for place, part in enumerate(delta.calls):
            yield from self._call(place, part)

    def end(self, *, cut: bool) -> Iterator[Event]:
        """All that is open is done; if the answer was cut off, its last item is incomplete."""
        yield from self._begin_calls(is_end=True)
        self._assignment.check_names()
        places = range(len(self._items))
        for place in places:
            if place not in self._done:
                is_cut = cut and place == places[-1]
                yield from self._finish(place, "incomplete" if is_cut else "completed")

    def items(self) -> list[Json]:
        """All items as they are now; one that is not done is incomplete."""
        return [
            self._done.get(place) or item.item("incomplete")
            for place, item in enumerate(self._items)
        ]

    def _think(self, text: str, blocks: list[msgspec.Raw]) -> Iterator[Event]:
        item = self._open_item()
        if not isinstance(item, OutputReasoning):
            item = OutputReasoning(*self._next_place())
            yield from self._begin(item)
        yield from item.think(text, blocks)

    def _say(self, delta: Delta, tokens: list[Token]) -> Iterator[Event]:
        item = self._open_item()
        if not isinstance(item, OutputMessage):
            item = OutputMessage(*self._next_place())
            self._start = self._written
            yield from self._begin(item)
        if delta.text:
            self._written += len(delta.text)
            yield from item.say("output_text", delta.text, tokens)
        if delta.refusal:
            yield from item.say("refusal", delta.refusal, [])

    def _cite(self, citation: Citation | None) -> Iterator[Event]:
        """A citation; its place is counted from the first word of its message."""
        item = self._open_item()
        if citation is not None and isinstance(item, OutputMessage):
            start = max(citation.start_index - self._start, 0)
            end = max(citation.end_index - self._start, 0)
            yield from item.cite(replace(citation, start_index=start, end_index=end))

    def _call(self, place: int, part: CallPart) -> Iterator[Event]:
        identity = self._assignment.find(part, place)
        call = self._calls.get(identity.number)
        if call is not None:
            yield from call.gain(part.text)
        elif identity not in self._waiting:
            self._waiting.append(identity)
        yield from self._begin_calls()

    def _begin_calls(self, *, is_end: bool = False) -> Iterator[Event]:
        """Begin the calls that wait and whose names are whole, as all are at the end."""
        waiting, self._waiting = self._waiting, []
        for identity in waiting:
            if not identity.name or not (is_end or self._assignment.has_whole_name(identity)):
                self._waiting.append(identity)
                continue
            suffix, output_index = self._next_place()
            own = self._names.get(identity.name) or OwnName(identity.name, "", is_custom=False)
            call_id = identity.id or f"call_{suffix}"
            call = OutputCall(suffix, output_index, call_id, own, custom=identity.is_custom)
            self._calls[identity.number] = call
            yield from self._begin(call)
            yield from call.gain(identity.text)

    def _open_item(self) -> OutputItem | None:
        """The item begun last, which may still gain."""
        return self._items[-1] if self._items else None

    def _next_place(self) -> tuple[str, int]:
        """The name and the place of the next item."""
        place = len(self._items)
        return f"{self._tail}_{place}", place

    def _begin(self, item: OutputItem) -> Iterator[Event]:
        before = self._open_item()
        if before is not None and not isinstance(before, OutputCall):
            yield from self._finish(len(self._items) - 1, "completed")
        place = len(self._items)
        self._items.append(item)
        yield {
            "type": "response.output_item.added",
            "output_index": place,
            "item": item.item("in_progress"),
        }

    def _finish(self, place: int, status: str) -> Iterator[Event]:
        item = self._items[place]
        yield from item.close()
        self._done[place] = item.item(status)
        yield {
            "type": "response.output_item.done",
            "output_index": place,
            "item": self._done[place],
        }
