"""Counts how a feature's conversations go on: if they do at all, and what they leave out.

Sending a call so that nothing of it is stored (OpenAI) saves a fifth of it where the conversation
ends there, and costs four times that where it goes on. So it takes a long run of conversations that
did not, each judged once nothing it stored could live any more. Each time a run was followed by one
that went on after all, the next has to be twice as long.
"""

from collections import deque
from math import isfinite
from typing import Final

#: Conversations in a row that end with their first call before it is believed.
MIN_RUN_CONVERSATIONS: Final = 20
#: The longest run that is asked for.
_MAX_RUN_CONVERSATIONS: Final = 5_120
#: Seconds after which a conversation that did not go on will not: what a first call stores lives
#: half an hour. Source: OpenAI, prompt caching guide (2026-09).
_ENDED_AFTER_S: Final = 1_800.0
#: First calls that may still be followed; beyond, some are not counted.
_MAX_PENDING: Final = 64
#: Most seconds between a follower's gap and the gap to its first call.
_MAX_GAP_ERROR_S: Final = 1.0


class ConversationHabits:
    """Counts of how one feature's conversations go on; some 900 bytes.

    Attributes:
        left_out: Blocks at the end of an earlier call that the latest call did not repeat.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._young: deque[float] = deque()
        self._run = 0
        self._needed = MIN_RUN_CONVERSATIONS

    def record_first_call(self, now: float) -> None:
        """Count a conversation's first call."""
        self._judge_old(now)
        if len(self._young) < _MAX_PENDING:
            self._young.append(now)

    def record_second_call(self, now: float, gap: float) -> None:
        """Count a conversation's second call, so many seconds after its first."""
        self._judge_old(now)
        if self._run >= self._needed:
            self._needed = min(_MAX_RUN_CONVERSATIONS, 2 * self._needed)
        self._run = 0
        first = now - gap if isfinite(gap) else now
        near = min(self._young, key=lambda at: abs(at - first), default=None)
        if near is not None and abs(near - first) <= _MAX_GAP_ERROR_S:
            self._young.remove(near)

    def end_at_first_call(self, now: float) -> bool:
        """True if conversations surely end with their first call."""
        self._judge_old(now)
        return self._run >= self._needed

    def _judge_old(self, now: float) -> None:
        while self._young and now - self._young[0] >= _ENDED_AFTER_S:
            self._young.popleft()
            self._run += 1
