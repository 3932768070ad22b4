"""Estimates how often calls are followed by another, and tells when conversations surely are not.

``ContinuationModel`` gives a share without judging young events too early. ``SingleCallRun`` says
that a feature's conversations end with their first call: sending that call so that nothing of it is
stored saves a fifth of it where the conversation ends there, and costs four times that where it
goes on. So it takes a long run of conversations that did not, each judged once nothing it stored
could live any more. Each time a run was followed by one that went on after all, the next has to be
twice as long.
"""

from collections import deque
from collections.abc import Sequence
from math import isfinite
from typing import Final

import msgspec

#: Seconds after which what was not followed counts as that; a later follower puts it right.
JUDGED_AFTER_S: Final = 120.0
_BUCKET_S: Final = 5.0
_BUCKET_COUNT: Final = int(JUDGED_AFTER_S / _BUCKET_S)
#: Seconds that young events surely are old, from the youngest.
MIN_AGES_S: Final = tuple(max(0, age - 1) * _BUCKET_S for age in range(_BUCKET_COUNT))
#: Factor on an observation's weight at the next one: some 200 count.
_DECAY: Final = 0.995
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


class Prior(msgspec.Struct, frozen=True):
    """A prior share, and how many observations it is worth."""

    share: float
    weight: float = 2.0


class ContinuationModel:
    """The share of events that are followed by another; a few hundred bytes, forgets slowly.

    An event that was just now is neither: many conversations that start at once would otherwise
    look like ones that never go on.
    """

    def __init__(self) -> None:
        self._followed = 0.0
        self._ripe = 0.0
        self._young = [0] * _BUCKET_COUNT
        self._bucket = 0

    def record_event(self, now: float) -> None:
        """Count an event that may be followed."""
        bucket = self._current_bucket(now)
        self._young[bucket % _BUCKET_COUNT] += 1

    def record_continuation(self, now: float, gap: float) -> None:
        """Count that an event of ``gap`` seconds ago was followed."""
        newest = self._current_bucket(now)
        self._followed = self._followed * _DECAY + 1.0
        self._ripe *= _DECAY
        bucket = int((now - gap) // _BUCKET_S) if isfinite(gap) else -1
        if newest - _BUCKET_COUNT < bucket <= newest and self._young[bucket % _BUCKET_COUNT]:
            self._young[bucket % _BUCKET_COUNT] -= 1
            self._ripe += 1.0

    def share(self, prior: Prior, follower_shares: Sequence[float] = ()) -> float:
        """The share followed; never more than 1.

        Args:
            prior: Prior belief.
            follower_shares: The share of followers that has come by each of ``MIN_AGES_S``: an
                event of that age counts as so much not followed; () for nothing before it is ripe.
        """
        young = sum(
            self._young[(self._bucket - age) % _BUCKET_COUNT] * share
            for age, share in enumerate(follower_shares)
        )
        seen = self._followed + prior.share * prior.weight
        return min(1.0, seen / (self._ripe + young + prior.weight))

    def _current_bucket(self, now: float) -> int:
        """The bucket of now, once those that grew old meanwhile are counted."""
        newest = max(int(now // _BUCKET_S), self._bucket)
        for bucket in range(max(self._bucket + 1, newest - _BUCKET_COUNT + 1), newest + 1):
            self._judge_bucket(bucket % _BUCKET_COUNT)
        self._bucket = newest
        return newest

    def _judge_bucket(self, at: int) -> None:
        count, self._young[at] = self._young[at], 0
        if count:
            kept = _DECAY**count
            self._followed *= kept
            self._ripe = self._ripe * kept + (1.0 - kept) / (1.0 - _DECAY)


class SingleCallRun:
    """The latest conversations that ended with their first call, in a row; some 2 KB."""

    def __init__(self) -> None:
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

    def is_certain(self, now: float) -> bool:
        """True if conversations surely end with their first call."""
        self._judge_old(now)
        return self._run >= self._needed

    def _judge_old(self, now: float) -> None:
        while self._young and now - self._young[0] >= _ENDED_AFTER_S:
            self._young.popleft()
            self._run += 1
