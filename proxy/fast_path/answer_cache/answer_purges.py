"""Purges of kept answers: which of a team's answers may not be given again; pure.

A purge covers what was asked for up to its time. So it reaches answers that are under way, and
those that another process keeps.
"""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from proxy.fast_path.answer_cache.cached_answer import CachedAnswer

#: Purges that a process remembers; beyond it, some become purges of whole teams.
_MAX_PURGES: Final = 20_000


class PurgeScope(StrEnum):
    """The answers of a team that a purge covers."""

    TEAM = "team"  #: All of them.
    FEATURE = "feature"  #: Those of the feature named.
    TAG = "tag"  #: Those with the tag named.
    KEY = "key"  #: The one of the key named.


_WHOLE_TEAM: Final = (PurgeScope.TEAM.value, "")


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
        names = purge_names(answer.feature, answer.key, answer.tags)
        is_named = answer.team == self.team and (self.scope.value, self.name) in names
        return is_named and answer.started <= self.purged_at


class PurgeLog:
    """The purges that a process knows, by team.

    Beyond the bound, the oldest of the team with most become a purge of that whole team.
    """

    def __init__(self) -> None:
        self._times: dict[str, dict[tuple[str, str], float]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, purge: AnswerPurge) -> bool:
        """Remember a purge; False if it was known."""
        times = self._times.setdefault(purge.team, {})
        name = (purge.scope.value, purge.name)
        before = times.get(name, -math.inf)
        self._put(times, name, max(before, purge.purged_at))
        if self._count > _MAX_PURGES:
            self._widen_oldest()
        return purge.purged_at > before

    def covers(self, answer: CachedAnswer) -> bool:
        """True if an answer was purged since it was asked for."""
        names = purge_names(answer.feature, answer.key, answer.tags)
        return self.covers_names(answer.team, names, answer.started)

    def covers_names(self, team: str, names: Iterable[tuple[str, str]], started: float) -> bool:
        """True if what has these scopes and names was purged since it was asked for."""
        times = self._times.get(team)
        return times is not None and any(times.get(name, -math.inf) >= started for name in names)

    def _widen_oldest(self) -> None:
        """Purge the whole team that has most purges, instead of what it purged first."""
        times = max(self._times.values(), key=len)
        oldest = next((name for name in times if name != _WHOLE_TEAM), None)
        if len(times) == 1 or oldest is None:
            return  # so many teams have one each
        purged_at = times.pop(oldest)
        self._count -= 1
        self._put(times, _WHOLE_TEAM, max(times.get(_WHOLE_TEAM, -math.inf), purged_at))
        if self._count > _MAX_PURGES:
            self._widen_oldest()

    def _put(self, times: dict[tuple[str, str], float], name: tuple[str, str], at: float) -> None:
        """Note a team's purge as its newest."""
        self._count += name not in times
        times.pop(name, None)
        times[name] = at


def purge_names(feature: str, key: str, tags: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Every scope and name by which a team's answer can be purged."""
    return (
        _WHOLE_TEAM,
        (PurgeScope.FEATURE.value, feature),
        (PurgeScope.KEY.value, key),
        *((PurgeScope.TAG.value, tag) for tag in tags),
    )
