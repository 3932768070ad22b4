"""Learns which text of a feature's instructions varies, and which moves would pay."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.layouts.layout import Anchor, Layout, LayoutMove
from proxy.prefix.layouts.samples import (
    ConversationSample,
    PlainEvidence,
    Samples,
    SeenUnit,
)
from proxy.prefix.layouts.skeleton import Column, Gap, find_gaps, group_by_template
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, Fingerprint, PromptSlot

#: Evidence below which nothing is proposed: so many calls, or this many conversations. What
#: changes within one conversation shows in that one; what differs between them, in two.
CALLS: Final = 12
CONVERSATIONS: Final = 10
#: Calls from which on a clock, a date or a UUID moves: its form tells that it varies.
PLAIN_CALLS: Final = 3
#: Tokens a layout must make readable in an average call.
LEAST: Final = 50
#: Changes per further call above which text is taken to vary per call. Where it changes less,
#: its rare change costs less than sending it anew each time.
MIN_CHANGES_PER_CALL: Final = Fraction(1, 10)
#: Share of conversations with a text of their own below which it stays: a few values are each
#: cached by themselves.
MIN_OWN_TEXT_SHARE: Final = Fraction(3, 10)
#: Tokens from which on the step of a cache decides how much of a conversation is read.
_LONG_STEP: Final = 1_024
#: The cache that keeps whole prompts.
_WHOLE_PROMPTS: Final = "prefix-unit"
#: Tokens that a reference and a label cost.
REFERENCE_TOKENS: Final = 20
#: Units around what varies in a single conversation among which an anchor is chosen.
MAX_ANCHOR_DISTANCE_UNITS: Final = 8


class FeatureLearner:
    """Bounded evidence of one feature: team, feature, model family and tools.

    Args:
        fingerprint: The team's.
        tools: Bytes of the tool definitions, which stand in front of the instructions.
        shows: True if layouts may quote the caller's words.
    """

    def __init__(self, fingerprint: Fingerprint, *, tools: int = 0, shows: bool = False) -> None:
        self._tools = tools
        self._samples = Samples(fingerprint, shows=shows)

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return self._samples.size_bytes

    def observe(
        self,
        texts: Sequence[str],
        conversation: bytes,
        now: float,
        *,
        first: bool,
        history: int = 0,
        mark: int = 0,
    ) -> None:
        """Learn from a call.

        Args:
            texts: Its instructions: the texts of its leading system and developer messages.
            conversation: The hash of its conversation.
            now: Seconds.
            first: True if it is the conversation's first call.
            history: Bytes of the conversation behind the instructions.
            mark: Stands for the instructions; 0 for nothing.
        """
        self._samples.add_call(texts, conversation, now, first=first, history=history, mark=mark)

    def observe_without_texts(
        self, conversation: bytes, now: float, *, first: bool, history: int, mark: int
    ) -> bool:
        """Learn from a call without its instructions; False where ``observe`` needs them."""
        return self._samples.observe_without_texts(
            conversation, now, first=first, history=history, mark=mark
        )

    def proposal(self, fresh: Fraction, regime: Regime) -> Layout | None:
        """The moves that would pay, or None: too little evidence, or nothing to gain.

        Args:
            fresh: Price of a token not read from the cache, in nano-dollars.
            regime: The cache of the route.
        """
        moves: list[LayoutMove] = []
        for group in group_by_template(self._samples.conversations):
            if sum(sample.calls for sample in group) >= PLAIN_CALLS:
                moves += _paying_moves(group, self._tools, fresh, regime)
        labelled = [
            msgspec.structs.replace(move, label=f"Detail {number}")
            for number, move in enumerate(moves, 1)
        ]
        return Layout(moves=tuple(labelled)) if labelled else None


class _Hole(msgspec.Struct, frozen=True):
    """Adjacent columns that go to one slot.

    Attributes:
        behind: Bytes of stable text up to the next hole, or to the end.
    """

    gap: Gap
    columns: tuple[Column, ...]
    slot: PromptSlot
    behind: int = 0

    @property
    def size(self) -> int:
        """Bytes that move."""
        return sum(unit.weight for column in self.columns for unit in column.example)

    @property
    def is_plain(self) -> bool:
        """True if the form of all that moves tells that it varies."""
        return all(_plain_kind(column) for column in self.columns)

    @property
    def ends_reading(self) -> bool:
        """True if it varies per call, but not by its form, so that few calls don't move it."""
        return self.slot is PromptSlot.VARIABLE and not self.is_plain

    @property
    def change_rate(self) -> Fraction:
        """Changes of it per further call; 0 where it varies between conversations alone."""
        if self.slot is not PromptSlot.VARIABLE:
            return Fraction(0)
        return max(_change_rate(self.gap, column) for column in self.columns)


def _is_large_enough(group: Sequence[ConversationSample]) -> bool:
    return len(group) >= CONVERSATIONS or sum(sample.calls for sample in group) >= CALLS


