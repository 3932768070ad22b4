"""Slots that the caller's own text declares: ``<tg:variable>…</tg:variable>`` and the like.

Only instructions and a user's words are read; answers and what tools return never are. A user's
words move within their own message, so that nobody writes instructions with a tag.
"""

import re
from typing import Final

from proxy.prefix.layouts.order import Wished
from proxy.prefix.layouts.pieces import Piece
from proxy.prefix.prompts.prompt import AUTHORITY, Prompt, Slot, parts, read, text
from proxy.prefix.prompts.tagged import tagged

#: Tags in one text above which it is left as it came, and pieces in all texts of a prompt.
LIMIT: Final = 1000
SLOTS: Final = {
    "stable": Slot.STABLE,
    "semi": Slot.SEMI_STABLE,
    "semi-stable": Slot.SEMI_STABLE,
    "variable": Slot.VARIABLE,
}
SPEAKERS: Final = AUTHORITY | {"user"}
_TAG: Final = re.compile(r"<(/?)tg:([^<>\s]{0,16})(>?)")


def declared(prompt: Prompt) -> Wished:
    """What the texts of a prompt declare; a text whose tags don't add up stays as it came.

    Raises:
        Unplannable: If a message with a tag cannot be read.
    """
    wish: dict[tuple[int, int], tuple[Piece, ...]] = {}
    notes: list[str] = []
    room = LIMIT
    for number, raw in enumerate(prompt.messages):
        if not tagged(raw) or (message := read(raw)).role not in SPEAKERS:
            continue
        for at, part in enumerate(parts(message.content)):
            found = _pieces(text(part) or "", room) if tagged(part) else ()
            if isinstance(found, str):
                notes.append(f"tags of message {number} stay as text: {found}")
            elif found:
                wish[number, at] = found
                room = max(0, room - len(found))
    return Wished(wish, tuple(notes))


def _pieces(said: str, most: int) -> tuple[Piece, ...] | str:
    """The text in pieces without its tags; none without tags; or what is wrong with them."""
    found: list[Piece] = []
    start, opened = 0, ""
    for count, tag in enumerate(_TAG.finditer(said)):
        wrong = _wrong(tag, opened) if count < most else "too many"
        if wrong:
            return wrong
        found.append(Piece(SLOTS[opened or "stable"], said[start : tag.start()]))
        start, opened = tag.end(), "" if tag[1] else tag[2]
    if opened:
        return f"{opened} is never closed"
    found += [Piece(Slot.STABLE, said[start:])] if start else []
    return tuple(piece for piece in found if piece.text or piece.slot is not Slot.STABLE)


def _wrong(tag: re.Match[str], opened: str) -> str:
    """What is wrong with a tag where another is open, or none; "" for nothing."""
    closes, name, ends = tag.groups()
    if not ends or name not in SLOTS:
        return "one is none of ours"
    if closes:
        return "" if name == opened else f"{name} is closed but not open"
    return f"{name} begins within {opened}" if opened else ""
