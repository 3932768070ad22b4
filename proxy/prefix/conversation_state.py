"""What one process remembers of a conversation from one call to the next."""

from collections.abc import Sequence
from copy import copy
from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.prediction.prompt_digests import (
    LATEST,
    OPENINGS,
    Ending,
    Opening,
    ending,
    opening,
)
from proxy.prefix.prediction.sent import Sent

#: Seconds after which an answer has begun, so that others may read what its call stored.
ANSWERED: Final = 1.0
#: Calls before one under which a clock that a prompt opens with may stand still.
_STILL: Final = 2
#: Comparisons with earlier calls remembered; what a conversation repeats may change as it grows,
#: so the latest count.
_LEFTS: Final = 2


class Talk(msgspec.Struct):
    """A conversation.

    Attributes:
        plan: What was decided for it; None where nothing was.
        calls: Calls seen of it.
        latest: When the last of them was made.
        turns: Answers that one held.
        points: Stand for what later calls may repeat of the latest calls; an agent and its
            helpers may take turns.
        openings: How the latest calls began.
        endings: How they ended.
        lefts: How much of the end of those before them they did not repeat, where they had to
            extend one.
        tokens: What the last of them was; by estimate, where nobody counted.
        open_call: The number of its latest call while that waits to be judged; 0 for none.
    """

    plan: Plan | None = None
    calls: int = 0
    latest: float = 0.0
    tokens: int = 0
    turns: int = 0
    points: tuple[int, ...] = ()
    openings: tuple[Opening, ...] = ()
    endings: tuple[Ending, ...] = ()
    lefts: tuple[int, ...] = ()
    open_call: int = 0

    def told(self, begins: Opening, *, moves: bool) -> Sequence[Opening]:
        """How the latest calls began, less those that tell nothing of a call that ``begins`` now.

        A clock may stand still for a call or two, and never goes back: what came back after another
        opening is none that a clock made.

        Args:
            begins: How the call begins.
            moves: Whether its feature's prompts begin in another way with nearly every call.
        """
        firsts = [one.first for one in self.openings]
        others = [first for first in firsts if first != begins.first]
        alike = len(firsts) - len(others)
        stands = moves and alike <= _STILL and firsts[: len(others)] == others
        return self.openings[: len(others)] if stands else self.openings

    def fork(self) -> "Talk":
        """A conversation that parts from this one: the same past, and no call to be judged."""
        found = copy(self)
        found.open_call = 0
        return found

    def lacked(self, left: int) -> None:
        """A call had to extend one before it, and left out so many blocks at its end."""
        self.lefts = (*self.lefts, left)[-_LEFTS:]

    def note(self, sent: Sent, now: float, *, tokens: int, turns: int) -> None:
        """A call of it was answered.

        Args:
            sent: The call.
            now: When it was made, in seconds.
            tokens: What it was.
            turns: Answers it held.
        """
        self.calls += 1
        self.latest = max(self.latest, now)
        self.tokens = tokens
        self.turns = turns
        self.points = (*self.points[1 - LATEST :], sent.points[sent.kept])
        self.openings = (*self.openings[1 - OPENINGS :], opening(sent.blocks))
        self.endings = (*self.endings[1 - LATEST :], ending(sent.blocks[: sent.kept]))
