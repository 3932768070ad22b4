"""Recalls in Anthropic's Messages; pure.

What a round says goes back as it came: thinking with its signature before the call, as the turn is
still under way. The caller gets the thinking of the round that it gets content of. Some models do
not think again after a tool's result, and want the thinking of the turn back: then it is that of
the round before. Without the calls between them, thinking of two rounds never stands together.

Source: Anthropic, streaming messages, and thinking with tool use (2026-11).
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import orjson

from proxy.providers.answers.usage import merge_usage
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
    parse_object,
)

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_PARTS: Final = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
#: Texts in the deltas of a block, by the delta's type: the key there, and that of the block.
_DELTA_TEXTS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
_CALL: Final = "tool_use"
_STOPPED: Final = "end_turn"


class _StreamedBlock:
    """A content block as far as its events came.

    Attributes:
        number: Its place among the caller's blocks; None while it is held back, or left out.
    """

    def __init__(self, block: Json, is_recall: bool) -> None:  # noqa: FBT001
        self._start = block
        self._texts: dict[str, list[str]] = {}
        self._input: list[str] = []
        self._citations: list[Any] = []
        self.is_recall = is_recall
        self.is_thinking = block.get("type") in _THINKING
        self.events: list[Json] = []
        self.held_bytes = 0
        self.number: int | None = None

    def add(self, delta: Json) -> None:
        """Take note of a delta."""
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._input.append(str(delta.get("partial_json") or ""))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))
        elif isinstance(kind, str) and (key := _DELTA_TEXTS.get(kind)):
            self._texts.setdefault(key, []).append(str(delta.get(key) or ""))

    def hold(self, event: Json, size: int) -> None:
        """Keep an event until it shows what follows the block."""
        self.events.append(event)
        self.held_bytes += size

    @property
    def whole(self) -> Json:
        """The block as a whole answer has it."""
        block = dict(self._start)
        for key, pieces in self._texts.items():
            block[key] = (block.get(key) or "") + "".join(pieces)
        if self._citations:
            block["citations"] = [*(block.get("citations") or ()), *self._citations]
        if self._input:
            block["input"] = parse_object("".join(self._input).encode()) or {}
        return block


class _Rounds:
    """The answer in its rounds so far, as its caller has it.

    Attributes:
        has_begun: True once the caller has the beginning of a stream.
        blocks: The number of blocks that it has.
        thinking: Thinking of the newest round that thought and recalled: held blocks of a stream,
            or those of whole answers.
        has_open_thinking: True if the last that the caller has is thinking.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.blocks = 0
        self.thinking: list[Any] = []
        self.has_open_thinking = False


