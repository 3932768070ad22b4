"""Estimates how often an event is followed by another of its kind, without judging too early."""

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
#: What an observation keeps of its weight at the next one: some 200 count.
_DECAY: Final = 0.995


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

    def share(self, prior: Prior, heard: Sequence[float] = ()) -> float:
        """The share followed; never more than 1.

        Args:
            prior: What is believed.
            heard: Which share of the followers has come by each of ``AGES``: so much an event of
                that age counts as not followed; () for nothing before it is ripe.
        """
        young = sum(
            self._young[(self._bucket - age) % _BUCKET_COUNT] * share
            for age, share in enumerate(heard)
        )
        seen = self._followed + prior.share * prior.weight
        return min(1.0, seen / (self._ripe + young + prior.weight))

    def _current_bucket(self, now: float) -> int:
        """The bucket of now, once those that grew old meanwhile are counted."""
        newest = max(int(now // _BUCKET_S), self._bucket)
        for bucket in range(max(self._bucket + 1, newest - _BUCKET_COUNT + 1), newest + 1):
            self._judge(bucket % _BUCKET_COUNT)
        self._bucket = newest
        return newest

    def _judge(self, at: int) -> None:
        count, self._young[at] = self._young[at], 0
        if count:
            kept = _DECAY**count
            self._followed *= kept
            self._ripe = self._ripe * kept + (1.0 - kept) / (1.0 - _DECAY)
