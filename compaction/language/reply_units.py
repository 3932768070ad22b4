"""Units of an answer: sentences, and list items whole, with the lines that belong to them.

An item without its lines, or lines without their item, say nothing or something else. So an item is
one unit with the lines under it, and what ends in a colon is one with what follows.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from compaction.language.sentences import sentences

#: Maximum characters of a unit that is made of several lines; a longer item is its sentences.
_MAX_UNIT_CHARS: Final = 600
#: Regular expressions for the mark of a list item, for Markdown's marks, which are removed, and for
#: a line that only frames a call.
_ITEM: Final = re.compile(r"(?:(\d{1,3})[.)]|[-*\u2022])[^\S\n]+(?=\S)").match
_LAYOUT: Final = re.compile(r"\*\*|^[^\S\n]*#{1,6} ", re.MULTILINE)
_FRAME: Final = re.compile(
    r"^[^\S\n]*(?:`{3}.*|~{3}.*|</?[\w=.-]{1,64}>|[A-Z]{2,}|Action:)$", re.MULTILINE
)
_COLONS: Final = (":", "\uff1a")
#: Ends of lines behind which the next line follows without a mark.
LINE_STOPS: Final = (
    *_COLONS,
    ".",
    "!",
    "?",
    ",",
    ";",
    "\u3002",
    "\uff01",
    "\uff1f",
    "\uff0c",
    "\uff1b",
)


class ReplyUnit(msgspec.Struct, frozen=True, gc=False):
    """A part of a text that stands or goes whole.

    Attributes:
        text: Its words on one line.
        is_item: True if it is an item of a list, or a part of one.
    """

    text: str
    is_item: bool = False


def reply_units(text: str) -> tuple[ReplyUnit, ...]:
    """The units of a text in order, without its layout."""
    text = _FRAME.sub("", text)
    if any(map(text.__contains__, ("**", "# "))):
        text = _LAYOUT.sub("", text)
    if _has_items(text):
        return tuple(_joined_at_colons(_line_units(text.splitlines())))
    return tuple(_joined_at_colons([ReplyUnit(sentence) for sentence in sentences(text)]))


def _has_items(text: str) -> bool:
    return any(_ITEM(line.lstrip()) for line in text.splitlines())


class _Item:
    """The item of a list that is being read."""

    def __init__(self, indent: int, number: str, text: str) -> None:
        self.indent = indent
        self.is_numbered = bool(number)
        self.lines = [f"{number}) {text}" if number else f"- {text}"]

    def holds(self, line: str, indent: int, *, is_after_blank: bool) -> bool:
        """True if a line belongs to it: it is indented, or follows an item that ends in a colon."""
        mark = _ITEM(line)
        if indent > self.indent:
            return True
        if mark:
            return self.is_numbered and not mark[1]
        return not is_after_blank and self.lines[0].endswith(_COLONS)

    def units(self) -> Iterator[ReplyUnit]:
        """It as one unit; sentence by sentence where it is long."""
        if sum(map(len, self.lines)) <= _MAX_UNIT_CHARS:
            yield ReplyUnit(_on_one_line(self.lines), is_item=True)
            return
        for line in self.lines:
            yield from [ReplyUnit(sentence, is_item=True) for sentence in _sentences_of(line)]


def _line_units(lines: Sequence[str]) -> Iterator[ReplyUnit]:
    """The units of a text that holds a list."""
    item: _Item | None = None
    is_after_blank = False
    for line in lines:
        bare = line.strip()
        if not bare:
            is_after_blank = True
            continue
        indent = len(line) - len(line.lstrip())
        mark = _ITEM(bare)
        if item is not None and item.holds(bare, indent, is_after_blank=is_after_blank):
            item.lines.append(bare[mark.end() :] if mark else bare)
        else:
            if item is not None:
                yield from item.units()
            item = _Item(indent, mark[1] or "", bare[mark.end() :]) if mark else None
            if mark is None:
                yield from map(ReplyUnit, sentences(bare))
        is_after_blank = False
    if item is not None:
        yield from item.units()


def _sentences_of(line: str) -> Iterator[str]:
    """The sentences of an item's line; its mark is none."""
    mark = _ITEM(line)
    if mark is None:
        yield from sentences(line)
        return
    first, *others = list(sentences(line[mark.end() :])) or [""]
    yield line[: mark.end()] + first
    yield from others


def _on_one_line(lines: Sequence[str]) -> str:
    """Lines one after the other, a semicolon between those that end without a mark."""
    text = lines[0].strip()
    for line in lines[1:]:
        text += f" {line.strip()}" if text.endswith(LINE_STOPS) else f"; {line.strip()}"
    return text


def _joined_at_colons(units: Sequence[ReplyUnit] | Iterator[ReplyUnit]) -> Iterator[ReplyUnit]:
    """The units; one that ends in a colon is one with the next."""
    open_text = ""
    for unit in units:
        joined = ReplyUnit(f"{open_text}{unit.text}", unit.is_item)
        if unit.text.endswith(_COLONS) and len(joined.text) <= _MAX_UNIT_CHARS:
            open_text = f"{joined.text} "
        else:
            yield joined
            open_text = ""
    if open_text:
        yield ReplyUnit(open_text.rstrip())
