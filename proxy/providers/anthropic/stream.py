"""The events of a Messages stream as chat completion chunks.

::

    message_start        → role
    content_block_start  → tool call with its name
    content_block_delta  → content | reasoning_content | arguments
    content_block_stop   → thinking_blocks | annotations
    message_stop         → finish_reason, usage if asked for, [DONE]; thinking_blocks for the order
    error                → an error event; nothing follows it
    ping                 → a comment, which keeps proxies on the way awake

Source: Anthropic, streaming messages; OpenAI, chat completion chunks (2026-11).
"""

from typing import Any, Final

import msgspec
import orjson

from proxy.errors import UpstreamError
from proxy.providers.anthropic.answer import FINISH_REASONS, annotations
from proxy.providers.anthropic.failure import stream_failure
from proxy.providers.anthropic.usage import chat_usage
from proxy.providers.block_order import OPAQUE, BlockOrder, number_entries
from proxy.providers.compaction_blocks import applied_edits
from proxy.providers.event_reader import EventReader
from proxy.providers.lenient import to_strict_json
from proxy.providers.stream_endings import error_event, truncated_stream
from proxy.providers.usage import merge_usage

_DONE: Final = b"data: [DONE]\n\n"
_PING: Final = b": ping\n\n"


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: dict[str, Any] | None = None
    content: str | msgspec.UnsetType | None = msgspec.UNSET
    encrypted_content: str | msgspec.UnsetType | None = msgspec.UNSET
    stop_reason: str | None = None


class _Start(msgspec.Struct):
    id: str = ""
    usage: dict[str, Any] | None = None


class _StreamEvent(msgspec.Struct):
    """One event of a Messages stream, whichever it is."""

    type: str
    message: _Start | None = None
    content_block: dict[str, Any] | None = None
    delta: _Delta | None = None
    usage: dict[str, Any] | None = None
    context_management: Any = None
    error: dict[str, Any] | None = None


_decode_event = msgspec.json.Decoder(_StreamEvent).decode


class _Open:
    """The content block that is being streamed."""

    __slots__ = ("block", "citations", "kind", "pieces", "signature", "start")

    def __init__(self, block: dict[str, Any], start: int) -> None:
        self.block = block
        self.kind = block.get("type")
        self.start = start
        self.pieces: list[str] = []
        self.signature = ""
        self.citations: list[dict[str, Any]] = []


