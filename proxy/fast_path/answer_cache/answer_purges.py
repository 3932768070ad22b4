"""Purges of kept answers: which of a team's answers may not be given again; pure.

A purge covers what was asked for up to its time. So it reaches answers that are under way, and
those that another process keeps.
"""

import math
from enum import StrEnum
from typing import Final

import msgspec

from proxy.fast_path.answer_cache.cached_answer import CachedAnswer

#: Purges that a process remembers; beyond it, the oldest become purges of their whole teams.
_MAX_PURGES: Final = 20_000


class PurgeScope(StrEnum):
    """The answers of a team that a purge covers."""

    TEAM = "team"  #: All of them.
    FEATURE = "feature"  #: Those of the feature named.
    TAG = "tag"  #: Those with the tag named.
    KEY = "key"  #: The one of the key named.


class AnswerPurge(msgspec.Struct, frozen=True, kw_only=True):
    """One purge.

    Attributes:
        team: Id of the team.
        name: Name of the feature, tag or key; "" for a whole team.
        purged_at: Seconds since the epoch.
    """

    team: str
    scope: PurgeScope
    name: str = ""
    purged_at: float

    def covers(self, answer: CachedAnswer) -> bool:
        """True if an answer may not be given again."""
        return answer.started <= self.purged_at and self._key in purge_keys(answer)

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.team, self.scope.value, self.name


class PurgeLog:
    """The purges that a process knows."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, str], float] = {}

    def __len__(self) -> int:
        return len(self._times)

    def note(self, purge: AnswerPurge) -> bool:
        """Remember a purge; False if it was known."""
        key = (purge.team, purge.scope.value, purge.name)
        before = self._times.pop(key, -math.inf)
        self._times[key] = max(before, purge.purged_at)
        while len(self._times) > _MAX_PURGES and self._widen_oldest():
            pass
        return purge.purged_at > before

    def covers(self, answer: CachedAnswer) -> bool:
        """True if an answer was purged since it was asked for."""
        times = self._times
        return bool(times) and any(
            times.get(key, -math.inf) >= answer.started for key in purge_keys(answer)
        )

    def _widen_oldest(self) -> bool:
        """Purge a whole team instead of what was noted first; False where all are of teams."""
        narrow = (key for key in self._times if key[1] != PurgeScope.TEAM.value)
        oldest = next(narrow, None)
        if oldest is None:
            return False
        purged_at = self._times.pop(oldest)
        whole = (oldest[0], PurgeScope.TEAM.value, "")
        self._times[whole] = max(self._times.get(whole, -math.inf), purged_at)
        return True


def purge_keys(answer: CachedAnswer) -> tuple[tuple[str, str, str], ...]:
    """Every team, scope and name by which an answer can be purged."""
    team = answer.team
    return (
        (team, PurgeScope.TEAM.value, ""),
        (team, PurgeScope.FEATURE.value, answer.feature),
        (team, PurgeScope.KEY.value, answer.key),
        *((team, PurgeScope.TAG.value, tag) for tag in answer.tags),
    )
