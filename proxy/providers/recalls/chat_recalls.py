"""Recalls in chat completions; pure.

Signed thinking of a round that recalls is sent back with it, and left out for the caller: what
follows the recall has its own.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec
import orjson

from proxy.providers.chat.block_order import number_entries
from proxy.providers.chat.call_parts import CallAssignment, CallPart
from proxy.providers.recalls.recall_filter import (
    Json,
    RecallCall,
    RecallFilter,
    RecallFormat,
    RecallRequest,
    append_to_list,
    object_in,
)

#: Bytes of which a chunk has at least one if it holds more than words.
_MARKS: Final = (b"tool_calls", b"thinking_blocks", b"finish_reason", b'"usage"')
_BLOCKS: Final = "thinking_blocks"
_decode_part: Final = msgspec.json.Decoder(CallPart).decode


class _AnswerParts:
    """Content and tool calls of an answer as far as it came.

    Attributes:
        has_unread: True if a call is in no form that is known, and so its caller's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._blocks: list[Any] = []
        self._assignment = CallAssignment()
        self._extras: dict[int, Json] = {}
        self.has_unread = False

    def add_text(self, delta: Json) -> None:
        """Take note of the words of a delta or message, and of its signed thinking."""
        if isinstance(text := delta.get("content"), str):
            self._texts.append(text)
        if isinstance(thought := delta.get("reasoning_content"), str):
            self._reasoning.append(thought)
        if isinstance(blocks := delta.get(_BLOCKS), list):
            self._blocks += blocks

    def add_call(self, raw: Any, place: int) -> int | None:  # noqa: ANN401
        """Take note of a part of a call; its number for the caller, None for the recall tool.

        Raises:
            ValidationError: If it is in no form that is known.
        """
        if isinstance(raw, dict) and type(raw.get("id")) is int:
            raw = {**raw, "id": str(raw["id"])}  # some engines number their calls
        part = _decode_part(orjson.dumps(raw))
        call = self._assignment.find(part, place)
        if part.extra_content:
            self._extras[call.number] = {"extra_content": part.extra_content}
        if call.name == self._name:
            return None
        earlier = self._assignment.calls[: call.number]
        return call.number - sum(one.name == self._name for one in earlier)

    @property
    def has_others(self) -> bool:
        """True if a tool of the caller is called."""
        return self.has_unread or any(c.name != self._name for c in self._assignment.calls)

    @property
    def has_recall(self) -> bool:
        """True if the recall tool is called."""
        return any(call.name == self._name for call in self._assignment.calls)

    @property
    def request(self) -> RecallRequest | None:
        """The calls of the recall tool, where there are no others."""
        calls = self._assignment.calls
        if not calls or self.has_others:
            return None
        named = [(call.id or f"call_recall_{call.number}", call) for call in calls]
        message: Json = {
            "role": "assistant",
            "content": "".join(self._texts) or None,
            "tool_calls": [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.text or "{}"},
                    **self._extras.get(call.number, {}),
                }
                for id_, call in named
            ],
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._blocks:
            message[_BLOCKS] = [_without_index(block) for block in self._blocks]
        return RecallRequest((message,), tuple(RecallCall(id_, call.text) for id_, call in named))


