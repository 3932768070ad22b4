"""Learns which text of a feature's instructions varies, and which moves would pay."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.layouts.gains import LayoutGains, VaryingText, differing_share
from proxy.prefix.layouts.layout import MAX_DETAIL_CHARS, Anchor, Layout, LayoutMove
from proxy.prefix.layouts.samples import ConversationSample, Samples
from proxy.prefix.layouts.skeleton import Column, Gap, Neighbour, find_gaps, group_by_template
from proxy.prefix.layouts.template_calls import template_calls
from proxy.prefix.layouts.text_pieces import PlainEvidence
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, Fingerprint, PromptSlot

#: Evidence below which nothing is proposed: so many calls, or this many conversations. What
#: changes within one conversation shows in that one; what differs between them, in two.
CALLS: Final = 12
CONVERSATIONS: Final = 10
#: Calls after which a clock, a date or a UUID that changed moves: its form tells that it varies.
PLAIN_CALLS: Final = 2
#: Tokens a layout must make readable in an average call of a template.
LEAST: Final = 50
#: Most bytes of a token that are believed of what a provider counts.
MAX_BYTES_PER_TOKEN: Final = 8.0
#: Share of a call's cost that a layout must save: less is lost again where conversations begin.
MIN_SAVED_SHARE: Final = 0.1
#: Changes per further call above which text is taken to vary per call. Where it changes less,
#: its rare change costs less than sending it anew each time.
MIN_CHANGES_PER_CALL: Final = 0.1
#: Share of conversations with a text of their own below which it stays: a few values are each
#: cached by themselves.
MIN_OWN_TEXT_SHARE: Final = Fraction(3, 10)
#: Topics in a label, and the labels of a long text and of a short one without any.
_MAX_TOPICS: Final = 2
_LONG_TEXT: Final = "Document"
_NO_TOPIC: Final = "Detail"
#: Bytes of a gap that is remembered, and of each conversation's values in a column.
_GAP_BYTES, _VALUE_BYTES = 900, 250


class ProposalTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The cache and price that a proposal is for.

    Attributes:
        fresh: Price of a token not read from the cache, in nano-dollars.
        held_slot: The slot in which the layout in force puts the text of a move.
    """

    fresh: Fraction
    regime: Regime
    held_slot: Callable[[LayoutMove], PromptSlot] = lambda _: PromptSlot.STABLE