def _paying_moves(
    group: Sequence[ConversationSample], tools: int, fresh: Fraction, regime: Regime
) -> list[LayoutMove]:
    """The moves of one template that pay."""
    found = find_gaps(group)
    front, holes = _find_holes(found)
    stable = tools + front + sum(hole.behind for hole in holes)
    reach = _cacheable_calls(group, stable, regime)
    if not _is_large_enough(group):
        end = next((at for at, hole in enumerate(holes) if hole.ends_reading), len(holes))
        if end < len(holes):
            reach = msgspec.structs.replace(reach, history=Fraction(0), resent=Fraction(0))
        holes = [hole for hole in holes[:end] if hole.is_plain]
    gains = _move_gains(group, holes, front + tools if regime.takes_marks else 0, reach)
    while holes and gains[len(holes) - 1] <= 0 and not regime.takes_marks:
        holes.pop()
    if sum(gains[: len(holes)]) < LEAST:
        return []
    worth = fresh * (1 - regime.read) * 1000
    moves = [
        _layout_move(hole, max(0, int(each * worth)))
        for hole, each in zip(holes, gains, strict=False)
    ]
    return [_with_common_anchors(move, found) for move in moves] if len(group) == 1 else moves


class _CacheableCalls(msgspec.Struct, frozen=True):
    """The calls that are long enough to be cached, once no text varies before their conversation.

    Attributes:
        opens: True if a conversation's first call is.
        share: Its share of all calls.
        history: Bytes of the conversation that those that are not first read behind the
            instructions, where what varies stands at the end; for each of all calls.
        resent: The same where nothing varies from one call to the next.
    """

    opens: bool
    share: Fraction
    history: Fraction
    resent: Fraction


def _cacheable_calls(
    group: Sequence[ConversationSample], stable: int, regime: Regime
) -> _CacheableCalls:
    """The calls that are long enough, where so many bytes of instructions and tools never vary."""
    calls = sum(sample.calls for sample in group)
    lack = regime.least * BYTES_PER_TOKEN - stable
    opens, step = lack <= 0, regime.block * BYTES_PER_TOKEN if regime.block >= _LONG_STEP else 1
    beyond = [sample.later_lengths(max(0, lack), stable, step) for sample in group]
    long = sum(count for count, _, _ in beyond) + opens * sum(sample.opened for sample in group)
    resent = Fraction(sum(last for _, last, _ in beyond), calls)
    # A cache of whole prompts finds none that ends in text of its own: it reads what two calls had
    # in common, so the conversation up to the call before the last.
    earlier = Fraction(sum(older for _, _, older in beyond), calls)
    history = earlier if regime.name == _WHOLE_PROMPTS else resent
    return _CacheableCalls(opens, Fraction(long, calls), history, resent)


def _move_gains(
    group: Sequence[ConversationSample], holes: Sequence[_Hole], front: int, reach: _CacheableCalls
) -> list[Fraction]:
    """Tokens each move makes readable in an average call, once those before it are made.

    What stands behind a text that changes is read, as it is sent, only while that stays: so it is
    with the text itself, which nobody reads once it stands at the end, and with the conversation.
    Text that varies between conversations alone is read by all but their first calls. Calls that
    are too short to be cached read nothing either way, but are sent with the words that a move
    costs.
    """
    calls = sum(sample.calls for sample in group)
    first = Fraction(sum(sample.opened for sample in group), calls) * reach.opens
    found: list[Fraction] = []
    rate, varies = Fraction(0), False
    for number, hole in enumerate(holes):
        before, rate = rate, max(rate, hole.change_rate)
        size = hole.behind + (0 if number else front)
        unread = first * max(map(_own_share, hole.columns)) + (reach.share - first) * rate
        novelty = max(map(_novelty, hole.columns)) if hole.slot is PromptSlot.VARIABLE else 1
        gain = size * unread * novelty
        if hole.slot is PromptSlot.VARIABLE:
            gain -= hole.size * (reach.share - unread)
            gain += reach.resent * (rate - before)
            gain += 0 if varies else reach.history - reach.resent
            varies = True
        words = REFERENCE_TOKENS if hole.behind or hole.slot is PromptSlot.VARIABLE else 0
        found.append(gain / BYTES_PER_TOKEN - words)
    return found


def _find_holes(every: Sequence[Gap]) -> tuple[int, list[_Hole]]:
    """Bytes of stable text before the first hole, and the holes in their order."""
    front = 0
    found: list[_Hole] = []
    for gap in every:
        runs = list(_movable_columns(gap))
        leaves = sum(u.weight for run in runs for c in run.columns for u in c.example)
        rest = gap.weight - leaves + (gap.after.weight if gap.after else 0)
        found += runs
        if found:
            found[-1] = msgspec.structs.replace(found[-1], behind=found[-1].behind + rest)
        else:
            front += rest
    return front, found


