"""True if a feature's conversations surely end with their first call: told late, taken back soon.

Sending a first call so that nothing of it is stored saves a fifth of it where the conversation ends
there, and costs four times that where it goes on. So it takes a long run of conversations that did
not, each judged once nothing it stored could live any more; each time a run was followed by one
that went on after all, the next has to be twice as long.
"""

from collections import deque
from math import isfinite
from typing import Final

#: Conversations in a row that end with their first call before it is believed.
MIN_RUN: Final = 20
#: The longest run that is asked for.
_MAX_RUN: Final = 5_120
#: Seconds after which a conversation that did not go on will not: what a first call stores lives
#: half an hour. Source: OpenAI, prompt caching guide (2026-09).
_OVER_S: Final = 1_800.0
#: First calls that may still be followed; beyond, some are not counted.
_MAX_PENDING: Final = 64
#: How near a follower's gap has to lead to its first call, in seconds.
_NEAR_S: Final = 1.0


class SingleCallRun:
    """The latest conversations that ended with their first call, in a row; some 2 KB."""

    def __init__(self) -> None:
        self._young: deque[float] = deque()
        self._run = 0
        self._needed = MIN_RUN

    def record_first_call(self, now: float) -> None:
        """Count a conversation's first call."""
        self._judge_old(now)
        if len(self._young) < _MAX_PENDING:
            self._young.append(now)

    def record_second_call(self, now: float, gap: float) -> None:
        """Count a conversation's second call, so many seconds after its first."""
        self._judge_old(now)
        if self._run >= self._needed:
            self._needed = min(_MAX_RUN, 2 * self._needed)
        self._run = 0
        first = now - gap if isfinite(gap) else now
        near = min(self._young, key=lambda at: abs(at - first), default=None)
        if near is not None and abs(near - first) <= _NEAR_S:
            self._young.remove(near)

    def is_certain(self, now: float) -> bool:
        """True if conversations surely end with their first call."""
        self._judge_old(now)
        return self._run >= self._needed

    def _judge_old(self, now: float) -> None:
        while self._young and now - self._young[0] >= _OVER_S:
            self._young.popleft()
            self._run += 1