class FeatureLearner:
    """Bounded evidence of one feature: team, feature, model family and tools.

    Args:
        tools: Bytes of the tool definitions, which stand in front of the instructions.
        shows: True if layouts may quote the caller's words.
    """

    def __init__(self, fingerprint: Fingerprint, *, tools: int = 0, shows: bool = False) -> None:
        self._tools = tools
        self._bytes = self._tokens = self._priced = 0
        self._cost = 0.0
        self.samples = Samples(fingerprint, shows=shows)
        self._templates: Sequence[_Template] = ()
        self._templates_version = 0

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return self.samples.size_bytes + sum(map(_template_bytes, self._templates))

    def record_tokens(self, size: int, tokens: int) -> None:
        """Note the tokens that a call of so many bytes was counted."""
        self._bytes += size
        self._tokens += tokens

    def record_cost(self, cost: float) -> None:
        """Note the cost of a call that was sent without a layout, in fresh tokens."""
        self._cost += cost
        self._priced += 1

    def proposal(self, target: ProposalTarget) -> Layout | None:
        """The moves that would pay, or None: too little evidence, or nothing to gain.

        Each says what it saves beside the layout in force.
        """
        calls = self.calls
        counted = self._bytes / self._tokens if self._tokens else BYTES_PER_TOKEN
        per_token = min(max(counted, 1.0), MAX_BYTES_PER_TOKEN)
        moves: list[LayoutMove] = []
        held_cost, is_early = 0, False
        for template in self._known_templates():
            here = sum(sample.calls for sample in template.group)
            if here < PLAIN_CALLS:
                continue
            group_moves = _group_moves(template, self._tools, target, per_token)
            if group_moves is not None:
                worth = target.fresh * here / calls
                more = max(0.0, 1 - group_moves.held_saved / group_moves.saved) * group_moves.sure
                moves += [
                    msgspec.structs.replace(move, saving=int(move.saving * worth * more))
                    for move in group_moves.moves
                ]
                held_cost += int(group_moves.held_cost * worth * 1000)
                is_early = is_early or group_moves.is_early
        layout = Layout(moves=tuple(moves), held_cost=held_cost, is_early=is_early)
        return self._within_cost(layout, target.fresh) if moves else None

    def _known_templates(self) -> Sequence["_Template"]:
        """The templates; found anew only where other instructions are sampled by now."""
        if self._templates_version != self.samples.version:
            groups = group_by_template(self.samples.conversations)
            self._templates = [_read_template(group) for group in groups]
            self._templates_version = self.samples.version
        return self._templates

    def _within_cost(self, layout: Layout, fresh: Fraction) -> Layout:
        """The layout, saving no more than calls cost so far.

        It is reckoned for calls to come, which may be longer. Nobody believes that calls save more
        than they cost, so it then saves "at least" that.
        """
        limit = int(fresh * Fraction(self._cost) / max(1, self._priced) * 1000)
        saved = layout.saved_nanos
        if not self._priced or saved <= limit:
            return layout
        moves = tuple(
            msgspec.structs.replace(move, saving=move.saving * limit // saved)
            for move in layout.moves
        )
        return msgspec.structs.replace(layout, moves=moves, is_early=True)

    @property
    def calls(self) -> int:
        """Calls of the conversations that are kept."""
        return sum(sample.calls for sample in self.samples.conversations)


class _Template(NamedTuple):
    """A template, and where its conversations' instructions differ.

    Attributes:
        group: Its conversations.
        samples: Those that the values of columns stand for; all where nothing differs.
        front: Bytes of stable text before the first gap.
        gaps: Gaps with columns, and the bytes of stable text behind each.
    """

    group: Sequence[ConversationSample]
    samples: Sequence[ConversationSample]
    front: int
    gaps: Sequence[tuple[Gap, int]]


def _read_template(group: Sequence[ConversationSample]) -> _Template:
    every = find_gaps(group)
    front = 0
    gaps: list[tuple[Gap, int]] = []
    for gap in every:
        behind = gap.after.unit.weight if gap.after else 0
        if gap.columns:
            gaps.append((gap, behind))
        elif gaps:
            gaps[-1] = (gaps[-1][0], gaps[-1][1] + gap.weight + behind)
        else:
            front += gap.weight + behind
    return _Template(group, every[0].samples if every else group, front, gaps)


def _template_bytes(template: _Template) -> int:
    values = sum(len(column.values) for gap, _ in template.gaps for column in gap.columns)
    return _GAP_BYTES * len(template.gaps) + _VALUE_BYTES * values


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
    def is_plain(self) -> bool:
        """True if the form of all that moves tells that it varies."""
        return all(_plain_kind(column) for column in self.columns)

    @property
    def ends_reading(self) -> bool:
        """True if it varies per call, but not by its form, so that few calls don't move it."""
        return self.slot is PromptSlot.VARIABLE and not self.is_plain

    def varying_text(self) -> VaryingText:
        """It, for what calls read."""
        columns = zip(*(column.values for column in self.columns), strict=True)
        return VaryingText(
            size=_size(self.columns),
            behind=self.behind,
            values=tuple(tuple(map(hash, zip(*values, strict=True))) for values in columns),
            is_clock=any(_plain_kind(c) is PlainEvidence.CLOCK for c in self.columns),
        )


class _GroupMoves(NamedTuple):
    """The moves of one template, with the fresh tokens of 1,000 calls that each saves.

    Attributes:
        saved: Fresh tokens that all of them save an average call.
        held_saved: The same of the layout in force.
        held_cost: Fresh tokens that an average call costs with that layout.
        is_early: True if it is not known yet how long conversations are.
        sure: Share of the savings that comes however long they are.
    """

    moves: Sequence[LayoutMove]
    saved: float
    held_saved: float
    held_cost: float
    is_early: bool
    sure: float


def _group_moves(
    template: _Template, tools: int, target: ProposalTarget, per_token: float
) -> _GroupMoves | None:
    """The moves of one template; None where none would pay."""
    front, holes = _find_holes(template)
    if not holes:
        return None
    moves = [_layout_move(hole) for hole in holes]
    texts = [hole.varying_text() for hole in holes]
    calls = template_calls(template.samples, tools, front, per_token)
    gains = LayoutGains(calls, texts, target.regime)
    stay = [PromptSlot.STABLE] * len(holes)
    slots = gains.best_slots(_allowed_slots(template.group, holes))
    as_sent, best = gains.saved_tokens(stay), gains.saved_tokens(slots)
    least = LEAST * float(1 - target.regime.read)
    if best - as_sent < max(least, MIN_SAVED_SHARE * (gains.average_tokens - as_sent)):
        return None
    held_saved = gains.saved_tokens([target.held_slot(move) for move in moves])
    priced_moves: list[LayoutMove] = []
    before, done = as_sent, list(stay)
    for index, move in enumerate(moves):
        if slots[index] is not PromptSlot.STABLE:
            done[index] = slots[index]
            after = max(before, gains.saved_tokens(done))
            priced_moves.append(msgspec.structs.replace(move, saving=int(1000 * (after - before))))
            before = after
    return _GroupMoves(
        moves=priced_moves,
        saved=best - as_sent,
        held_saved=held_saved - as_sent,
        held_cost=gains.average_tokens - held_saved,
        is_early=calls.is_early,
        sure=gains.sure_share(slots),
    )


def _allowed_slots(group: Sequence[ConversationSample], holes: Sequence[_Hole]) -> list[PromptSlot]:
    """The slots that texts may move to, by how many calls were seen."""
    slots = [hole.slot for hole in holes]
    if len(group) >= CONVERSATIONS or sum(sample.calls for sample in group) >= CALLS:
        return slots
    end = next((index for index, hole in enumerate(holes) if hole.ends_reading), len(holes))
    return [
        slot if index < end and holes[index].is_plain else PromptSlot.STABLE
        for index, slot in enumerate(slots)
    ]


def _find_holes(template: _Template) -> tuple[int, list[_Hole]]:
    """Bytes of stable text before the first hole, and the holes in their order."""
    front = template.front
    holes: list[_Hole] = []
    for gap, behind in template.gaps:
        runs = list(_movable_columns(gap))
        leaves = sum(_size(run.columns) for run in runs)
        rest = gap.weight - leaves + behind
        holes += runs
        if holes:
            holes[-1] = msgspec.structs.replace(holes[-1], behind=holes[-1].behind + rest)
        else:
            front += rest
    return front, holes


def _movable_columns(gap: Gap) -> Iterator[_Hole]:
    """The columns of a gap that should move, adjacent ones of one slot together."""
    run: list[Column] = []
    slot = None
    for column in gap.columns:
        own = _target_slot(gap, column)
        if run and (own is not slot or column.index != run[-1].index + 1):
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
    own_share = Fraction(len({values[0] for values in column.values}), len(column.values))
    return PromptSlot.SEMI_STABLE if own_share >= MIN_OWN_TEXT_SHARE else None


def _change_rate(gap: Gap, column: Column) -> float:
    """Changes per further call of its conversations; a clock's is 1 before there were any."""
    further = sum(sample.followed for sample in gap.samples)
    if not further:
        return float(_plain_kind(column) is PlainEvidence.CLOCK)
    changes = sum(
        sample.changes * differing_share(values)
        for sample, values in zip(gap.samples, column.values, strict=True)
    )
    return min(1.0, changes / further)


def _plain_kind(column: Column) -> PlainEvidence:
    """The kind of text that a column is by its form."""
    kinds = {unit.evidence for unit in column.example}
    return kinds.pop() if len(kinds) == 1 else PlainEvidence.NONE


def _layout_move(hole: _Hole) -> LayoutMove:
    gap, columns = hole.gap, hole.columns
    return LayoutMove(
        before=_unit_anchor(gap.before),
        after=_unit_anchor(gap.after),
        slot=hole.slot,
        label=_label(columns),
        at=columns[0].index,
        count=len(columns) if columns[0].of else 0,
        of=columns[0].of,
        shows=_visible_lines(columns),
        calls=sum(sample.calls for sample in gap.samples),
        conversations=len(gap.samples),
        values=max(len({v for values in c.values for v in values}) for c in columns),
    )


def _label(columns: Sequence[Column]) -> str:
    """A name of what columns hold: their topics, else that it is a document, or a detail."""
    topics = dict.fromkeys(unit.topic for column in columns for unit in column.example)
    labels = list(filter(None, topics))[:_MAX_TOPICS]
    if labels:
        return " and ".join([labels[0], *map(str.lower, labels[1:])])
    return _LONG_TEXT if _size(columns) > MAX_DETAIL_CHARS else _NO_TOPIC


def _size(columns: Sequence[Column]) -> int:
    """Bytes of columns."""
    return sum(unit.weight for column in columns for unit in column.example)


def _unit_anchor(neighbour: Neighbour | None) -> Anchor | None:
    if neighbour is None:
        return None
    unit, mark = neighbour
    return Anchor(unit.print.hex(), unit.size, mark.nth, mark.total)


def _visible_lines(columns: Sequence[Column]) -> str:
    """The description of columns for a reader: their lines, and how the first begins."""
    first, last = columns[0], columns[-1]
    end = last.line + max(0, sum(unit.lines for unit in last.example) - 1)
    lines = f"line {first.line}" if end == first.line else f"lines {first.line} to {end}"
    words = first.example[0].words if first.example else ""
    name, colon, _ = words.partition(":")
    return f"{lines} `{name}{colon} …`" if words else lines
