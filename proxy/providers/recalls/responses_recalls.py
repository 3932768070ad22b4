"""Recalls in OpenAI's Responses; pure.

What a round says goes back as its items, reasoning too. The caller gets the reasoning of the rounds
that it gets other items of: reasoning without the item that follows it is refused. Reasoning that
is kept nowhere, and came without its encrypted content, cannot go back.

Source: OpenAI API reference, Responses, streaming; reasoning items (2026-11).
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import orjson

from proxy.providers.recalls.recall_filter import (
    MAX_HELD_THINKING_BYTES,
    Json,
    RecallCall,
    RecallFilter,
    RecallFormat,
    RecallRequest,
    append_to_list,
    named_event,
    object_in,
)
from proxy.records.request_fields import raw_field, replace_fields

_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"
_COMPLETED: Final = "response.completed"
_LAST: Final = frozenset({_COMPLETED, "response.incomplete", "response.failed"})
_REASONING: Final = "reasoning"
_CALL: Final = "function_call"
#: Items of an answer that its caller does not answer.
_SAID: Final = frozenset({"message", _REASONING})
#: Fields of a response that name it, and stay as the caller saw them first.
_NAMES: Final = ("id", "created_at")


class _StreamedItem:
    """An item of the output as far as its events came.

    Attributes:
        number: Its place among the caller's items; None while it is held back, or left out.
    """

    def __init__(self, item: Json, is_recall: bool) -> None:  # noqa: FBT001
        self.item = item
        self.is_recall = is_recall
        self.is_reasoning = item.get("type") == _REASONING
        self.events: list[Json] = []
        self.held_bytes = 0
        self.number: int | None = None


class _Rounds:
    """The answer in its rounds so far, as its caller has it.

    Attributes:
        names: The names of the response; empty before its beginning.
        items: The number of items that have begun.
        output: The items that are whole.
        events: The number of events of a stream.
    """

    def __init__(self) -> None:
        self.names: Json = {}
        self.items = 0
        self.output: list[Json] = []
        self.events = 0


class ResponsesRecallFilter(RecallFilter):
    """Takes calls of the recall tool, and the tool itself, out of an answer of Responses."""

    def __init__(self, name: str, *, streamed: bool, rounds: _Rounds | None = None) -> None:
        super().__init__(name, streamed=streamed)
        self._rounds = rounds or _Rounds()
        self._is_later = rounds is not None
        self._items: dict[int, _StreamedItem] = {}
        self._output: list[Json] = []
        self._reasoning: list[_StreamedItem] = []

    def next_round(self) -> Self:
        """The filter of the next round, which goes on as the same answer."""
        return type(self)(self._name, streamed=self._streamed, rounds=self._rounds)

    def _request(self) -> RecallRequest | None:
        items = self._all_items()
        has_gap = any(not _may_go_back(item) for item in items)
        answer = tuple(
            _without_id(item) if has_gap else item for item in items if _may_go_back(item)
        )
        return RecallRequest(
            answer,
            tuple(
                RecallCall(str(item.get("call_id")), str(item.get("arguments") or ""))
                for item in items
                if self._is_recall(item)
            ),
        )

    def _all_items(self) -> list[Json]:
        """All items of the round, whole."""
        if not self._streamed:
            return self._output
        return [item.item for _, item in sorted(self._items.items())]

    def _is_recall(self, item: Json) -> bool:
        return item.get("type") == _CALL and item.get("name") == self._name

    def _has_recall_alone(self) -> bool:
        """True if the recall tool is called, and nothing that the caller answers."""
        others = [item for item in self._all_items() if item.get("type") not in _SAID]
        return bool(others) and all(map(self._is_recall, others))

    def _feed_event(self, event: Json, framed: bytes) -> bytes:
        kind = event.get("type")
        if "output_index" in event:
            return self._feed_part(event, framed)
        if kind in _LAST:
            return self._feed_end(event)
        if "response" not in event:
            return self._frame(event)
        if self._is_later:
            return b""
        response = object_in(event, "response")
        self._hide_tool(response)
        self._rounds.names = {name: response[name] for name in _NAMES if name in response}
        return self._frame(event)

    def _feed_part(self, event: Json, framed: bytes) -> bytes:
        """The caller's part of an event of an item."""
        index, kind = event["output_index"], event.get("type")
        if kind == _ADDED:
            added = object_in(event, "item")
            self._items[index] = _StreamedItem(added, self._is_recall(added))
        item = self._items.get(index)
        if item is None:
            return self._frame(event)
        if kind == _DONE:
            item.item = object_in(event, "item")
        if item.is_recall:
            return b""
        if item.number is None and item.is_reasoning:
            return self._hold_reasoning(item, event, len(framed))
        out = b""
        if item.number is None:
            out = self._release_reasoning()
            self._begin(item)
        return out + self._frame_part(event, item)

    def _hold_reasoning(self, item: _StreamedItem, event: Json, size: int) -> bytes:
        """Keep an event of reasoning back, or let all of it go once it is long."""
        if not item.events:
            self._reasoning.append(item)
        item.events.append(event)
        item.held_bytes += size
        is_long = sum(held.held_bytes for held in self._reasoning) > MAX_HELD_THINKING_BYTES
        return self._release_reasoning() if is_long else b""

    def _release_reasoning(self) -> bytes:
        """The reasoning that was held back."""
        out: list[bytes] = []
        for item in self._reasoning:
            self._begin(item)
            out += [self._frame_part(event, item) for event in item.events]
        self._reasoning = []
        return b"".join(out)

    def _begin(self, item: _StreamedItem) -> None:
        """Give an item its place among the caller's."""
        item.number, self._rounds.items = self._rounds.items, self._rounds.items + 1

    def _frame_part(self, event: Json, item: _StreamedItem) -> bytes:
        """An event of an item in the caller's numbers."""
        if event.get("type") == _DONE:
            self._rounds.output.append(object_in(event, "item"))
        return self._frame({**event, "output_index": item.number})

    def _feed_end(self, event: Json) -> bytes:
        """The caller's part of the event that ends the answer, which holds all of it."""
        response = object_in(event, "response")
        is_recall = event.get("type") == _COMPLETED and self._has_recall_alone()
        released = b"" if is_recall else self._release_reasoning()
        self._hide_tool(response)
        response |= self._rounds.names
        if isinstance(response.get("output"), list) and response["output"]:
            response["output"] = list(self._rounds.output)
        if is_recall:
            return self._hold(self._numbered_event(event))
        return released + self._frame(event)

    def _frame(self, event: Json) -> bytes:
        """An event as bytes, the next of the stream."""
        framed = self._numbered_event(event)
        self._rounds.events += 1
        return framed

    def _numbered_event(self, event: Json) -> bytes:
        """An event as bytes, with the next number of the stream."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._rounds.events}
        return named_event(event)

    def _feed_whole(self, answer: Json, body: bytes) -> bytes:
        """A whole answer without the recall tool and its calls."""
        output = answer.get("output")
        if not isinstance(output, list):
            return body
        self._output = [item for item in output if isinstance(item, dict)]
        self._hide_tool(answer)
        answer["output"] = [item for item in self._output if not self._is_recall(item)]
        whole = orjson.dumps(answer)
        is_recall = answer.get("status") in {"completed", None} and self._has_recall_alone()
        return self._hold(whole) if is_recall else whole

    def _hide_tool(self, response: Json) -> None:
        """Take the tool out of what a response says of its request."""
        tools = response.get("tools")
        if isinstance(tools, list):
            response["tools"] = [
                tool
                for tool in tools
                if not (isinstance(tool, dict) and tool.get("name") == self._name)
            ]
            if tools and not response["tools"] and response.get("tool_choice") == "none":
                response["tool_choice"] = "auto"  # as it is without tools


def append_recalls(body: bytes, request: RecallRequest, answers: Sequence[str]) -> bytes:
    """The Responses body of the next round: the input goes on with the calls and their answers.

    Raises:
        KeyError: If the body has no input.
        ValueError: If it cannot be read.
    """
    results: list[Json] = [
        {"type": "function_call_output", "call_id": call.id, "output": answer}
        for call, answer in zip(request.calls, answers, strict=True)
    ]
    text = raw_field(body, "input")
    if text is not None and text[:1] == b'"':
        body = replace_fields(body, {"input": b'[{"role":"user","content":' + text + b"}]"})
    return append_to_list(body, "input", [*request.answer, *results])


RESPONSES_RECALLS: Final = RecallFormat(ResponsesRecallFilter, append_recalls)


def _may_go_back(item: Json) -> bool:
    """False for reasoning of which nothing is known but its name."""
    known: Any = item.get("encrypted_content") or item.get("content")
    return item.get("type") != _REASONING or bool(known)


def _without_id(item: Json) -> Json:
    """An item that does not name the reasoning before it."""
    return {name: value for name, value in item.items() if name != "id"}
