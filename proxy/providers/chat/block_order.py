"""Keeps the order of words, calls and opaque blocks of an answer, and restores it.

A chat message holds words, calls and opaque blocks apart. A signed block that is moved breaks the
conversation or its cached prefix. So what stood before such a block is told in front of it::

    an answer          thinking a   text "so"   thinking b   tool_use t1
    thinking_blocks    thinking a   said …      thinking b
    content                         "so"
    tool_calls                                               t1

What follows the last block is words, then calls; only where it is not, that is told too.

Source: Anthropic, extended thinking, preserving thinking blocks (2026-11).
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.marked_blocks import Block
from proxy.providers.lenient import decode_or

#: Blocks that the caller must send back as they are.
OPAQUE: Final = frozenset({"thinking", "redacted_thinking", "compaction"})
_SAID: Final = "said"
_CALLED: Final = "called"
#: Placeholders among them for words and calls.
PLACES: Final = frozenset({_SAID, _CALLED})

#: Position of an entry that came in a stream; text has its quotes escaped.
_INDEX: Final = "index"
_MARK: Final = b'"index"'

Content = list[Block | Raw]


class _Kind(msgspec.Struct):
    type: str


class _Place(msgspec.Struct):
    """Words of a length and a digest, or the call with an id."""

    type: str
    length: int = 0
    digest: str = ""
    id: str = ""


_kind = msgspec.json.Decoder(_Kind).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_place = msgspec.json.Decoder(_Place).decode


class BlockOrder:
    """Notes the order of words, calls and opaque blocks while an answer passes."""

    __slots__ = ("_before", "_holds_opaque", "_words")

    def __init__(self) -> None:
        self._before: list[dict[str, Any]] = []
        self._words: list[str] = []
        self._holds_opaque = False

    def note_words(self, words: str) -> None:
        """Note words of the answer."""
        self._words.append(words)

    def note_call(self, name: str) -> None:
        """Note a call with this id."""
        self._end_words()
        self._before.append({"type": _CALLED, "id": name})

    def entries_for_block(self, block: object) -> list[Any]:
        """The entries for an opaque block: all that stood before, then itself."""
        self._end_words()
        entries, self._before = [*self._before, block], []
        self._holds_opaque = True
        return entries

    def final_entries(self) -> list[Any]:
        """The entries for all behind the last block; none where it is words, then calls."""
        self._end_words()
        is_plain = all(place["type"] == _CALLED for place in self._before[1:])
        return [] if is_plain or not self._holds_opaque else self._before

    def _end_words(self) -> None:
        words, self._words = "".join(self._words), []
        if words:
            self._before.append({"type": _SAID, "length": len(words), "digest": _digest(words)})


def number_entries(entries: list[dict[str, Any]], before: int) -> list[dict[str, Any]]:
    """The entries with numbers, by which OpenAI's client joins lists of a stream.

    Args:
        before: The number of entries before; one that comes first and alone needs no number.
    """
    if before == 0 and len(entries) == 1:
        return entries
    return [entry | {_INDEX: number} for number, entry in enumerate(entries, before)]


def without_number(entry: Raw) -> Raw:
    """The entry without its number, all else byte for byte; itself where it cannot be read."""
    members = decode_or(_members, entry, None) if _MARK in bytes(entry) else None
    if members is None:
        return entry
    others = {name: value for name, value in members.items() if name != _INDEX}
    return Raw(msgspec.json.encode(others))


def entry_kind(entry: Raw) -> str:
    """The type of an entry of ``thinking_blocks``; "" if it is none."""
    kind = decode_or(_kind, entry, None)
    return "" if kind is None else kind.type


def restore_order(
    entries: Sequence[Raw], words: Sequence[Block], calls: Sequence[tuple[str, Block]]
) -> Content | None:
    """The content in the order it had; None where words or calls are no longer what they were.

    Args:
        words: The text blocks, in order; they are cut where something stood among them.
        calls: The calls with the ids they have in the entries, in order.
    """
    left = dict(calls)
    if len(left) < len(calls):
        return None
    message_words, content = _MessageWords(words), list[Block | Raw]()
    for raw in entries:
        if entry_kind(raw) not in PLACES:
            content.append(raw)
        elif (placed := _blocks_at_place(raw, message_words, left)) is not None:
            content += placed
        else:
            return None
    return [*content, *message_words.remaining_blocks(), *left.values()]


def _blocks_at_place(
    raw: Raw, message_words: "_MessageWords", left: dict[str, Block]
) -> list[Block] | None:
    """The blocks that stood at this place; None where they are missing or changed."""
    place = decode_or(_place, raw, None)
    if place is None:
        return None
    if place.type == _CALLED:
        call = left.pop(place.id, None)
        return None if call is None else [call]
    run = message_words.take(place.length)
    return run if _digest("".join(block["text"] for block in run)) == place.digest else None


class _MessageWords:
    """The words of a message, taken from its front; a marker stays with the end of its block."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._number = 0
        self._start = 0

    def take(self, length: int) -> list[Block]:
        """Blocks of so many characters, or as many as are left."""
        blocks: list[Block] = []
        while length > 0 and self._number < len(self._blocks):
            block = self._blocks[self._number]
            piece = block["text"][self._start : self._start + length]
            length -= len(piece)
            self._start += len(piece)
            if self._start < len(block["text"]):
                blocks.append({"type": "text", "text": piece})
            else:
                blocks.append(block | {"text": piece})
                self._number, self._start = self._number + 1, 0
        return blocks

    def remaining_blocks(self) -> list[Block]:
        """All that is left."""
        return self.take(sum(len(block["text"]) for block in self._blocks))


def _digest(words: str) -> str:
    return blake2b(words.encode(), digest_size=8).hexdigest()
