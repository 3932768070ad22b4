"""A layout: which text of a feature's instructions goes to which slot, as a readable list of moves.

Places in the instructions are found by fingerprints of the units around them.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, islice
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.layouts.order import PieceMoves, RequestedMoves
from proxy.prefix.layouts.samples import split_units
from proxy.prefix.layouts.text_pieces import TextPiece, keeps_form
from proxy.prefix.prompts.prompt import (
    AUTHORITY,
    RANK,
    Fingerprint,
    Prompt,
    PromptSlot,
    content_parts,
    parse_message,
    part_text,
)
from proxy.records.amounts import quantity

#: Texts of a prompt that are looked at; those behind stay as they are.
MAX_TEXTS: Final = 64
#: Characters above which text is taken for a document, which may be anybody's.
MAX_DETAIL_CHARS: Final = 200
#: Moves of a layout that are followed; the rest are passed over.
MAX_MOVES: Final = 64
_VARIES: Final = {
    PromptSlot.STABLE: ("is the same everywhere", "are the same everywhere"),
    PromptSlot.SEMI_STABLE: ("varies between conversations", "vary between conversations"),
    PromptSlot.VARIABLE: ("varies per call", "vary per call"),
}


class Anchor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unit that a place is known by.

    Attributes:
        print: Its fingerprint without the white space around it, in hex.
        size: Its characters without the white space around it; only such units are compared.
        nth: The repetition that it is, from 0.
        total: Number of times that the unit stands in the instructions; with another number the
            place is not known.
    """

    print: str
    size: int
    nth: int = 0
    total: int = 1


class Hole(NamedTuple):
    """A run of units."""

    start: int
    end: int


class TextRun(NamedTuple):
    """A run of units, or of a text's characters, that goes to a slot."""

    start: int
    end: int
    slot: PromptSlot
    label: str


class _Text(msgspec.Struct, frozen=True):
    """A text of the leading messages, and which units are its own."""

    place: tuple[int, int]
    text: str
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
        for index, part in enumerate(content_parts(message.content)):
            if text := part_text(part):
                yield (number, index), text


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
        for place, text in islice(every, MAX_TEXTS):
            units = split_units(text)
            ends = tuple(accumulate(map(len, units)))
            self._texts.append(_Text(place, text, len(self._units), ends))
            self._units += units
        self._found = self._anchor_positions(anchors, fingerprint)

    def _anchor_positions(
        self, anchors: Sequence[Anchor], fingerprint: Fingerprint
    ) -> dict[str, list[int]]:
        sizes = frozenset(anchor.size for anchor in anchors)
        positions: dict[str, list[int]] = {anchor.print: [] for anchor in anchors}
        bare = [unit.strip() for unit in self._units]
        for number in [number for number, unit in enumerate(bare) if len(unit) in sizes]:
            if (mark := fingerprint(bare[number].encode()).hex()) in positions:
                positions[mark].append(number)
        return positions

    def find_hole(self, before: Anchor | None, after: Anchor | None) -> Hole | str:
        """The units between two anchors, or why there is no such place."""
        start, end = 0, len(self._units)
        if before is not None:
            stands = self._found[before.print]
            if len(stands) != before.total:
                return _anchor_problem("before", stands)
            start = stands[before.nth] + 1
        if after is not None:
            stands = self._found[after.print]
            if len(stands) != after.total:
                return _anchor_problem("after", stands)
            end = stands[after.nth]
        return Hole(start, end) if start <= end else "the lines around it changed places"

    def worded_units(self, hole: Hole) -> list[tuple[int, int]]:
        """The units of a place that hold words, each with the blank ones behind it."""
        spans: list[tuple[int, int]] = []
        start = hole.start
        for number in range(hole.start, hole.end):
            if self._units[number].isspace() and spans:
                spans[-1] = (spans[-1][0], number + 1)
            elif not self._units[number].isspace():
                spans.append((start, number + 1))
            start = number + 1 if spans else start
        return spans

    def split_texts(self, runs: Sequence[TextRun]) -> dict[tuple[int, int], tuple[TextPiece, ...]]:
        """The texts that runs of units are taken from, in pieces; runs are apart and in order."""
        pieces: dict[tuple[int, int], tuple[TextPiece, ...]] = {}
        for one in self._texts:
            cuts = [cut for run in runs if (cut := _character_run(one, run)) is not None]
            if cuts:
                pieces[one.place] = tuple(_pieces_at_cuts(one.text, cuts))
        return pieces


