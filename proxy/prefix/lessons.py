"""What the instructions of each feature show, learned from its calls."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import msgspec

from proxy.prefix.layouts.holes import instructions
from proxy.prefix.layouts.layout import Layout, Move
from proxy.prefix.layouts.learning import Learner
from proxy.prefix.planned import Planned
from proxy.prefix.prompts.prompt import RANK, Fingerprint, led
from proxy.prefix.prompts.recent import Recent
from proxy.records.feature_mode import Place

#: Sets of tools of one feature whose instructions are told apart.
_TOOL_SETS: Final = 8
#: Calls of a feature between two looks at what it shows, and while they are its first.
_EVERY: Final = 25
_OFTEN: Final = 5
_FIRST: Final = 50
_MILLION: Final = 1_000_000
#: What a feature whose price is unknown is planned with, in nano-dollars a token.
_USUAL: Final = Fraction(1_000)


def is_due(calls: int) -> bool:
    """True if to look at what a feature shows after so many calls: now and then, more at first."""
    return calls % (_OFTEN if calls < _FIRST else _EVERY) == 0


class Lessons:
    """Learners of all features; the longest unused are forgotten. One thread at a time.

    Args:
        most: Features remembered; each takes some 3 MB at worst.
    """

    def __init__(self, most: int = 128) -> None:
        self._known: Recent[Place, Recent[bytes, Learner]] = Recent(most)
        #: What stands for tools in any order, by those in theirs.
        self._named: Recent[tuple[Fingerprint, int], bytes] = Recent(most * _TOOL_SETS)

    def __len__(self) -> int:
        return len(self._known)

    def observe(self, planned: Planned) -> None:
        """Learn from a call that was answered, as its caller wrote it.

        Raises:
            Unplannable: If a message cannot be read.
        """
        draft, now = planned.draft, planned.evidence.now
        first, messages = led(one.role for one in draft.known), draft.prompt.messages
        if not first:
            return
        learner, mark = self._learner(planned), hash(messages[:first]) or 1
        begins, history = not draft.turns, sum(map(len, messages[first:]))
        if learner.skims(draft.conversation, now, first=begins, history=history, mark=mark):
            return
        texts = [said for _, said in instructions(draft.prompt)]
        learner.observe(texts, draft.conversation, now, first=begins, history=history, mark=mark)

    def proposal(self, planned: Planned) -> Layout | None:
        """The moves that would pay for a call's feature; None for none, or too little seen."""
        rate = planned.way.rates.input if planned.way.rates is not None else None
        fresh = _USUAL if rate is None else Fraction(rate, _MILLION)
        learners = self._known.peek(planned.place)
        if learners is None:
            return None
        # In the order of their tools: which was used last must not make it another layout.
        found = [each.proposal(fresh, planned.way.regime) for _, each in sorted(learners.items())]
        moves = _joined([move for layout in found if layout is not None for move in layout.moves])
        return Layout(moves=moves) if moves else None

    def _learner(self, planned: Planned) -> Learner:
        """The one of its feature and tools, in whatever order they come."""
        draft = planned.draft
        tools = draft.prompt.tools
        key = draft.fingerprint, hash(tools)
        named = self._named.of(
            key, lambda: draft.fingerprint(b"".join(sorted(map(draft.fingerprint, tools))))
        )
        return self._known.of(planned.place, lambda: Recent(_TOOL_SETS)).of(
            named,
            lambda: Learner(draft.fingerprint, tools=sum(map(len, tools)), shows=draft.asked.shows),
        )


def effect(layout: Layout) -> tuple[tuple[object, ...], ...]:
    """What a layout does; equal for layouts that differ in their evidence alone."""
    return tuple((*_spot(move), move.slot, move.label) for move in layout.moves)


def _joined(moves: Sequence[Move]) -> tuple[Move, ...]:
    """The moves of several sets of tools as one: of two of the same text, the farther one."""
    found: dict[tuple[object, ...], Move] = {}
    for move in moves:
        had = found.setdefault(_spot(move), move)
        if RANK[move.slot] > RANK[had.slot]:
            found[_spot(move)] = move
    return tuple(
        msgspec.structs.replace(move, label=f"Detail {number}")
        for number, move in enumerate(found.values(), 1)
    )


def _spot(move: Move) -> tuple[object, ...]:
    """Which text a move takes."""
    return move.before, move.after, move.at, move.count, move.of
