"""Calls of the gateway's recall tool in a chat answer: they are taken out, and answered by it.

::

    answer ── feed ──▶ what its caller gets     calls of the tool ──▶ RecallRequest
    body, request, answers ── with_answers ──▶ body of the next round

Where the model calls tools of its caller in the same answer, these are delivered, renumbered, and
the recall is left out: the model can ask again with the next call.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from proxy.providers.chat.call_parts import CallAssignment, CallPart
from proxy.providers.sse import parse_event, to_line_feeds
from proxy.records.request_fields import replace_fields

Json = dict[str, Any]
_DONE: Final = b"[DONE]"
#: Bytes of which a chunk has at least one if it holds more than words.
_MARKS: Final = (b"tool_calls", b"finish_reason", b'"usage"', b"[DONE]")
_decode_part: Final = msgspec.json.Decoder(CallPart).decode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_messages: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class RecallCall(msgspec.Struct, frozen=True):
    """A call of the recall tool."""

    id: str
    arguments: str


class RecallRequest(msgspec.Struct, frozen=True):
    """The calls of an answer that has none but those of the recall tool.

    Attributes:
        message: The assistant's message, as the next round sends it back.
    """

    message: Json
    calls: tuple[RecallCall, ...]


class _AnswerParts:
    """Content and tool calls of an answer as far as it came.

    Attributes:
        has_unread: True if a call is in no form that is known, and so its caller's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._assignment = CallAssignment()
        self._extras: dict[int, Json] = {}
        self.has_unread = False

    def add_text(self, delta: Json) -> None:
        """Take note of the words of a delta or message."""
        if isinstance(text := delta.get("content"), str):
            self._texts.append(text)
        if isinstance(thought := delta.get("reasoning_content"), str):
            self._reasoning.append(thought)

    def add_call(self, raw: Json, place: int) -> int | None:
        """Take note of a part of a call; its number for the caller, None for the recall tool."""
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
        return RecallRequest(message, tuple(RecallCall(id_, call.text) for id_, call in named))


class RecallFilter:
    """Takes calls of the recall tool out of one round's answer, a stream or a whole one.

    Args:
        name: The tool's.
        streamed: True for a stream of chunks.
        opened: The chunk id and time that the caller has seen in the round before; {} for none.
    """

    def __init__(self, name: str, *, streamed: bool, opened: Json | None = None) -> None:
        self._name = name
        self._parts = _AnswerParts(name)
        self._streamed = streamed
        self._opened = opened or {}
        self._held: list[bytes] = []
        self._is_held = False
        self._needs_space = bool(opened and opened.get("text"))
        self.seen: Json = dict(self._opened)

    @property
    def request(self) -> RecallRequest | None:
        """The recall that the answer ended with; None for none."""
        return self._parts.request if self._is_held else None

    def feed(self, piece: bytes) -> bytes:
        """The caller's part of a piece: whole events, or the one body."""
        if not self._streamed:
            return self._feed_whole(piece)
        blocks = to_line_feeds(piece).split(b"\n\n")
        return b"".join(self._feed_block(block) for block in blocks if block.strip(b"\n"))

    def end(self) -> bytes:
        """The part held back, for an answer whose recall is not followed by another round."""
        held, self._held = b"".join(self._held), []
        self._is_held = False
        return held

    def _feed_block(self, block: bytes) -> bytes:
        """The caller's part of one event."""
        framed = block + b"\n\n"
        event = parse_event(block)
        if event is None:
            return framed
        is_plain = not self._opened and not any(mark in event.data for mark in _MARKS)
        chunk = None if event.data == _DONE else _parse(event.data)
        if chunk is None:
            return self._hold(framed) if self._is_held else framed
        if is_plain:
            self._note(chunk)
            return framed
        return self._feed_chunk(chunk)

    def _feed_chunk(self, chunk: Json) -> bytes:
        choice = _first_choice(chunk)
        if self._is_held:
            return self._hold(_event_bytes(chunk))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            has_calls = bool(delta.get("tool_calls"))
            self._take_calls(delta)
            self._note(chunk)
            if has_calls and not _has_more(delta) and not choice.get("finish_reason"):
                return b""
        if choice.get("finish_reason") and self._parts.has_recall and not self._parts.has_others:
            self._is_held = True
            words = self._words_before_end(chunk, choice)
            choice["finish_reason"] = "stop"
            return words + self._hold(self._frame(chunk))
        return self._frame(chunk)

    def _words_before_end(self, chunk: Json, choice: Json) -> bytes:
        """The words of the chunk that ends the answer, which are delivered before another round."""
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not delta.get("content"):
            return b""
        words = {**chunk, "choices": [{**choice, "finish_reason": None}]}
        choice["delta"] = {}
        return self._frame(words)

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
                self.seen.setdefault(key, chunk[key])
        if isinstance(delta, dict):
            self._parts.add_text(delta)
            if isinstance(text := delta.get("content"), str) and text:
                self.seen["text"] = text[-1]
            if delta.get("role"):
                self.seen["role"] = True

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
        return _event_bytes(chunk)

    def _hold(self, framed: bytes) -> bytes:
        self._held.append(framed)
        return b""

    def _feed_whole(self, body: bytes) -> bytes:
        """A whole answer without calls of the recall tool."""
        if self._name.encode() not in body or (answer := _parse(body)) is None:
            return body
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
        self._is_held = True
        choice["finish_reason"] = "stop"
        self._hold(orjson.dumps(answer))
        return b""


def with_answers(body: bytes, request: RecallRequest, answers: Sequence[str]) -> bytes:
    """The chat body of the next round: the messages go on with the calls and their answers.

    Raises:
        KeyError: If the body has no messages.
        ValueError: If it cannot be read.
    """
    messages = _messages(_fields(body)["messages"])
    added: list[Json] = [request.message]
    for call, answer in zip(request.calls, answers, strict=True):
        added.append({"role": "tool", "tool_call_id": call.id, "content": answer})
    raws = [*map(bytes, messages), *map(orjson.dumps, added)]
    return replace_fields(body, {"messages": b"[" + b",".join(raws) + b"]"})


def _has_more(delta: Json) -> bool:
    """True if a delta holds more than its role."""
    return any(value for key, value in delta.items() if key != "role")


def _first_choice(answer: Json) -> Json:
    """The first choice of a chunk or an answer; an empty one where there is none."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _parse(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _event_bytes(chunk: Json) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"