class AnswerStream(EventReader):
    """Turns a Messages stream into chat completion chunks."""

    __slots__ = (
        "_calls",
        "_created",
        "_edits",
        "_head",
        "_model",
        "_open",
        "_order",
        "_reason",
        "_tail",
        "_told",
        "_usage",
        "_wants_usage",
        "_written",
    )

    def __init__(self, *, model: str, created: int, wants_usage: bool) -> None:
        """Answer in the caller's words.

        Args:
            model: The name that the answer gives as its model's.
            created: Arrival of the call, in whole seconds since the epoch.
            wants_usage: True if the caller asked for a usage chunk at the end.
        """
        super().__init__()
        self._model = model
        self._created = created
        self._wants_usage = wants_usage
        self._head = self._opening("")
        self._tail = b',"usage":null}\n\n' if wants_usage else b"}\n\n"
        self._open = _Open({}, 0)
        self._order = BlockOrder()
        self._told = 0
        self._calls = 0
        self._written = 0
        self._usage: dict[str, Any] = {}
        self._edits: dict[str, Any] | None = None
        self._reason: str | None = None

    def end(self) -> bytes:
        """The last chunks, where the upstream sent a stop reason but no end.

        Raises:
            UpstreamError: If the upstream ended in the middle of its answer.
        """
        if self._has_ended:
            return b""
        if self._unread is not None or self._reason is None:
            raise self._unread or truncated_stream()
        return self._final_chunks()

    def _read(self, data: bytes) -> bytes:
        event = _read_event(data)
        if event.type == "content_block_delta" and event.delta is not None:
            return self._delta_chunk(event.delta)
        if event.type == "content_block_start" and event.content_block is not None:
            return self._open_block(event.content_block)
        if event.type == "content_block_stop":
            return self._close_block()
        return self._message_chunks(event)

    def _message_chunks(self, event: _StreamEvent) -> bytes:
        """The chunks for an event about the whole message."""
        if event.type == "ping":
            return _PING
        if event.type == "error":
            return self._error_chunk(stream_failure(event.error or {}))
        if event.type == "message_stop":
            return self._final_chunks()
        if event.type == "message_start" and event.message is not None:
            self._head = self._opening(event.message.id)
            merge_usage(self._usage, event.message.usage or {})
            return self._chunk({"role": "assistant", "content": "", "refusal": None})
        if event.type == "message_delta":
            merge_usage(self._usage, event.usage or {})
            self._edits = applied_edits(event.context_management) or self._edits
            self._reason = event.delta.stop_reason if event.delta is not None else self._reason
        return b""

    def _open_block(self, block: dict[str, Any]) -> bytes:
        """The first chunk of a block: a tool's name, or its first text."""
        self._open = _Open(block, self._written)
        if self._open.kind == "tool_use":
            call = {"name": block.get("name", ""), "arguments": ""}
            started = {"id": block.get("id", ""), "type": "function", "function": call}
            self._calls += 1
            self._order.note_call(started["id"])
            return self._chunk({"tool_calls": [{"index": self._calls - 1, **started}]})
        first = block.get("text") if self._open.kind == "text" else None
        return self._text_chunk(first) if isinstance(first, str) and first else b""

    def _delta_chunk(self, delta: _Delta) -> bytes:
        """The chunk for a delta."""
        if delta.type == "text_delta":
            return self._text_chunk(delta.text)
        if delta.type == "input_json_delta" and self._open.kind == "tool_use":
            return self._arguments_chunk(delta.partial_json)
        if delta.type == "thinking_delta":
            self._open.pieces.append(delta.thinking)
            return self._chunk({"reasoning_content": delta.thinking})
        if delta.type == "signature_delta":
            self._open.signature += delta.signature
        elif delta.type == "citations_delta" and delta.citation is not None:
            self._open.citations.append(delta.citation)
        elif delta.type == "compaction_delta":
            told = {"content": delta.content, "encrypted_content": delta.encrypted_content}
            self._open.block |= {k: v for k, v in told.items() if v is not msgspec.UNSET}
        return b""

    def _close_block(self) -> bytes:
        """End the open block: the chunk that needs all of it, such as its citations."""
        ended, self._open = self._open, _Open({}, 0)
        if ended.kind == "tool_use" and not ended.pieces:
            return self._arguments_chunk(orjson.dumps(ended.block.get("input") or {}).decode())
        if ended.kind in OPAQUE:
            return self._opaque_chunk(self._order.entries_for_block(_complete_block(ended)))
        found = annotations(ended.citations, ended.start, self._written)
        return self._chunk({"annotations": found}) if found else b""

    def _opaque_chunk(self, told: list[dict[str, Any]]) -> bytes:
        """Opaque blocks, and what stood between them."""
        if not told:
            return b""
        before, self._told = self._told, self._told + len(told)
        return self._chunk({"thinking_blocks": number_entries(told, before)})

    def _text_chunk(self, words: str) -> bytes:
        self._written += len(words)
        self._order.note_words(words)
        return self._chunk({"content": words})

    def _arguments_chunk(self, piece: str) -> bytes:
        """The chunk for a piece of a tool call's arguments; none for an empty piece."""
        if not piece:
            return b""
        self._open.pieces.append(piece)
        call = {"index": self._calls - 1, "function": {"arguments": piece}}
        return self._chunk({"tool_calls": [call]})

    def _final_chunks(self) -> bytes:
        """The last chunks of a stream that ended well."""
        self._has_ended = True
        order = self._opaque_chunk(self._order.final_entries())
        reason = FINISH_REASONS.get(self._reason, "stop").encode()
        last = b'{},"logprobs":null,"finish_reason":"' + reason + b'"}]'
        usage = chat_usage(self._usage)
        counted = b""
        if self._wants_usage and usage is not None:
            counted = self._head + b'[],"usage":' + orjson.dumps(usage) + b"}\n\n"
        told = b',"context_management":' + orjson.dumps(self._edits) if self._edits else b""
        return order + self._head + _CHOICE + last + told + self._tail + counted + _DONE

    def _error_chunk(self, error: UpstreamError) -> bytes:
        """The error event that ends the stream."""
        self._has_ended = True
        return error_event("chat/completions", error)

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return self._head + _CHOICE + orjson.dumps(delta) + _OPEN_END + self._tail

    def _opening(self, name: str) -> bytes:
        """The beginning of every chunk, up to its choices."""
        fields = {
            "id": name,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }
        return b"data: " + orjson.dumps(fields)[:-1] + b',"choices":'


_CHOICE: Final = b'[{"index":0,"delta":'
_OPEN_END: Final = b',"logprobs":null,"finish_reason":null}]'


def _complete_block(ended: _Open) -> dict[str, Any]:
    """The opaque block as it would stand in an answer that is no stream."""
    if ended.kind != "thinking":
        return ended.block
    return ended.block | {
        "thinking": f"{ended.block.get('thinking') or ''}{''.join(ended.pieces)}",
        "signature": ended.signature or ended.block.get("signature") or "",
    }


def _read_event(data: bytes) -> _StreamEvent:
    """Decode an event, also where it is only nearly JSON."""
    try:
        return _decode_event(data)
    except msgspec.DecodeError:
        return _decode_event(to_strict_json(data) or data)