def _movable_columns(gap: Gap) -> Iterator[_Hole]:
    """The columns of a gap that should move, adjacent ones of one slot together."""
    run: list[Column] = []
    slot = None
    for column in gap.columns:
        own = _target_slot(gap, column)
        if run and (own is not slot or column.at != run[-1].at + 1):
            yield _Hole(gap, tuple(run), slot or PromptSlot.STABLE)
            run = []
        if own is not None:
            run.append(column)
        slot = own
    if run:
        yield _Hole(gap, tuple(run), slot or PromptSlot.STABLE)


def _target_slot(gap: Gap, column: Column) -> PromptSlot | None:
    """The slot that a column should move to; None where it should stay."""
    if _change_rate(gap, column) > MIN_CHANGES_PER_CALL:
        return PromptSlot.VARIABLE
    return PromptSlot.SEMI_STABLE if _own_share(column) >= MIN_OWN_TEXT_SHARE else None


def _change_rate(gap: Gap, column: Column) -> Fraction:
    """Changes per further call of its conversations; a clock's is 1 before there were any."""
    further = sum(sample.later_calls for sample in gap.samples)
    if not further:
        return Fraction(_plain_kind(column) is PlainEvidence.CLOCK)
    changes = sum(
        sample.changes * _differing_share(values)
        for sample, values in zip(gap.samples, column.values, strict=True)
    )
    return min(Fraction(1), Fraction(changes) / further)


def _plain_kind(column: Column) -> PlainEvidence:
    """The kind of text that a column is by its form."""
    kinds = {unit.evidence for unit in column.example}
    return kinds.pop() if len(kinds) == 1 else PlainEvidence.NONE


def _differing_share(values: Sequence[tuple[bytes, ...]]) -> Fraction:
    """The share of pairs of a conversation's variants that differ here."""
    pairs = list(combinations(values, 2))
    return Fraction(sum(a != b for a, b in pairs), len(pairs) or 1)


def _own_share(column: Column) -> Fraction:
    """The share of conversations that have a text of their own here."""
    return Fraction(len({values[0] for values in column.values}), len(column.values))


def _novelty(column: Column) -> Fraction:
    """The share of texts seen here that no other call had: few values are each cached."""
    values = [value for values in column.values for value in values]
    return Fraction(len(set(values)), len(values))


def _layout_move(hole: _Hole, saving: int) -> LayoutMove:
    gap, columns = hole.gap, hole.columns
    return LayoutMove(
        before=_unit_anchor(gap.before),
        after=_unit_anchor(gap.after),
        slot=hole.slot,
        label="",
        at=columns[0].at,
        count=len(columns) if columns[0].of else 0,
        of=columns[0].of,
        shows=_visible_lines(columns),
        calls=sum(sample.calls for sample in gap.samples),
        conversations=len(gap.samples),
        values=max(len({v for values in c.values for v in values}) for c in columns),
        saving=saving,
    )


def _with_common_anchors(move: LayoutMove, found: Sequence[Gap]) -> LayoutMove:
    """The move of a single conversation, known by text that others are likely to have too.

    A line beside what varies may be this conversation's own; the start of the instructions is not,
    and the longest line nearby is more likely a rule than a name.
    """
    here = [(_unit_anchor(gap.before), _unit_anchor(gap.after)) for gap in found]
    at = here.index((move.before, move.after))
    if not move.of:
        return move
    ahead, before = 0, at
    while before and not found[before - 1].columns and at - before < MAX_ANCHOR_DISTANCE_UNITS:
        before -= 1
        ahead += found[before].units + 1
    starts = found[before].before is None
    after, behind, passed = at, 0, 0
    for far in range(at + 1, min(at + MAX_ANCHOR_DISTANCE_UNITS, len(found))):
        passed += found[far].units + 1
        if found[far].columns or found[far].after is None:
            break
        if _unit_length(found[far]) > _unit_length(found[after]):
            after, behind = far, passed
    return msgspec.structs.replace(
        move,
        before=None if starts else move.before,
        after=_unit_anchor(found[after].after),
        at=move.at + (ahead if starts else 0),
        of=move.of + behind + (ahead if starts else 0),
    )


def _unit_length(gap: Gap) -> int:
    """Characters of the unit behind a gap."""
    return gap.after.size if gap.after else 0


def _unit_anchor(unit: SeenUnit | None) -> Anchor | None:
    return Anchor(unit.print.hex(), unit.size) if unit else None


def _visible_lines(columns: Sequence[Column]) -> str:
    """The description of columns for a reader: their lines, and how the first begins."""
    first, last = columns[0], columns[-1]
    end = last.line + max(0, sum(unit.lines for unit in last.example) - 1)
    lines = f"line {first.line}" if end == first.line else f"lines {first.line} to {end}"
    words = first.example[0].words if first.example else ""
    name, colon, _ = words.partition(":")
    return f"{lines} `{name}{colon} …`" if words else lines
