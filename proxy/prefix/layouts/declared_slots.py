"""Slots that the caller declares: by tags in the text, or by numbers beside the prompt.

Tags are ``<tg:variable>…</tg:variable>`` and the like. Beside the prompt it is
``0=stable, 1=semi-stable, 2.1=variable``: ``2`` is the third message, ``2.1`` the second part of
its content. The header ``x-thriftgate-slots`` says so, or the body's ``metadata.thriftgate_slots``;
where both do, the header.

Only instructions and a user's words can be declared; answers and what tools return never are. A
user's words move within their own message, so that nobody writes instructions with a tag.
"""

import re
from typing import Final

import msgspec

from proxy.prefix.layouts.order import RequestedMoves
from proxy.prefix.layouts.text_pieces import TextPiece
from proxy.prefix.prompts.objects import Unplannable, may_hold_tags, members
from proxy.prefix.prompts.prompt import (
    AUTHORITY,
    Prompt,
    PromptSlot,
    content_parts,
    parse_message,
    part_text,
)

#: Tags in one text above which it is left unmodified, and pieces in all texts of a prompt.
MAX_PIECES: Final = 1000
SLOTS: Final = {
    "stable": PromptSlot.STABLE,
    "semi": PromptSlot.SEMI_STABLE,
    "semi-stable": PromptSlot.SEMI_STABLE,
    "variable": PromptSlot.VARIABLE,
}
SPEAKERS: Final = AUTHORITY | {"user"}
_TAG: Final = re.compile(r"<(/?)tg:([^<>\s]{0,16})(>?)")
#: Names in one prompt; more of them are not read.
MAX_NAMES: Final = 64
#: The key of ``metadata``.
FIELD: Final = "thriftgate_slots"
_NAMED_SLOT: Final = re.compile(r"\s*(\d{1,5})(?:\.(\d{1,5}))?\s*=\s*([a-z-]{1,16})\s*", re.ASCII)
#: Letters of what a note quotes.
_QUOTED_CHARS: Final = 40

_Place = tuple[int, int]


def declared_slots(prompt: Prompt) -> RequestedMoves:
    """Read the slots a prompt's texts declare; a text with unmatched tags stays unmodified.

    Raises:
        Unplannable: If a message with a tag cannot be read.
    """
    moves: dict[tuple[int, int], tuple[TextPiece, ...]] = {}
    notes: list[str] = []
    room = MAX_PIECES
    for number, raw in enumerate(prompt.messages):
        if not may_hold_tags(raw) or (message := parse_message(raw)).role not in SPEAKERS:
            continue
        for index, part in enumerate(content_parts(message.content)):
            pieces = _tagged_pieces(part_text(part) or "", room) if may_hold_tags(part) else ()
            if isinstance(pieces, str):
                notes.append(f"tags of message {number} stay as text: {pieces}")
            elif pieces:
                moves[number, index] = pieces
                room = max(0, room - len(pieces))
    return RequestedMoves(moves, tuple(notes))


def _tagged_pieces(text: str, max_tags: int) -> tuple[TextPiece, ...] | str:
    """The text in pieces without its tags; none without tags; or what is wrong with them."""
    pieces: list[TextPiece] = []
    start, opened = 0, ""
    for count, tag in enumerate(_TAG.finditer(text)):
        wrong = _tag_error(tag, opened) if count < max_tags else "too many"
        if wrong:
            return wrong
        pieces.append(TextPiece(SLOTS[opened or "stable"], text[start : tag.start()]))
        start, opened = tag.end(), "" if tag[1] else tag[2]
    if opened:
        return f"{opened} is never closed"
    pieces += [TextPiece(PromptSlot.STABLE, text[start:])] if start else []
    return tuple(piece for piece in pieces if piece.text or piece.slot is not PromptSlot.STABLE)


def _tag_error(tag: re.Match[str], opened: str) -> str:
    """The error of a tag where another is open, or none; "" for a correct one."""
    closes, name, ends = tag.groups()
    if not ends or name not in SLOTS:
        return "one is none of ours"
    if closes:
        return "" if name == opened else f"{name} is closed but not open"
    return f"{name} begins within {opened}" if opened else ""


def named_slots(prompt: Prompt, header: str) -> RequestedMoves:
    """The slots that a header, or else the metadata, gives to texts of a prompt.

    Raises:
        Unplannable: If a message that is named cannot be read.
    """
    moves: dict[_Place, tuple[TextPiece, ...]] = {}
    notes: list[str] = []
    declaration = header or _slots_in_metadata(prompt)
    for number, one in enumerate(declaration.split(",", MAX_NAMES)) if declaration.strip() else ():
        texts = _named_texts(prompt, one) if number < MAX_NAMES else "there are too many"
        if isinstance(texts, str):
            notes.append(f"slot {one.strip()[:_QUOTED_CHARS]!r} is passed over: {texts}")
        else:
            moves |= texts
    return RequestedMoves(moves, tuple(notes))


def _slots_in_metadata(prompt: Prompt) -> str:
    """The slots that the metadata declares; "" for none, or where that is no text."""
    raw = prompt.fields.get("metadata")
    if raw is None or FIELD.encode() not in raw:
        return ""
    try:
        return msgspec.json.decode(members(raw).get(FIELD, b'""'), type=str)
    except (Unplannable, msgspec.DecodeError):
        return ""


def _named_texts(prompt: Prompt, one: str) -> dict[_Place, tuple[TextPiece, ...]] | str:
    """The texts that one name stands for, each as one piece; or what is wrong with it."""
    match = _NAMED_SLOT.fullmatch(one)
    slot = SLOTS.get(match[3]) if match else None
    if match is None or slot is None:
        return "it is none like 0=stable or 1.0=semi-stable"
    number = int(match[1])
    if number >= len(prompt.messages):
        return "there is no such message"
    message = parse_message(prompt.messages[number])
    if message.role not in SPEAKERS:
        return "only instructions and a user's words have slots"
    texts: dict[_Place, tuple[TextPiece, ...]] = {
        (number, index): (TextPiece(slot, words),)
        for index, part in enumerate(content_parts(message.content))
        if (words := part_text(part)) is not None
    }
    if match[2] is None:
        return texts or "the message has no text"
    place = (number, int(match[2]))
    return {place: texts[place]} if place in texts else "the message has no such text"
