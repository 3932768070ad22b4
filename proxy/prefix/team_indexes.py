"""The planner's memory of each team's calls, bounded in bytes for all teams together; pure."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from proxy.prefix.agent_keys import AgentCacheKeys
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.conversations import Conversations, ConversationState
from proxy.prefix.layouts.tool_order import Toolsets
from proxy.prefix.mark_stakes import MarkStakes, StoredAccounts
from proxy.prefix.message_cache import MessageCache
from proxy.prefix.prediction.changes import CallTraces
from proxy.prefix.prediction.leading_texts import SeenTexts
from proxy.prefix.prediction.lookups import UnstoredPrefixes
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prompts.conversation import LatestChains
from proxy.prefix.unmodified import UnmodifiedBaseline
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from proxy.records.mark_account import (
    LOAN_STEP,
    MAX_TEAM_LOSS,
    AccountNews,
    StoredMarkAccount,
    TeamLoan,
    TeamStake,
)

DEFAULT_BYTES: Final = 96 * 2**20
"""Bytes of all teams' indexes."""

#: Bytes of a team of which nothing is remembered.
_TEAM_BYTES: Final = 12_000
#: Bytes of a feature's scope, and of its lists of tools, as measured.
_SCOPE_BYTES: Final = 200
_TOOLSETS_BYTES: Final = 16_000
#: Features whose accounts are at hand before their first call here.
_MAX_STORED_ACCOUNTS: Final = 10_000
#: Teams of which it is known what they lost today.
_MAX_TEAM_STAKES: Final = 10_000
#: Latest entries of each index that a team keeps for as long as it calls.
_MIN_KEPT: Final = 16
#: Seconds without a call after which a team's indexes go before those of others.
_IDLE_S: Final = 3_600.0


class TeamIndexes:
    """The indexes of one team's calls; each drops first what was used longest ago.

    Attributes:
        size: Bytes they took when they were measured last.
        is_measured: True if no call was read since.
    """

    def __init__(
        self,
        stake: float,
        process: bytes,
        accounts: StoredAccounts | None = None,
        team: TeamStake | None = None,
    ) -> None:
        self.latest = 0.0
        self.size = 0
        self.is_measured = False
        self.states: LruCache[bytes, ConversationState] = LruCache(weigh=lambda state: state.size)
        #: Blocks at the end of an earlier call that a feature's latest call did not repeat.
        self.left_out: LruCache[LayoutScope, int] = LruCache(entry_bytes=_SCOPE_BYTES)
        self.toolsets: LruCache[LayoutScope, Toolsets] = LruCache(entry_bytes=_TOOLSETS_BYTES)
        self.readings = MessageCache()
        self.texts = SeenTexts()
        self.latest_chains = LatestChains()
        self.conversations = Conversations()
        self.unstored = UnstoredPrefixes()
        self.chains = PrefixChainIndex(unstored=self.unstored)
        self.traces = CallTraces()
        self.unmodified = UnmodifiedBaseline(stake, self.unstored, team)
        self.stakes = MarkStakes(stake, self.chains, accounts, team)
        self.agent_keys = AgentCacheKeys(process, stake, team)
        self._all: Sequence[LruCache[Any, Any]] = (
            self.states,
            self.left_out,
            self.toolsets,
            *self.readings.indexes,
            *self.texts.indexes,
            *self.latest_chains.indexes,
            *self.conversations.indexes,
            *self.unstored.indexes,
            *self.chains.indexes,
            *self.traces.indexes,
            *self.unmodified.indexes,
            *self.stakes.indexes,
            *self.agent_keys.indexes,
        )

    def adopt_plan(
        self, name: bytes, plan: Plan, begin: Callable[[], ConversationState] = ConversationState
    ) -> None:
        """Take over what was decided for a conversation."""
        self.states.reweigh(self.states.get_or_make(name, begin).adopt_plan(plan))

    @property
    def size_bytes(self) -> int:
        """About how many bytes they take."""
        return _TEAM_BYTES + LruCache.total_bytes(self._all)

    def drop_oldest(self) -> None:
        """Drop a small part of each, so that all reach back about as far."""
        for index in self._all:
            index.drop_oldest(_MIN_KEPT)