def _anchor_problem(side: str, stands: Sequence[int]) -> str:
    count = len(stands)
    times = "twice" if count == 2 else "once" if count == 1 else f"{count} times"
    return f"the line {side} it {f'stands {times}' if count else 'is gone'}"


def _character_run(one: _Text, run: TextRun) -> TextRun | None:
    """The characters of a text that a run takes; None for none."""
    start, end = run.start, run.end
    until = one.first + len(one.ends)
    if start == end:
        # Nothing is there: the place is behind the unit before it, and in front of all at 0.
        here = one.first < start <= until or start == one.first == 0
        offset = one.ends[start - one.first - 1] if here and start > one.first else 0
        return run._replace(start=offset, end=offset) if here else None
    low, high = max(start, one.first), min(end, until)
    if low >= high:
        return None
    begin = one.ends[low - one.first - 1] if low > one.first else 0
    return run._replace(start=begin, end=one.ends[high - one.first - 1])


def _pieces_at_cuts(text: str, cuts: Sequence[TextRun]) -> list[TextPiece]:
    pieces: list[TextPiece] = []
    offset = 0
    for start, end, slot, label in cuts:
        pieces.append(TextPiece(PromptSlot.STABLE, text[offset:start]))
        is_document = end - start > MAX_DETAIL_CHARS
        pieces.append(TextPiece(slot, text[start:end], label, is_document))
        offset = end
    return [*pieces, TextPiece(PromptSlot.STABLE, text[offset:])]


class LayoutMove(msgspec.Struct, frozen=True, kw_only=True):
    """A run of text, found by what stands around it, and the slot it goes to.

    Attributes:
        before: The unit in front; None for the start of the instructions.
        after: The unit behind; None for their end.
        label: Name of it where it stood and where it arrives.
        at: First of its units between the two, blank ones not counted.
        count: Number of units in it; 0 for all between the two.
        of: Number of units between the two; where it is otherwise, all of them move.
        values: Different texts it had.
        saving: Expected savings beside the layout in force, in nano-dollars per 1,000 calls.
    """

    before: Anchor | None
    after: Anchor | None
    slot: PromptSlot
    label: str
    at: int = 0
    count: int = 0
    of: int = 0
    shows: str = ""
    calls: int = 0
    conversations: int = 0
    values: int = 0
    saving: int = 0


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one feature; the same on every replica.

    Attributes:
        version: Counted by who keeps it; 0 for a proposal.
        held_cost: Cost of prompts with the layout that was in force when it was proposed, in
            nano-dollars per 1,000 calls.
        is_early: True if it is not known yet how long conversations are, so that it saves at least
            what its moves say.
    """

    version: int = 0
    moves: tuple[LayoutMove, ...] = ()
    held_cost: int = 0
    is_early: bool = False

    @property
    def calls(self) -> int:
        """Calls that speak for it."""
        return max((move.calls for move in self.moves), default=0)

    @property
    def saved_nanos(self) -> int:
        """Expected savings of all moves, in nano-dollars per 1,000 calls."""
        return sum(move.saving for move in self.moves)


def find_moves(
    prompt: Prompt, layout: Layout, fingerprint: Fingerprint, declared: PieceMoves | None = None
) -> RequestedMoves:
    """Find the layout's moves in this prompt, and why some are skipped.

    Texts with ``declared`` moves are the caller's and passed over.

    Raises:
        Unplannable: If a leading message cannot be read.
    """
    moves = layout.moves[:MAX_MOVES]
    if not moves:
        return RequestedMoves(declared or {})
    anchors = [a for move in moves for a in (move.before, move.after) if a is not None]
    words = Words(prompt, anchors, fingerprint, declared or {})
    runs: list[TextRun] = []
    notes: list[str] = []
    for hole, group in _find_holes(moves, words):
        if isinstance(hole, str):
            notes += [f"{move.label} stays: {hole}" for move in group]
        else:
            runs += _unit_runs(words, hole, group)
    runs.sort(key=lambda run: (run.start, run.end))
    texts = words.split_texts(list(_without_overlaps(runs, notes)))
    valid = {place: pieces for place, pieces in texts.items() if _keeps_form(pieces, notes)}
    return RequestedMoves({**valid, **(declared or {})}, tuple(notes))


def _keeps_form(pieces: Sequence[TextPiece], notes: list[str]) -> bool:
    """True if a text stays valid JSON or XML without the pieces that leave; says where it won't."""
    if keeps_form(pieces):
        return True
    notes += [
        f"{one.label} stays: its text would be no valid JSON or XML" for one in pieces if one.label
    ]
    return False


