"""Where an objective stands: its state and level, the rules it moves by, the evidence it is shown.

::

    HEALTHY ──(60 s: surely over budget, few calls: grossly; 5 min: over)──────▶ DEGRADED, level 1
       ▲                                                             dwell │ ▲  │ the level's own
       │ all for 60 s                                     and 40 canaries, │ │  │ calls as bad:
       │                                                    120 s of them, │ │  │ the next level
    RECOVERING (10, 22, 48, 100 % on level 0, 60 s each) ◀── within budget ┘ │  ▼
       └───────────────────────── surely over budget ────────────────────────┘

    from outside: FROZEN while there is nothing to judge by, PINNED while somebody says so
"""

from enum import StrEnum
from math import ceil, sqrt
from typing import Final

import msgspec

from slo.tally import SLOT_S, GoodBadCounts, Tally

SHORT_WINDOW_S: Final = 60.0
CANARY_WINDOW_S: Final = 120.0
LONG_WINDOW_S: Final = 300.0
MAX_WINDOW_S: Final = 600.0
"""Seconds that counts go back: as a rule, and at most where there are few calls."""


class ControllerState(StrEnum):
    """What happens to new conversations."""

    HEALTHY = "healthy"  # all go to level 0
    DEGRADED = "degraded"  # they go to a higher level, but for canaries
    RECOVERING = "recovering"  # more and more of them go to level 0
    FROZEN = "frozen"  # as before, until there is something to judge by again
    PINNED = "pinned"  # all go to the level that somebody chose


class ControllerRules(msgspec.Struct, frozen=True, kw_only=True):
    """How an objective's standing moves.

    Attributes:
        target: The part of calls that is to be good, above 0.0 and below 1.0.
        rungs: How many levels there are above 0; with none, nothing moves.
        few: So many of the last calls show how it is just now, and how a level is that was just
            entered.
        least: Below so many calls nothing is concluded from them.
        trip_least: Below so many calls only what is grossly over budget surely is.
        dwell: Seconds for which no recovery begins; twice that after each relapse.
        dwell_most: Seconds it is at most.
        settle: Seconds that a level has before it can be passed over for the next.
        canary_share: The part of new conversations that tries level 0 when it was just left.
        canary_gap: Seconds between two calls to level 0, about, while the last were bad.
        canary_most: The most of new conversations that try it then.
        canary_gap_after: The same seconds once they are not; with less traffic the shares are
            larger.
        canary_least: Below so many calls to level 0 nothing recovers, but where all go there.
        ramp: The parts of new conversations that go to level 0 while recovering, ascending to 1.0.
        step: Seconds for which each is kept; those for which canaries had the first count.
        forget: Seconds of health after which relapses are counted from 0 again.

    Raises:
        ValueError: If the target, the rungs or the ramp is none.
    """

    target: float
    fallback_levels: int
    few: int = 10
    least: int = 20
    trip_least: int = 50
    dwell: float = 120.0
    dwell_most: float = 900.0
    settle: float = 10.0
    canary_share: float = 0.04
    canary_gap: float = 3.0
    canary_most: float = 0.125
    canary_gap_after: float = 2.0
    canary_least: int = 40
    ramp: tuple[float, ...] = (0.10, 0.22, 0.48, 1.0)
    step: float = 60.0
    forget: float = 3600.0

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise ValueError(f"a target is above 0 and below 1, not {self.target}")
        if self.fallback_levels < 0:
            raise ValueError(f"there cannot be {self.fallback_levels} rungs")
        if self.ramp[-1:] != (1.0,) or list(self.ramp) != sorted(set(self.ramp)):
            raise ValueError(f"a ramp ascends to 1.0, unlike {self.ramp}")

    @property
    def budget(self) -> float:
        """The part of calls that may be bad; exactly 0.1 for a target of 0.9."""
        return round(1.0 - self.target, 12)

    @property
    def gross_share(self) -> float:
        """What few calls must surely be beyond: half way from the budget to all, by orders."""
        return sqrt(self.budget)

    def patience(self, relapses: int) -> int:
        """Number of times as long as usual evidence and steps are after so many relapses."""
        return 1 << min(max(relapses - 1, 0), 2)

    def dwell_time(self, relapses: int) -> float:
        """Seconds for which no recovery begins after so many relapses."""
        return float(min(self.dwell * 2 ** min(relapses, 30), self.dwell_most))


class ControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Where an objective stands; ``ControllerSnapshot(since=now)`` is a healthy beginning.

    Every time is in seconds since 1970.

    Attributes:
        state: What happens to new conversations.
        level: The level of those that do not go to level 0; 0 where all do.
        since: When the state began, or the level if that was later.
        reason: Why, in one sentence of ASCII.
        relapses: How often it had to degrade again, until that is forgotten.
        share: The part of new conversations that goes to level 0, 0.0 to 1.0.
        step_since: When a degraded or recovering one began to give level 0 this share.
        until: While degraded, when it may recover; while pinned, when the pin ends; while
            healthy, when its relapses are forgotten; None if there is nothing to forget.
        was: What a frozen one was and will be, and what a pinned one was and will be; None of the
            others.
        was_level: The level that a pinned one had; 0 of the others.
        was_share: The share that a pinned one had; 1.0 of the others.
        was_until: The ``until`` that a pinned one had; None of the others.
    """

    state: ControllerState = ControllerState.HEALTHY
    level: int = 0
    since: float
    reason: str = ""
    relapses: int = 0
    share: float = 1.0
    step_since: float = 0.0
    until: float | None = None
    was: ControllerState | None = None
    was_level: int = 0
    was_share: float = 1.0
    was_until: float | None = None


class LevelCounts(msgspec.Struct, frozen=True):
    """The calls that one level answered, of late.

    Attributes:
        back: How many of the slot that is now, of the last two, of the last three, and so on.
    """

    trailing: tuple[GoodBadCounts, ...] = ()

    def within(self, seconds: float) -> GoodBadCounts:
        """Those of so many seconds."""
        return (
            self.trailing[min(ceil(seconds / SLOT_S), len(self.trailing)) - 1]
            if self.trailing
            else GoodBadCounts()
        )

    def latest(self, least: int, seconds: float = 0.0) -> tuple[GoodBadCounts, float]:
        """Those of so many seconds, or of as many more as it takes for so many calls.

        Returns:
            Them, and how many seconds they go back; no calls where all there are are fewer.
        """
        for slots in range(max(ceil(seconds / SLOT_S), 1), len(self.trailing) + 1):
            if self.trailing[slots - 1].n >= least:
                return self.trailing[slots - 1], slots * SLOT_S
        return GoodBadCounts(), 0.0


def level_counts(tally: Tally, key: str, now: float) -> LevelCounts:
    """What the tally says of one level's calls, which are counted under this key."""
    return LevelCounts(tally.trailing_counts(key, now, MAX_WINDOW_S))