class TeamMemory:
    """The indexes of all teams, in so many bytes.

    Beyond them a team that made no call for an hour gives way first. Then it is, of those that take
    an even part or more, the one that called longest ago: a smaller one loses nothing to others.

    Args:
        make: Makes the indexes of a team, beside the stored accounts of all and what it may lose.

    Attributes:
        team_stakes: Limits of each team's losses; they stay when its indexes are dropped.
    """

    def __init__(
        self, make: Callable[[StoredAccounts, TeamStake], TeamIndexes], max_bytes: int
    ) -> None:
        self._accounts: StoredAccounts = LruCache(_MAX_STORED_ACCOUNTS)
        self._make = partial(make, self._accounts)
        self.team_stakes: LruCache[str, TeamStake] = LruCache(_MAX_TEAM_STAKES)
        self._unlent = MAX_TEAM_LOSS
        self.max_bytes = max_bytes
        self._teams: dict[str, TeamIndexes] = {}
        self._now = 0.0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._teams)

    @property
    def lesson_bytes(self) -> int:
        """Bytes that layouts which are learned may take besides: a third of what these may."""
        return self.max_bytes // 3

    def of(self, team: str, now: float = 0.0) -> TeamIndexes:
        """A team's indexes, which are used by this.

        ``now`` is 0 where it is not known.
        """
        indexes = self._teams.get(team)
        if indexes is None or next(reversed(self._teams)) != team:
            indexes = self._teams.pop(team, None) or self._make(self.stake_of(team))
            self._teams[team] = indexes
        stake = indexes.agent_keys.team
        if self.team_stakes.peek(team) is not stake:  # else its own would borrow no more
            self.team_stakes.put(team, stake)
        if now:
            indexes.latest = max(now, indexes.latest)
            self._now = max(now, self._now)
        return indexes

    def stake_of(self, team: str) -> TeamStake:
        """The limit of what a team's features lose in a day."""
        return self.team_stakes.get_or_make(team, lambda: TeamStake(unlent=self._unlent))

    def borrow_stakes(self) -> None:
        """Lose no more of teams than a store lends, but for a little in advance."""
        self._unlent = LOAN_STEP

    def team_loans(self, *, ends: bool = False) -> list[TeamLoan]:
        """The changes of what teams may lose here, to ask the store for."""
        loans = (stake.loan(team, ends=ends) for team, stake in self.team_stakes.items())
        return [loan for loan in loans if loan is not None]

    def account_news(self, max_accounts: int | None = None) -> dict[LayoutScope, AccountNews]:
        """The news of each feature's account of marks since it was stored last."""
        every = (indexes.stakes.account_news() for indexes in self._teams.values())
        return dict(islice(chain.from_iterable(every), max_accounts))

    def adopt_account(
        self, stored: StoredMarkAccount, stored_news: AccountNews | None = None
    ) -> None:
        """Take over what all processes counted of a feature's marks."""
        scope = stored.scope
        self._accounts.get_or_make(scope.all_families, dict)[scope.family] = stored
        indexes = self._teams.get(stored.scope.team)
        if indexes is not None:
            indexes.stakes.adopt_account(stored, stored_news)

    def read_call(self, team: str) -> TeamIndexes:
        """A team's indexes for a call that is read.

        They are trimmed where the call before added to them and was not learned.
        """
        indexes = self.of(team)
        if not indexes.is_measured:
            indexes = self.trim(team)
        indexes.is_measured = False
        return indexes

    def trim(self, team: str) -> TeamIndexes:
        """A team's indexes, once what its calls added beyond the bound was dropped."""
        indexes = self.of(team)
        self._measure(indexes)
        if self.size_bytes <= self.max_bytes:
            return indexes
        while self.size_bytes > self.max_bytes and self._teams:
            self._shrink(self._largest_or_idle())
        return self.of(team)

    def _largest_or_idle(self) -> str:
        """The team that gives way."""
        oldest = next(iter(self._teams))
        if self._now - self._teams[oldest].latest > _IDLE_S:
            return oldest
        even = self.size_bytes // len(self._teams)
        return next(team for team, indexes in self._teams.items() if indexes.size >= even)

    def _shrink(self, team: str) -> None:
        """Drop a part of a team's indexes, or all where no part of them can be dropped."""
        indexes = self._teams[team]
        before = indexes.size
        indexes.drop_oldest()
        self._measure(indexes)
        if indexes.size >= before:
            self.size_bytes -= self._teams.pop(team).size

    def _measure(self, indexes: TeamIndexes) -> None:
        indexes.is_measured = True
        before, indexes.size = indexes.size, indexes.size_bytes
        self.size_bytes += indexes.size - before
