"""State of an objective: its level, the rules it moves by, the evidence it is shown.

::

    HEALTHY ──(60 s: surely over budget, few calls: grossly; 5 min: over)──────▶ DEGRADED, level 1
       ▲                                                             dwell │ ▲  │ the level's own
       │ all for 60 s                                     and 40 canaries, │ │  │ calls as bad:
       │                                                    120 s of them, │ │  │ the next level
    RECOVERING (10, 22, 48, 100 % on level 0, 60 s each) ◀── within budget ┘ │  ▼
       └───────────────────────── surely over budget ────────────────────────┘

    from outside: FROZEN while there is nothing to judge by, PINNED while an operator wants it
"""

from enum import StrEnum
from math import ceil, sqrt
from typing import Final

import msgspec

from slo.budgets.tally import SLOT_S, GoodBadCounts, Tally

SHORT_WINDOW_S: Final = 60.0
CANARY_WINDOW_S: Final = 120.0
LONG_WINDOW_S: Final = 300.0
MAX_WINDOW_S: Final = 600.0
"""Seconds that counts go back: as a rule, and at most where there are few calls."""


class ControllerState(StrEnum):
    """The handling of new conversations."""

    HEALTHY = "healthy"  # all go to level 0
    DEGRADED = "degraded"  # they go to a higher level, but for canaries
    RECOVERING = "recovering"  # more and more of them go to level 0
    FROZEN = "frozen"  # as before, until there is something to judge by again
    PINNED = "pinned"  # all go to the level that an operator chose


class ControllerRules(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds and times by which an objective changes its level.

    Attributes:
        target: The part of calls that is to be good, above 0.0 and below 1.0.
        fallback_levels: Levels above 0; with none, the level never changes.
        min_calls_if_gross: Fewest calls that show a gross breach on a level just entered; also
            the number of latest calls that must show it.
        min_calls: Fewest calls from which anything is concluded.
        min_calls_to_trip: With fewer calls, only a gross breach counts.
        dwell_s: Seconds after degrading before a recovery can begin; doubled by each relapse.
        max_dwell_s: The most seconds of that.
        settle_s: Seconds on a level before the next one can be entered.
        canary_share: The share of new conversations on level 0 right after degrading.
        canary_gap_s: Wanted seconds between two calls on level 0 while the last were bad.
        max_canary_share: The most of new conversations that go there then.
        canary_gap_after_s: The same seconds once the last were good; the share follows traffic.
        min_canary_calls: Fewest calls on level 0 for a recovery, unless all calls go there.
        ramp: The shares of new conversations on level 0 while recovering, ascending to 1.0.
        ramp_step_s: Seconds for each; time that canaries spent on the first counts.
        relapse_memory_s: Seconds of health after which relapses count from 0 again.

    Raises:
        ValueError: If the target, the levels or the ramp is invalid.
    """

    target: float
    fallback_levels: int
    min_calls_if_gross: int = 10
    min_calls: int = 20
    min_calls_to_trip: int = 50
    dwell_s: float = 120.0
    max_dwell_s: float = 900.0
    settle_s: float = 10.0
    canary_share: float = 0.04
    canary_gap_s: float = 3.0
    max_canary_share: float = 0.125
    canary_gap_after_s: float = 2.0
    min_canary_calls: int = 40
    ramp: tuple[float, ...] = (0.10, 0.22, 0.48, 1.0)
    ramp_step_s: float = 60.0
    relapse_memory_s: float = 3600.0

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise ValueError(f"a target is above 0 and below 1, not {self.target}")
        if self.fallback_levels < 0:
            raise ValueError(f"there cannot be {self.fallback_levels} fallback levels")
        if self.ramp[-1:] != (1.0,) or list(self.ramp) != sorted(set(self.ramp)):
            raise ValueError(f"a ramp ascends to 1.0, unlike {self.ramp}")

    @property
    def budget(self) -> float:
        """The part of calls that may be bad; exactly 0.1 for a target of 0.9."""
        return round(1.0 - self.target, 12)

    @property
    def gross_share(self) -> float:
        """The share of bad calls that is a gross breach: the geometric mean of budget and 1."""
        return sqrt(self.budget)

    def patience(self, relapses: int) -> int:
        """The factor by which evidence and ramp steps are longer after so many relapses."""
        return 1 << min(max(relapses - 1, 0), 2)

    def dwell_time(self, relapses: int) -> float:
        """Seconds before a recovery can begin, after so many relapses."""
        return float(min(self.dwell_s * 2 ** min(relapses, 30), self.max_dwell_s))


class ControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's state of an objective; ``ControllerSnapshot(since=now)`` is a healthy start.

    Every time is in seconds since 1970.

    Attributes:
        level: The level of those that do not go to level 0; 0 where all do.
        since: Start of the state, or of the level if that was later.
        relapses: Number of times it had to degrade again, until that is forgotten.
        share: The part of new conversations that goes to level 0, 0.0 to 1.0.
        step_since: Time at which a degraded or recovering one began to give level 0 this share.
        until: While degraded, when it may recover; while pinned, when the pin ends; while
            healthy, when its relapses are forgotten; None if there is nothing to forget.
        previous_state: The state to restore after a freeze or pin; None without one.
        previous_level: The level to restore after a pin; 0 without one.
        previous_share: The share to restore after a pin; 1.0 without one.
        previous_until: The ``until`` to restore after a pin; None without one.
    """

    state: ControllerState = ControllerState.HEALTHY
    level: int = 0
    since: float
    reason: str = ""
    relapses: int = 0
    share: float = 1.0
    step_since: float = 0.0
    until: float | None = None
    previous_state: ControllerState | None = None
    previous_level: int = 0
    previous_share: float = 1.0
    previous_until: float | None = None


class LevelCounts(msgspec.Struct, frozen=True):
    """Recent counts of the calls that one level answered.

    Attributes:
        trailing: Counts of the current slot, of the last two, of the last three, and so on.
    """

    trailing: tuple[GoodBadCounts, ...] = ()

    def within(self, seconds: float) -> GoodBadCounts:
        """The counts of the last so many seconds."""
        return (
            self.trailing[min(ceil(seconds / SLOT_S), len(self.trailing)) - 1]
            if self.trailing
            else GoodBadCounts()
        )

    def latest(self, least: int, seconds: float = 0.0) -> tuple[GoodBadCounts, float]:
        """The counts of the last so many seconds, or of more if that holds too few calls.

        Returns:
            The counts and the seconds they go back; no calls if there are fewer than ``least``.
        """
        for slots in range(max(ceil(seconds / SLOT_S), 1), len(self.trailing) + 1):
            if self.trailing[slots - 1].n >= least:
                return self.trailing[slots - 1], slots * SLOT_S
        return GoodBadCounts(), 0.0


def level_counts(tally: Tally, key: str, now: float) -> LevelCounts:
    """The recent counts of one level, whose calls the tally has under this key."""
    return LevelCounts(tally.trailing_counts(key, now, MAX_WINDOW_S))
