"""The parts of files that an agent knows: what it viewed last, with its own edits made in it.

An edit has to match its lines to the letter, so the lines of files under work are worth more than
any summary of them. A slice is the text of a result, or of a file that was written; later edits
are made in it, and a later view of the same lines takes its place.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from compaction.agents.file_operations import (
    ALL_FILES,
    CHANGES,
    FileEffect,
    FileOperation,
    says_not_edited,
)
from compaction.facts.region_contents import ToolExchange

#: Maximum characters of a slice that stands whole; of a longer one the lines around its spots do.
MAX_WHOLE_CHARS: Final = 20_000
#: Maximum characters of those lines, and lines that stand on either side of a spot.
MAX_EXCERPT_CHARS: Final = 10_000
_LINES_AROUND: Final = 12
#: Minimum share of a view's lines with a number for numbers to be no part of the file.
_MIN_NUMBERED_SHARE: Final = 0.8
#: Minimum share of a slice's lines that stand in no newer one of its file.
_MIN_NEW_SHARE: Final = 0.1
#: Minimum characters of a line by which a part of a file is known.
_MIN_TELLING_LINE_CHARS: Final = 12
_numbered = re.compile(r"[ \t]{0,12}(\d{1,7})(?:→|\t|[:|][ ]?)(.*)", re.DOTALL).match
#: Tags that a harness puts around a result.
_frames = re.compile(r"<returncode>-?\d{1,5}</returncode>|</?output>").sub
_CONTEXT: Final = re.compile(r"grep\b.*\s-[nir]*[ABC]\s?\d|\s-[nir]*[ABC]\s?\d.*\bgrep\b").search
#: Regular expression for a result in which a program only says why it shows nothing.
_COMPLAINS: Final = re.compile(
    r"(?:(?:[ef]?grep|rg|ag|sed|awk|cat|head|tail|nl): [^\n]{1,200}\s{0,4}){1,8}\Z"
).match
_GONE: Final = frozenset({FileEffect.DELETED, FileEffect.UNDONE, FileEffect.MOVED})
CUT_LINES: Final = "[…]"


class FileSlice(msgspec.Struct, kw_only=True, gc=False):
    """A known part of a file.

    Attributes:
        start: Its first line as it was viewed; 0 where that is not known.
        text: Its lines, with later edits made.
        message: The last message that showed or changed it.
        turn: The turn of that message.
        spots: Texts in it that were edited or looked at by themselves.
        is_edited: True if the file was changed.
        is_stale: True if the file was changed since in an unknown way.
    """

    path: str
    start: int
    text: str
    message: int
    turn: int
    spots: list[str] = []
    is_edited: bool = False
    is_stale: bool = False

    def excerpt_text(self) -> str:
        """All of it where it is short, else the lines around its last spots; "" for none."""
        return self.text if len(self.text) <= MAX_WHOLE_CHARS else self.lines_around_spots()

    def lines_around_spots(self) -> str:
        """The lines around its last spots; "" for none."""
        lines = self.text.split("\n")
        shown: set[int] = set()
        room = MAX_EXCERPT_CHARS
        for spot in reversed(self.spots):
            around = self._lines_around(spot, len(lines)).difference(shown)
            room -= sum(len(lines[place]) for place in around)
            if room < 0:
                break
            shown |= around
        return "\n".join(
            [
                lines[place] if place - 1 in shown or not place else f"{CUT_LINES}\n{lines[place]}"
                for place in sorted(shown)
            ]
        )

    def _lines_around(self, spot: str, total: int) -> set[int]:
        """The places of the lines of a spot and of those around it."""
        position = self.text.find(spot) if spot else -1
        if position < 0:
            return set()
        first = self.text.count("\n", 0, position)
        last = first + spot.count("\n")
        return set(range(max(first - _LINES_AROUND, 0), min(last + _LINES_AROUND + 1, total)))


def file_slices(exchanges: Sequence[ToolExchange]) -> list[FileSlice]:
    """The slices that still stand after some calls, those touched last first."""
    slices_by_path: dict[str, list[FileSlice]] = {}
    for exchange in exchanges:
        is_wrong = exchange.outcome.is_wrong
        if exchange.operations and not (is_wrong or _COMPLAINS(exchange.result)):
            for operation in exchange.operations:
                _apply(slices_by_path, operation, exchange)
        elif is_wrong:
            _doubt_slices(slices_by_path, exchange)
    slices = [one for path_slices in slices_by_path.values() for one in path_slices]
    return list(_new_slices(sorted(slices, key=lambda one: one.message, reverse=True)))


def _new_slices(slices: Iterable[FileSlice]) -> Iterator[FileSlice]:
    """The slices of which most lines stand in none before them."""
    stands: dict[str, set[str]] = {}
    for one in slices:
        lines = {line.strip() for line in one.excerpt_text().split("\n")}
        standing_lines = stands.setdefault(one.path, {""})
        if len(lines - standing_lines) > _MIN_NEW_SHARE * len(lines):
            standing_lines |= lines
            yield one


def _doubt_slices(slices_by_path: dict[str, list[FileSlice]], exchange: ToolExchange) -> None:
    """Notes the slices that a command may have changed before another of its steps failed."""
    for operation in exchange.operations:
        if operation.effect in CHANGES and not operation.is_alone:
            for one in slices_by_path.get(operation.path, ()):
                one.is_stale = True


def _apply(
    slices_by_path: dict[str, list[FileSlice]], operation: FileOperation, exchange: ToolExchange
) -> None:
    """Makes an operation on a file in what is known of it."""
    effect = operation.effect
    slices = slices_by_path.setdefault(operation.path, [])
    if effect in _GONE:
        for path in slices_by_path if operation.path == ALL_FILES else [operation.path]:
            slices_by_path[path] = []
    elif effect is FileEffect.VIEWED or (
        effect is FileEffect.SEARCHED and _CONTEXT(exchange.called.arguments)
    ):
        _add_view(slices, operation, exchange)
    elif effect is FileEffect.CREATED and operation.is_whole:
        slices[:] = [_slice(operation, exchange, operation.text)]
    elif effect is FileEffect.EDITED and not says_not_edited(exchange.result):
        _edit(slices, operation, exchange)


def _slice(
    operation: FileOperation, exchange: ToolExchange, text: str, start: int = 0
) -> FileSlice:
    return FileSlice(
        path=operation.path,
        start=start,
        text=text,
        message=exchange.messages[-1],
        turn=exchange.turn,
        is_edited=operation.effect is not FileEffect.VIEWED,
    )


def _add_view(slices: list[FileSlice], operation: FileOperation, exchange: ToolExchange) -> None:
    """Adds what a result shows; what an older slice shows already only becomes a spot in it."""
    start, text = _file_text(_frames("", exchange.result).strip("\n"))
    start = start or operation.start
    for one in slices:
        if not one.is_stale and text in one.text:
            one.spots.append(text)
            one.message, one.turn = exchange.messages[-1], exchange.turn
            return
    lines = set(text.split("\n"))
    is_edited = any(one.is_edited for one in slices)
    slices[:] = [one for one in slices if not lines.issuperset(one.text.split("\n"))]
    slices.append(_slice(operation, exchange, text, start))
    slices[-1].is_edited = is_edited


def _edit(slices: list[FileSlice], operation: FileOperation, exchange: ToolExchange) -> None:
    """Makes an edit in the slices; where none holds what it replaces, its own text is one."""
    old, new = operation.replaced, operation.text
    is_made = False
    for one in slices:
        one.is_edited = True
        if old and old in one.text:
            one.text = one.text.replace(old, new, 1)
            one.spots.append(new)
            one.message, one.turn = exchange.messages[-1], exchange.turn
            is_made = True
        elif not old or _holds_part(one.text, old, new):
            one.is_stale = True
    if new and not is_made:
        slices.append(_slice(operation, exchange, new))


def _holds_part(text: str, old: str, new: str) -> bool:
    """True if a text holds a telling line that an edit took out."""
    gone = {line.strip() for line in old.split("\n")} - {line.strip() for line in new.split("\n")}
    telling = {line for line in gone if len(line) >= _MIN_TELLING_LINE_CHARS}
    return bool(telling) and not telling.isdisjoint([line.strip() for line in text.split("\n")])


def _file_text(result: str) -> tuple[int, str]:
    """The first line's number, 0 where none is told, and the file's lines in a result."""
    lines = result.split("\n")
    if not any(map(_numbered, lines[: len(lines) // 4 + 1])):  # of 80 % one stands there
        return 0, result
    numbered = [match for line in lines if (match := _numbered(line))]
    if len(numbered) >= _MIN_NUMBERED_SHARE * len(lines):
        return int(numbered[0][1]), "\n".join([match[2] for match in numbered])
    return 0, result
