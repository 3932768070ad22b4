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

from proxy.providers.answers.usage import merge_usage
from proxy.providers.anthropic.answer import FINISH_REASONS, annotations
from proxy.providers.anthropic.failure import stream_failure
from proxy.providers.anthropic.usage import messages_usage
from proxy.providers.chat.block_order import OPAQUE, BlockOrder, number_entries
from proxy.providers.chat.chat_answer import ChatReply, ChunkWriter, function_call, usage_object
from proxy.providers.chat.compaction_blocks import applied_edits
from proxy.providers.lenient import decode_leniently
from proxy.providers.readers import EventReader

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


_events = msgspec.json.Decoder(_StreamEvent)


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
        "_calls", "_edits", "_open", "_order", "_reason", "_told", "_usage", "_writer", "_written",
    )  # fmt: skip

    def __init__(self, reply: ChatReply) -> None:
        super().__init__()
        self._writer = ChunkWriter(reply)
        self._open = _Open({}, 0)
        self._order = BlockOrder()
        self._told = 0
        self._calls = 0
        self._written = 0
        self._usage: dict[str, Any] = {}
        self._edits: dict[str, Any] | None = None
        self._reason: str | None = None

    @property
    def _is_complete(self) -> bool:
        return self._reason is not None

    def _read(self, data: bytes) -> bytes:
        event = decode_leniently(_events, data)
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
            self._has_ended = True
            return self._writer.error(stream_failure(event.error or {}))
        if event.type == "message_stop":
            return self._final_parts()
        if event.type == "message_start" and event.message is not None:
            self._writer.answer_id = event.message.id
            merge_usage(self._usage, event.message.usage or {})
            return self._writer.begin()
        if event.type == "message_delta":
            merge_usage(self._usage, event.usage or {})
            self._edits = applied_edits(event.context_management) or self._edits
            self._reason = event.delta.stop_reason if event.delta is not None else self._reason
        return b""

    def _open_block(self, block: dict[str, Any]) -> bytes:
        """The first chunk of a block: a tool's name, or its first text."""
        self._open = _Open(block, self._written)
        if self._open.kind == "tool_use":
            started = function_call(block.get("id", ""), block.get("name", ""), "")
            self._calls += 1
            self._order.note_call(started["id"])
            return self._writer.chunk({"tool_calls": [{"index": self._calls - 1, **started}]})
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
            return self._writer.chunk({"reasoning_content": delta.thinking})
        if delta.type == "signature_delta":
            self._open.signature += delta.signature
        elif delta.type == "citations_delta" and delta.citation is not None:
            self._open.citations.append(delta.citation)
        elif delta.type == "compaction_delta":
            members = {"content": delta.content, "encrypted_content": delta.encrypted_content}
            self._open.block |= {k: v for k, v in members.items() if v is not msgspec.UNSET}
        return b""

    def _close_block(self) -> bytes:
        """End the open block: the chunk that needs all of it, such as its citations."""
        ended, self._open = self._open, _Open({}, 0)
        if ended.kind == "tool_use" and not ended.pieces:
            return self._arguments_chunk(orjson.dumps(ended.block.get("input") or {}).decode())
        if ended.kind in OPAQUE:
            return self._opaque_chunk(self._order.entries_for_block(_complete_block(ended)))
        links = annotations(ended.citations, ended.start, self._written)
        return self._writer.chunk({"annotations": links}) if links else b""

    def _opaque_chunk(self, entries: list[dict[str, Any]]) -> bytes:
        """Opaque blocks, and what stood between them."""
        if not entries:
            return b""
        before, self._told = self._told, self._told + len(entries)
        return self._writer.chunk({"thinking_blocks": number_entries(entries, before)})

    def _text_chunk(self, words: str) -> bytes:
        self._written += len(words)
        self._order.note_words(words)
        return self._writer.chunk({"content": words})

    def _arguments_chunk(self, piece: str) -> bytes:
        """The chunk for a piece of a tool call's arguments; none for an empty piece."""
        if not piece:
            return b""
        self._open.pieces.append(piece)
        call = {"index": self._calls - 1, "function": {"arguments": piece}}
        return self._writer.chunk({"tool_calls": [call]})

    def _final_parts(self) -> bytes:
        self._has_ended = True
        order = self._opaque_chunk(self._order.final_entries())
        reason = FINISH_REASONS.get(self._reason, "stop")
        last = self._writer.chunk({}, reason=reason, context_management=self._edits)
        usage = usage_object(messages_usage(self._usage), has_writes=True)
        return order + last + self._writer.end(usage)


def _complete_block(ended: _Open) -> dict[str, Any]:
    """The opaque block as it would stand in an answer that is no stream."""
    if ended.kind != "thinking":
        return ended.block
    return ended.block | {
        "thinking": f"{ended.block.get('thinking') or ''}{''.join(ended.pieces)}",
        "signature": ended.signature or ended.block.get("signature") or "",
    }