class ChatRecallFilter(RecallFilter):
    """Takes calls of the recall tool out of a chat completion.

    Args:
        opened: The chunk id and time that the caller has seen in the round before, and how far its
            answer came; {} for none.
    """

    def __init__(self, name: str, *, streamed: bool, opened: Json | None = None) -> None:
        super().__init__(name, streamed=streamed)
        self._parts = _AnswerParts(name)
        self._opened = opened or {}
        self._needs_space = bool(self._opened.get("text"))
        self._pending_blocks: list[Json] = []
        self._seen: Json = dict(self._opened)

    def next_round(self) -> Self:
        """The filter of the next round, which goes on as the same answer."""
        return type(self)(self._name, streamed=self._streamed, opened=self._seen)

    def _request(self) -> RecallRequest | None:
        return self._parts.request

    def _feed_event(self, event: Json, framed: bytes) -> bytes:
        if not self._opened and not any(mark in framed for mark in _MARKS):
            self._note(event)
            return self._frame_blocks(event) + framed
        return self._feed_chunk(event)

    def _feed_chunk(self, chunk: Json) -> bytes:
        choice = _first_choice(chunk)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            has_taken = bool(delta.get("tool_calls") or delta.get(_BLOCKS))
            self._take_calls(delta)
            self._note(chunk)
            self._pending_blocks += delta.pop(_BLOCKS, None) or []
            if has_taken and not _has_more(delta) and not choice.get("finish_reason"):
                return b""
        if choice.get("finish_reason") and self._parts.has_recall and not self._parts.has_others:
            words = self._words_before_end(chunk, choice)
            choice["finish_reason"] = "stop"
            return words + self._hold(self._frame(chunk))
        return self._frame_blocks(chunk) + self._frame(chunk)

    def _words_before_end(self, chunk: Json, choice: Json) -> bytes:
        """The words of the chunk that ends the answer, which are delivered before another round."""
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not delta.get("content"):
            return b""
        words = {**chunk, "choices": [{**choice, "finish_reason": None}]}
        choice["delta"] = {}
        return self._frame(words)

    def _frame_blocks(self, chunk: Json) -> bytes:
        """The signed thinking that was held back, before the chunk that shows what follows it."""
        choice = _first_choice(chunk)
        delta = object_in(choice, "delta")
        is_after = delta.get("content") or delta.get("tool_calls") or choice.get("finish_reason")
        if not self._pending_blocks or not is_after:
            return b""
        blocks, self._pending_blocks = self._pending_blocks, []
        before = self._seen.get(_BLOCKS, 0)
        self._seen[_BLOCKS] = before + len(blocks)
        entries = number_entries([_without_index(block) for block in blocks], before)
        choices = [{**choice, "delta": {_BLOCKS: entries}, "finish_reason": None}]
        return self._frame({**chunk, "choices": choices})

    def _take_calls(self, delta: Json) -> None:
        """Take the recall's parts out of a delta, and renumber the others."""
        parts = delta.get("tool_calls")
        if not isinstance(parts, list):
            return
        kept = []
        for place, part in enumerate(parts):
            try:
                number = self._parts.add_call(part, place)
            except msgspec.ValidationError:  # its caller's to read
                self._parts.has_unread = True
                kept.append(part)
                continue
            if number is not None:
                kept.append(part if part.get("index") == number else {**part, "index": number})
        delta.pop("tool_calls")
        if kept:
            delta["tool_calls"] = kept

    def _note(self, chunk: Json) -> None:
        """Remember the words of a chunk, and the answer's id and time."""
        delta = _first_choice(chunk).get("delta")
        for key in ("id", "created"):
            if key in chunk:
                self._seen.setdefault(key, chunk[key])
        if isinstance(delta, dict):
            self._parts.add_text(delta)
            if isinstance(text := delta.get("content"), str) and text:
                self._seen["text"] = text[-1]
            if delta.get("role"):
                self._seen["role"] = True

    def _frame(self, chunk: Json) -> bytes:
        """A chunk as bytes, as one of the answer that the caller has seen begin."""
        for key in ("id", "created"):
            if key in self._opened and key in chunk:
                chunk[key] = self._opened[key]
        delta = _first_choice(chunk).get("delta")
        if self._opened and isinstance(delta, dict):
            if self._opened.get("role"):
                delta.pop("role", None)
            text = delta.get("content")
            if self._needs_space and isinstance(text, str) and text:
                self._needs_space = False
                if not self._opened["text"].isspace() and not text[0].isspace():
                    delta["content"] = "\n\n" + text
        return b"data: " + orjson.dumps(chunk) + b"\n\n"

    def _feed_whole(self, answer: Json, body: bytes) -> bytes:
        """A whole answer without calls of the recall tool."""
        choice = _first_choice(answer)
        message = choice.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), list):
            return body
        self._parts.add_text(message)
        self._take_calls(message)
        if not self._parts.has_recall:
            return body
        for part in message.get("tool_calls", ()):
            if isinstance(part, dict):
                part.pop("index", None)
        if self._parts.has_others:
            return orjson.dumps(answer)
        choice["finish_reason"] = "stop"
        return self._hold(orjson.dumps(answer))


def append_recalls(body: bytes, request: RecallRequest, answers: Sequence[str]) -> bytes:
    """The chat body of the next round: the messages go on with the calls and their answers.

    Raises:
        KeyError: If the body has no messages.
        ValueError: If it cannot be read.
    """
    results: list[Json] = [
        {"role": "tool", "tool_call_id": call.id, "content": answer}
        for call, answer in zip(request.calls, answers, strict=True)
    ]
    return append_to_list(body, "messages", [*request.answer, *results])


CHAT_RECALLS: Final = RecallFormat(ChatRecallFilter, append_recalls)


def _has_more(delta: Json) -> bool:
    """True if a delta holds more than its role."""
    return any(value for key, value in delta.items() if key != "role")


def _without_index(block: Any) -> Any:  # noqa: ANN401
    """An entry of thinking without its number in the stream."""
    return {k: v for k, v in block.items() if k != "index"} if isinstance(block, dict) else block


def _first_choice(answer: Json) -> Json:
    """The first choice of a chunk or an answer; an empty one where there is none."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}
