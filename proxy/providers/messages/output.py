"""The content of one message, written block by block as a chat answer goes on.

Blocks of the Messages API come one after the other, and none is taken up again. Chat may go on
with any tool call by its index. So a call is held back while the one before it is incomplete.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from proxy.providers.chat.answer_reader import Event
from proxy.providers.chat.call_parts import CallAssignment, CallIdentity, CallPart
from proxy.providers.chat.chat_chunk import Delta
from proxy.providers.chat.message_order import blocks_of
from proxy.providers.messages.blocks import (
    OutputBlock,
    opaque_block,
    read_opaque,
    text_block,
    thinking_block,
    tool_use_block,
)
from proxy.providers.messages.body import Json
from proxy.providers.messages.names import caller_call_id
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.messages.signatures import call_signature, is_own_signature
from proxy.providers.stream_endings import malformed_answer


class _Call:
    """A call as far as chat has told it."""

    __slots__ = ("block", "extra", "identity")

    def __init__(self, identity: CallIdentity) -> None:
        self.identity = identity
        self.extra: Json = {}
        self.block: OutputBlock | None = None


class MessageOutput:
    """The blocks of one answer."""

    def __init__(self, settings: AnswerSettings, tail: str) -> None:
        self.refused = False
        self._settings = settings
        self._tail = tail
        self._blocks: list[OutputBlock] = []
        self._open: OutputBlock | None = None
        self._calls: dict[int, _Call] = {}
        self._assignment = CallAssignment()
        self._waiting: list[_Call] = []
        self._held_words: list[str] = []

    @property
    def calls_tools(self) -> bool:
        """True if a tool is called."""
        return any(call.block is not None for call in self._calls.values())

    @property
    def estimated_tokens(self) -> int:
        """About as many tokens as were written: four letters each."""
        return len(msgspec.json.encode(self.content())) // 4

    def gain(self, delta: Delta) -> Iterator[Event]:
        """The events of a delta: reasoning first, then words, then calls.

        Raises:
            UpstreamError: If it goes on with a call that had ended.
        """
        if delta.reasoning_text and self._settings.thinking != "hidden":
            yield from self._think(delta.reasoning_text)
        for raw in blocks_of(delta.thinking_blocks or []):
            yield from self._add_opaque(raw)
        self.refused = self.refused or bool(delta.refusal)
        if words := delta.text + (delta.refusal or ""):
            yield from self._say(words)
        for place, part in enumerate(delta.calls):
            yield from self._call(place, part)

    def end(self) -> Iterator[Event]:
        """The events that end all that is open."""
        yield from self._close()
        yield from self._say_held_words()
        for call in self._waiting:
            if call.identity.name:
                yield from self._start_call(call)
        yield from self._close()
        self._assignment.check_names()
        self._waiting = []

    def content(self) -> list[Json]:
        """All blocks, once the message has ended."""
        return [block.whole() for block in self._blocks]

    def _think(self, words: str) -> Iterator[Event]:
        yield from self._write(words, thinking_block, shown=self._settings.thinking == "shown")

    def _add_opaque(self, raw: Raw) -> Iterator[Event]:
        """A provider's own block; it signs the reasoning that is open if that is its text."""
        block = read_opaque(raw)
        if block is None:
            return
        words, signature = block.get("thinking"), block.get("signature")
        signature = signature if isinstance(signature, str) else ""
        if is_own_signature(signature) and self._settings.thinking == "hidden":
            return
        if block.get("type") != "thinking" or not isinstance(words, str):
            yield from self._begin(opaque_block(len(self._blocks), block))
        elif self._open_kind == "thinking" and self._blocks[-1].text == words:
            self._blocks[-1].signature = signature
        else:
            thought = thinking_block(len(self._blocks), shown=True, signature=signature)
            yield from self._begin(thought)
            if words:
                yield from thought.write(words)
        yield from self._close()

    def _say(self, words: str) -> Iterator[Event]:
        if self._is_amid_call:
            self._held_words.append(words)
            return
        yield from self._say_held_words()
        yield from self._write(words, text_block)

    @property
    def _open_kind(self) -> str | None:
        return None if self._open is None else self._open.kind

    @property
    def _is_amid_call(self) -> bool:
        """True while a call's arguments are incomplete; its block cannot be taken up again."""
        return self._open_kind == "tool_use" and not self._blocks[-1].is_complete

    def _say_held_words(self) -> Iterator[Event]:
        """Write the words that came amid a call's arguments."""
        words, self._held_words = "".join(self._held_words), []
        if words:
            yield from self._write(words, text_block)

    def _write(
        self, words: str, make: Callable[..., OutputBlock], **fields: bool
    ) -> Iterator[Event]:
        """Write to the open block; to a new one where that is of another kind."""
        block = make(len(self._blocks), **fields)
        if self._open is not None and self._open.kind == block.kind:
            block = self._open
        else:
            yield from self._begin(block)
        yield from block.write(words)

    def _call(self, place: int, part: CallPart) -> Iterator[Event]:
        identity = self._assignment.find(part, place)
        call = self._calls.get(identity.number)
        if call is None:
            call = self._calls[identity.number] = _Call(identity)
            self._waiting.append(call)
        call.extra |= part.extra_content or {}
        arguments = part.text
        if call.block is self._open and call.block is not None:
            if arguments:
                yield from call.block.write(arguments)
        elif call.block is not None and arguments.strip():
            raise malformed_answer()
        yield from self._start_waiting()

    def _start_waiting(self) -> Iterator[Event]:
        """Begin calls that wait, as far as those before them are complete."""
        while self._waiting and self._assignment.has_whole_name(self._waiting[0].identity):
            if self._is_amid_call:
                return
            yield from self._say_held_words()
            yield from self._start_call(self._waiting.pop(0))

    def _start_call(self, call: _Call) -> Iterator[Event]:
        identity = call.identity
        chat_id = identity.id or f"call_{self._tail}_{identity.number}"
        if call.extra and self._settings.thinking != "hidden":
            seal = call_signature(chat_id, call.extra)
            yield from self._begin(thinking_block(len(self._blocks), shown=True, signature=seal))
        tool = self._settings.tool_names.get(identity.name, identity.name)
        call.block = tool_use_block(len(self._blocks), caller_call_id(chat_id, self._tail), tool)
        yield from self._begin(call.block)
        if arguments := identity.text:
            yield from call.block.write(arguments)

    def _begin(self, block: OutputBlock) -> Iterator[Event]:
        yield from self._close()
        self._blocks.append(block)
        self._open = block
        yield block.start()

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            ended, self._open = self._open, None
            yield from ended.close()
