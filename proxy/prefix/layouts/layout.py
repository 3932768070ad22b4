"""Which text of a feature's instructions goes to which slot: a readable list of moves."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

from proxy.prefix.layouts.holes import Anchor, Hole, Words
from proxy.prefix.layouts.order import PieceMoves, RequestedMoves
from proxy.prefix.prompts.prompt import RANK, Fingerprint, Prompt, PromptSlot
from proxy.records.amounts import quantity

#: Moves of a layout that are followed; the rest are passed over.
LIMIT: Final = 64
_VARIES: Final = {
    PromptSlot.STABLE: "is the same everywhere",
    PromptSlot.SEMI_STABLE: "varies between conversations",
    PromptSlot.VARIABLE: "varies per call",
}


class LayoutMove(msgspec.Struct, frozen=True, kw_only=True):
    """A run of text, found by what stands around it, and the slot it goes to.

    Attributes:
        before: The unit in front; None for the start of the instructions.
        after: The unit behind; None for their end.
        slot: Where it goes.
        label: What it is called where it stood and where it arrives.
        at: First of its units between the two, blank ones not counted.
        count: How many units it is; 0 for all between the two.
        of: How many units stand between the two; where it is otherwise, all of them move.
        shows: What a reader sees of it.
        calls: Different calls it was seen in.
        conversations: Conversations it was seen in.
        values: Different texts it had.
        saving: What it is expected to save, in nano-dollars per 1,000 calls.
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
    """

    version: int = 0
    moves: tuple[LayoutMove, ...] = ()


class _Run(msgspec.Struct, frozen=True):
    start: int
    end: int
    move: LayoutMove


def find_moves(
    prompt: Prompt, layout: Layout, fingerprint: Fingerprint, declared: PieceMoves | None = None
) -> RequestedMoves:
    """Find the layout's moves in this prompt, and why some are skipped.

    Args:
        prompt: As it was parsed.
        layout: The moves.
        fingerprint: The one the layout was learned with.
        declared: What the caller declares; those texts are the caller's and looked past.

    Raises:
        Unplannable: If a leading message cannot be read.
    """
    moves = layout.moves[:LIMIT]
    if not moves:
        return RequestedMoves(declared or {})
    anchors = [a for move in moves for a in (move.before, move.after) if a is not None]
    words = Words(prompt, anchors, fingerprint, declared or {})
    runs: list[_Run] = []
    notes: list[str] = []
    for hole, group in _holes(moves, words):
        if isinstance(hole, str):
            notes += [f"{move.label} stays: {hole}" for move in group]
        else:
            runs += _runs(words, hole, group)
    kept = list(_apart(sorted(runs, key=lambda run: (run.start, run.end)), notes))
    wish = words.pieces([(run.start, run.end, run.move.slot, run.move.label) for run in kept])
    return RequestedMoves({**wish, **(declared or {})}, tuple(notes))


def _holes(
    moves: Sequence[LayoutMove], words: Words
) -> Iterator[tuple[Hole | str, list[LayoutMove]]]:
    """Each place that moves speak of, or why it cannot be found; with its moves."""
    groups: dict[tuple[Anchor | None, Anchor | None], list[LayoutMove]] = {}
    for move in moves:
        groups.setdefault((move.before, move.after), []).append(move)
    for (before, after), group in groups.items():
        yield words.hole(before, after), sorted(group, key=lambda move: move.at)


def _runs(words: Words, hole: Hole, group: Sequence[LayoutMove]) -> list[_Run]:
    """Which units each move takes."""
    entries = words.entries(hole)
    if all(move.of == len(entries) >= move.at + move.count and move.count for move in group):
        return [
            _Run(entries[move.at][0], entries[move.at + move.count - 1][1], move) for move in group
        ]
    widest = max(group, key=lambda move: RANK[move.slot])
    end = hole.start
    runs = []
    for move in group:
        start, end = end, hole.end if move is widest else end
        runs.append(_Run(start, end, move))
    return runs


def _apart(runs: Sequence[_Run], notes: list[str]) -> Iterator[_Run]:
    """The runs that don't overlap one before; says which do."""
    end = 0
    for run in runs:
        if run.start < end:
            notes.append(f"{run.move.label} stays: it overlaps another move")
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
    return [f"layout {layout.version}: {moves}", *map(_line, layout.moves)]


def _line(move: LayoutMove) -> str:
    dollars = Decimal(move.saving).scaleb(-9).quantize(Decimal("0.0001"))
    return (
        f"{move.label}: {move.shows or 'text'} {_VARIES[move.slot]} → {move.slot.value} slot"
        f" ({quantity(move.values, 'value')} in {quantity(move.calls, 'call')} of"
        f" {quantity(move.conversations, 'conversation')};"
        f" saves ${dollars} per 1,000 calls)"
    )
