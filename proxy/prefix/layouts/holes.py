"""Places in the instructions, found by fingerprints of the units around them."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final

import msgspec

from proxy.prefix.layouts.order import PieceMoves, TextPiece
from proxy.prefix.layouts.units import split_units
from proxy.prefix.prompts.prompt import (
    AUTHORITY,
    Fingerprint,
    Prompt,
    PromptSlot,
    content_parts,
    parse_message,
    part_text,
)

#: Texts of a prompt that are looked at; those behind stay as they are.
TEXTS: Final = 64
#: Where a run begins and ends, the slot it goes to, and its label.
Run = tuple[int, int, PromptSlot, str]


class Anchor(msgspec.Struct, frozen=True):
    """A unit that a place is known by.

    Attributes:
        print: Its fingerprint without the white space around it, in hex.
        size: Its characters without the white space around it; only such units are compared.
    """

    print: str
    size: int


class Hole(msgspec.Struct, frozen=True):
    """A run of units."""

    start: int
    end: int


class _Text(msgspec.Struct, frozen=True):
    """A text of the leading messages, and which units are its own."""

    at: tuple[int, int]
    said: str
    first: int
    ends: tuple[int, ...]


def instructions(prompt: Prompt) -> Iterator[tuple[tuple[int, int], str]]:
    """Each text of the leading messages that is not empty, with its (message, part).

    Raises:
        Unplannable: If a leading message cannot be read.
    """
    for number, raw in enumerate(prompt.messages):
        message = parse_message(raw)
        if message.role not in AUTHORITY:
            return
        for at, part in enumerate(content_parts(message.content)):
            if said := part_text(part):
                yield (number, at), said


class Words:
    """The units of a prompt's instructions, in order, and where the anchors stand."""

    def __init__(
        self,
        prompt: Prompt,
        anchors: Sequence[Anchor],
        fingerprint: Fingerprint,
        passed: PieceMoves,
    ) -> None:
        self._texts: list[_Text] = []
        self._units: list[str] = []
        every = (one for one in instructions(prompt) if one[0] not in passed)
        for at, said in islice(every, TEXTS):
            found = split_units(said)
            ends = tuple(accumulate(map(len, found)))
            self._texts.append(_Text(at, said, len(self._units), ends))
            self._units += found
        self._found = self._standing(anchors, fingerprint)

    def _standing(
        self, wanted: Sequence[Anchor], fingerprint: Fingerprint
    ) -> dict[Anchor, list[int]]:
        sizes = frozenset(anchor.size for anchor in wanted)
        found: dict[Anchor, list[int]] = {anchor: [] for anchor in wanted}
        bare = [unit.strip() for unit in self._units]
        for number in [number for number, unit in enumerate(bare) if len(unit) in sizes]:
            unit = bare[number]
            anchor = Anchor(fingerprint(unit.encode()).hex(), len(unit))
            if anchor in found:
                found[anchor].append(number)
        return found

    def hole(self, before: Anchor | None, after: Anchor | None) -> Hole | str:
        """The units between two anchors, or why there is no such place."""
        start, end = 0, len(self._units)
        if before is not None:
            stands = self._found[before]
            if len(stands) != 1:
                return _why("before", stands)
            start = stands[0] + 1
        if after is not None:
            stands = self._found[after]
            if len(stands) != 1:
                return _why("after", stands)
            end = stands[0]
        return Hole(start, end) if start <= end else "the lines around it changed places"

    def entries(self, hole: Hole) -> list[tuple[int, int]]:
        """The units of a place that hold words, each with the blank ones behind it."""
        found: list[tuple[int, int]] = []
        start = hole.start
        for number in range(hole.start, hole.end):
            if self._units[number].isspace() and found:
                found[-1] = (found[-1][0], number + 1)
            elif not self._units[number].isspace():
                found.append((start, number + 1))
            start = number + 1 if found else start
        return found

    def pieces(self, runs: Sequence[Run]) -> dict[tuple[int, int], tuple[TextPiece, ...]]:
        """The texts that runs of units are taken from, in pieces; runs are apart and in order."""
        found: dict[tuple[int, int], tuple[TextPiece, ...]] = {}
        for one in self._texts:
            cuts = [cut for run in runs if (cut := _cut(one, run)) is not None]
            if cuts:
                found[one.at] = tuple(_pieces(one.said, cuts))
        return found


def _why(side: str, stands: Sequence[int]) -> str:
    return f"the line {side} it {'stands twice' if stands else 'is gone'}"


def _cut(one: _Text, run: Run) -> Run | None:
    """The characters of a text that a run takes; None for none."""
    start, end, slot, label = run
    until = one.first + len(one.ends)
    if start == end:
        # Nothing is there: the place is behind the unit before it, and in front of all at 0.
        here = one.first < start <= until or start == one.first == 0
        at = one.ends[start - one.first - 1] if here and start > one.first else 0
        return (at, at, slot, label) if here else None
    low, high = max(start, one.first), min(end, until)
    if low >= high:
        return None
    begin = one.ends[low - one.first - 1] if low > one.first else 0
    return begin, one.ends[high - one.first - 1], slot, label


def _pieces(said: str, cuts: Sequence[Run]) -> list[TextPiece]:
    found: list[TextPiece] = []
    at = 0
    for start, end, slot, label in cuts:
        found.append(TextPiece(PromptSlot.STABLE, said[at:start]))
        found.append(TextPiece(slot, said[start:end], label))
        at = end
    return [*found, TextPiece(PromptSlot.STABLE, said[at:])]