def _find_holes(
    moves: Sequence[LayoutMove], words: Words
) -> Iterator[tuple[Hole | str, list[LayoutMove]]]:
    """Each place that moves speak of, or why it cannot be found; with its moves."""
    groups: dict[tuple[Anchor | None, Anchor | None], list[LayoutMove]] = {}
    for move in moves:
        groups.setdefault((move.before, move.after), []).append(move)
    for (before, after), group in groups.items():
        yield words.find_hole(before, after), sorted(group, key=lambda move: move.at)


def _unit_runs(words: Words, hole: Hole, group: Sequence[LayoutMove]) -> list[TextRun]:
    """The units that each move takes."""
    entries = words.worded_units(hole)
    if all(move.of == len(entries) >= move.at + move.count and move.count for move in group):
        spans = (entries[move.at : move.at + move.count] for move in group)
        return [
            TextRun(span[0][0], span[-1][1], move.slot, move.label)
            for span, move in zip(spans, group, strict=True)
        ]
    widest = max(group, key=lambda move: RANK[move.slot])
    end = hole.start
    runs = []
    for move in group:
        start, end = end, hole.end if move is widest else end
        runs.append(TextRun(start, end, move.slot, move.label))
    return runs


def _without_overlaps(runs: Sequence[TextRun], notes: list[str]) -> Iterator[TextRun]:
    """The runs that don't overlap one before; says which do."""
    end = 0
    for run in runs:
        if run.start < end:
            notes.append(f"{run.label} stays: it overlaps another move")
        else:
            end = run.end
            yield run


@lru_cache(1_024)
def read_layout(raw: str) -> Layout | None:
    """Decode a stored layout; None if it cannot be read, for it may be from an older release."""
    try:
        return msgspec.json.decode(raw, type=Layout)
    except msgspec.DecodeError:
        return None


def layout_lines(layout: Layout) -> list[str]:
    """The layout in lines to read."""
    moves = quantity(len(layout.moves), "move")
    lines = [_move_line(move, is_early=layout.is_early) for move in layout.moves]
    return [f"layout {layout.version}: {moves}", *lines]


def _move_line(move: LayoutMove, *, is_early: bool) -> str:
    dollars = Decimal(move.saving).scaleb(-9).quantize(Decimal("0.0001"))
    saves = f"saves {'at least ' if is_early else ''}${dollars} per 1,000 calls"
    if is_early and not move.saving:
        saves = "savings not known yet"
    varies = _VARIES[move.slot][move.shows.startswith("lines ")]
    return (
        f"{move.label}: {move.shows or 'text'} {varies} → {move.slot.value} slot"
        f" ({quantity(move.values, 'value')} in {quantity(move.calls, 'call')} of"
        f" {quantity(move.conversations, 'conversation')}; {saves})"
    )