class MessagesRecallFilter(RecallFilter):
    """Takes calls of the recall tool out of an answer of the Messages API."""

    def __init__(self, name: str, *, streamed: bool, rounds: _Rounds | None = None) -> None:
        super().__init__(name, streamed=streamed)
        self._rounds = rounds or _Rounds()
        self._is_later = rounds is not None
        self._streamed_blocks: dict[int, _StreamedBlock] = {}
        self._content: list[Json] = []
        self._usage: Json = {}
        self._has_thought = False
        self._leaves_thinking_out = self._rounds.has_open_thinking

    def next_round(self) -> Self:
        """The filter of the next round, which goes on as the same answer."""
        return type(self)(self._name, streamed=self._streamed, rounds=self._rounds)

    def _may_change(self, body: bytes) -> bool:
        return bool(self._rounds.thinking) or super()._may_change(body)

    def _request(self) -> RecallRequest | None:
        blocks = self._all_blocks()
        calls = [block for block in blocks if self._is_recall(block)]
        message = {"role": "assistant", "content": [b for b in blocks if not _is_blank(b)]}
        return RecallRequest(
            (message,),
            tuple(
                RecallCall(str(call.get("id")), orjson.dumps(call.get("input") or {}).decode())
                for call in calls
            ),
        )

    def _all_blocks(self) -> list[Json]:
        """All blocks of the round, whole."""
        if not self._streamed:
            return self._content
        return [block.whole for _, block in sorted(self._streamed_blocks.items())]

    def _is_recall(self, block: Json) -> bool:
        return block.get("type") == _CALL and block.get("name") == self._name

    def _has_recall_alone(self) -> bool:
        """True if the recall tool is called, and no tool of the caller."""
        calls = [block for block in self._all_blocks() if block.get("type") == _CALL]
        return bool(calls) and all(map(self._is_recall, calls))

    def _feed_event(self, event: Json, framed: bytes) -> bytes:
        kind = event.get("type")
        if kind == "message_start":
            merge_usage(self._usage, object_in(object_in(event, "message"), "usage"))
            is_first, self._rounds.has_begun = not self._rounds.has_begun, True
            return framed if is_first else b""
        if kind in _PARTS:
            return self._feed_part(event, framed)
        if kind == "message_delta":
            return self._feed_end(event, framed)
        return framed

    def _feed_part(self, event: Json, framed: bytes) -> bytes:
        """The caller's part of an event of a block."""
        index = event.get("index")
        if not isinstance(index, int):
            return framed
        if event.get("type") == "content_block_start":
            start = object_in(event, "content_block")
            self._streamed_blocks[index] = _StreamedBlock(start, self._is_recall(start))
        block = self._streamed_blocks.get(index)
        if block is None:
            return framed
        block.add(object_in(event, "delta"))
        if block.is_recall:
            return b""
        if block.number is None and block.is_thinking:
            return self._hold_thinking(block, event, framed)
        out = b""
        if block.number is None:
            out = self._release_thinking()
            block.number = self._take_number()
            self._rounds.has_open_thinking = self._leaves_thinking_out = False
        return out + (framed if block.number == index else _numbered_event(event, block.number))

    def _hold_thinking(self, block: _StreamedBlock, event: Json, framed: bytes) -> bytes:
        """Keep an event of thinking back, or let all of it go once it is long."""
        if self._leaves_thinking_out:
            return b""
        if not self._has_thought:
            self._has_thought, self._rounds.thinking = True, []
        if not block.events:
            self._rounds.thinking.append(block)
        block.hold(event, len(framed))
        held_bytes = sum(held.held_bytes for held in self._rounds.thinking)
        if held_bytes <= MAX_HELD_THINKING_BYTES:
            return b""
        self._rounds.has_open_thinking = True
        return self._release_thinking()

    def _release_thinking(self) -> bytes:
        """The thinking that was held back."""
        out: list[bytes] = []
        for block in self._rounds.thinking:
            block.number = self._take_number()
            out += [_numbered_event(event, block.number) for event in block.events]
        self._rounds.thinking = []
        return b"".join(out)

    def _take_number(self) -> int:
        number, self._rounds.blocks = self._rounds.blocks, self._rounds.blocks + 1
        return number

    def _feed_end(self, event: Json, framed: bytes) -> bytes:
        """The caller's part of the event that ends the message; its usage is that of the round."""
        merge_usage(self._usage, object_in(event, "usage"))
        delta = object_in(event, "delta")
        is_recall = delta.get("stop_reason") == _CALL and self._has_recall_alone()
        if self._is_later:
            event["usage"] = self._usage
        if is_recall:
            delta["stop_reason"] = _STOPPED
            return self._hold(named_event(event))
        return self._release_thinking() + (named_event(event) if self._is_later else framed)

    def _feed_whole(self, answer: Json, body: bytes) -> bytes:
        """A whole answer without calls of the recall tool."""
        content = answer.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            return body
        self._content = content
        thinking = [block for block in content if block.get("type") in _THINKING]
        kept = [block for block in content if not self._is_recall(block)]
        if answer.get("stop_reason") == _CALL and self._has_recall_alone():
            self._rounds.thinking = thinking or self._rounds.thinking
            return self._hold(orjson.dumps({**answer, "content": kept, "stop_reason": _STOPPED}))
        before = [] if thinking or not kept else self._rounds.thinking
        if len(kept) == len(content) and not before:
            return body
        return orjson.dumps({**answer, "content": [*before, *kept]})


def append_recalls(body: bytes, request: RecallRequest, answers: Sequence[str]) -> bytes:
    """The Messages body of the next round: the messages go on with the calls and their answers.

    Raises:
        KeyError: If the body has no messages.
        ValueError: If it cannot be read.
    """
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": answer}
        for call, answer in zip(request.calls, answers, strict=True)
    ]
    return append_to_list(body, "messages", [*request.answer, {"role": "user", "content": results}])


MESSAGES_RECALLS: Final = RecallFormat(MessagesRecallFilter, append_recalls)


def _numbered_event(event: Json, number: int) -> bytes:
    return named_event({**event, "index": number})


def _is_blank(block: Json) -> bool:
    """True for a text that says nothing, which the API does not take back."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()
