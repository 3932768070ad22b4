"""The state of a conversation that one process keeps between its calls."""

from collections.abc import Sequence
from copy import copy
from typing import Final

import msgspec

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.prediction.prompt_digests import (
    MAX_COMPARED_CALLS,
    MAX_STARTS,
    PromptEnding,
    PromptStart,
    digest_end,
    digest_start,
)
from proxy.prefix.prediction.sent import SentCall

#: Seconds after which an answer has begun, so that others may read what its call stored.
ANSWERED: Final = 1.0
#: Calls before one under which a clock that a prompt opens with may stand still.
_STILL: Final = 2
#: Comparisons with earlier calls remembered; what a conversation repeats may change as it grows,
#: so the latest count.
_LEFTS: Final = 2


class ConversationState(msgspec.Struct):
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
    openings: tuple[PromptStart, ...] = ()
    endings: tuple[PromptEnding, ...] = ()
    lefts: tuple[int, ...] = ()
    open_call: int = 0

    def comparable_starts(self, begins: PromptStart, *, moves: bool) -> Sequence[PromptStart]:
        """The starts of the latest calls that can be compared with a call that ``begins`` now.

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

    def fork(self) -> "ConversationState":
        """A conversation that parts from this one: the same past, and no call to be judged."""
        found = copy(self)
        found.open_call = 0
        return found

    def record_left_out(self, left: int) -> None:
        """A call had to extend one before it, and left out so many blocks at its end."""
        self.lefts = (*self.lefts, left)[-_LEFTS:]

    def record_call(self, sent: SentCall, now: float, *, tokens: int, turns: int) -> None:
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
        self.points = (*self.points[1 - MAX_COMPARED_CALLS :], sent.points[sent.repeatable_blocks])
        self.openings = (*self.openings[1 - MAX_STARTS :], digest_start(sent.blocks))
        self.endings = (
            *self.endings[1 - MAX_COMPARED_CALLS :],
            digest_end(sent.blocks[: sent.repeatable_blocks]),
        )
