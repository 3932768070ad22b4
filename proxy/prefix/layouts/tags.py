"""Slots that the caller's own text declares: ``<tg:variable>…</tg:variable>`` and the like.

Only instructions and a user's words are read; answers and what tools return never are. A user's
words move within their own message, so that nobody writes instructions with a tag.
"""

import re
from typing import Final

from proxy.prefix.layouts.order import RequestedMoves
from proxy.prefix.layouts.pieces import TextPiece
from proxy.prefix.prompts.prompt import (
    AUTHORITY,
    Prompt,
    PromptSlot,
    content_parts,
    parse_message,
    part_text,
)
from proxy.prefix.prompts.tagged import may_hold_tags

#: Tags in one text above which it is left unmodified, and pieces in all texts of a prompt.
LIMIT: Final = 1000
SLOTS: Final = {
    "stable": PromptSlot.STABLE,
    "semi": PromptSlot.SEMI_STABLE,
    "semi-stable": PromptSlot.SEMI_STABLE,
    "variable": PromptSlot.VARIABLE,
}
SPEAKERS: Final = AUTHORITY | {"user"}
_TAG: Final = re.compile(r"<(/?)tg:([^<>\s]{0,16})(>?)")


def declared_slots(prompt: Prompt) -> RequestedMoves:
    """Read the slots a prompt's texts declare; a text with unmatched tags stays unmodified.

    Raises:
        Unplannable: If a message with a tag cannot be read.
    """
    wish: dict[tuple[int, int], tuple[TextPiece, ...]] = {}
    notes: list[str] = []
    room = LIMIT
    for number, raw in enumerate(prompt.messages):
        if not may_hold_tags(raw) or (message := parse_message(raw)).role not in SPEAKERS:
            continue
        for at, part in enumerate(content_parts(message.content)):
            found = _pieces(part_text(part) or "", room) if may_hold_tags(part) else ()
            if isinstance(found, str):
                notes.append(f"tags of message {number} stay as text: {found}")
            elif found:
                wish[number, at] = found
                room = max(0, room - len(found))
    return RequestedMoves(wish, tuple(notes))


def _pieces(said: str, most: int) -> tuple[TextPiece, ...] | str:
    """The text in pieces without its tags; none without tags; or what is wrong with them."""
    found: list[TextPiece] = []
    start, opened = 0, ""
    for count, tag in enumerate(_TAG.finditer(said)):
        wrong = _wrong(tag, opened) if count < most else "too many"
        if wrong:
            return wrong
        found.append(TextPiece(SLOTS[opened or "stable"], said[start : tag.start()]))
        start, opened = tag.end(), "" if tag[1] else tag[2]
    if opened:
        return f"{opened} is never closed"
    found += [TextPiece(PromptSlot.STABLE, said[start:])] if start else []
    return tuple(piece for piece in found if piece.text or piece.slot is not PromptSlot.STABLE)


def _wrong(tag: re.Match[str], opened: str) -> str:
    """What is wrong with a tag where another is open, or none; "" for nothing."""
    closes, name, ends = tag.groups()
    if not ends or name not in SLOTS:
        return "one is none of ours"
    if closes:
        return "" if name == opened else f"{name} is closed but not open"
    return f"{name} begins within {opened}" if opened else ""
