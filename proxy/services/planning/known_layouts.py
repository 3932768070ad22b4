"""This process's copy of layouts, and reads of plans from the store with a deadline."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, ParamSpec, TypeVar

import msgspec

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.layouts.layout import Layout, read_layout
from proxy.prefix.lessons import layout_digest
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from proxy.store.errors import StoreError
from proxy.store.sql.settings.layout_rows import Proposal
from proxy.store.store import Store

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger("thriftgate.planning")

STORE_DEADLINE_S: Final = 0.25
"""Seconds the store has to answer."""

#: Seconds between two log lines about a store that does not answer.
_LOG_INTERVAL_S: Final = 10.0
#: Layouts remembered, and features whose latest proposal is.
_MAX_LAYOUTS: Final = 1_024
#: Seconds for which an unchanged proposal is not brought to the store again.
_RENEWAL_INTERVAL_S: Final = 10.0


class StoreReads:
    """Reads of one process; failures are logged with their reason, a line in ten seconds."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._next_line_at = float("-inf")
        self._unlogged = 0

    async def plans(self, names: Sequence[str]) -> Mapping[str, Plan]:
        """The plans under these names; none where the store does not answer in time."""
        question, now = self._store.plans.find_all, self._now()
        plans = await self._ask("The plan of a conversation", question, names, now)
        return {} if plans is None else plans

    async def proposals(self, where: LayoutScope) -> Sequence[Proposal] | None:
        """The layouts proposed for a feature; None where the store does not answer in time."""
        return await self._ask("A layout", self._store.layouts.proposals, where)

    async def _ask(
        self, subject: str, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        try:
            async with asyncio.timeout(STORE_DEADLINE_S):
                return await self._store.ask(question, *args, **kwargs)
        except TimeoutError:
            self._log_failure(subject, f"the database did not answer within {STORE_DEADLINE_S} s")
        except StoreError as error:
            self._log_failure(subject, str(error))
        return None

    def _log_failure(self, subject: str, why: str) -> None:
        """Log a failed read, or count it until the next line is due."""
        now = self._now()
        if now < self._next_line_at:
            self._unlogged += 1
            return
        more = f"; {self._unlogged:,} more since the line before" if self._unlogged else ""
        _log.warning("%s could not be read: %s%s", subject, why, more)
        self._next_line_at, self._unlogged = now + _LOG_INTERVAL_S, 0


class KnownLayouts:
    """The layouts of one process; what was read of the store once is not read again."""

    def __init__(self, store: Store, reads: StoreReads) -> None:
        self._store = store
        self._reads = reads
        self._moves: dict[tuple[LayoutScope, int], str] = {}
        self._renewed: LruCache[LayoutScope, tuple[str, float]] = LruCache(_MAX_LAYOUTS)

    def __len__(self) -> int:
        return len(self._moves)

    def has(self, where: LayoutScope, version: int) -> bool:
        """True if this version is at hand; 0 always is, for it moves nothing."""
        key = (where, version)
        return not version or key in self._moves or key in self._store.board.current.moves

    async def fetch(self, where: LayoutScope, version: int) -> None:
        """Have at hand a layout that holds no more, but for conversations that began with it."""
        if self.has(where, version):
            return
        every = await self._reads.proposals(where)
        if every is None:
            return
        moves = next((proposal.moves for proposal in every if proposal.version == version), "")
        self._remember((where, version), moves)

    def layout(self, where: LayoutScope, version: int) -> Layout | None:
        """The layout of this version; None where there is none any more."""
        if not version:
            return None
        key = (where, version)
        moves = self._store.board.current.moves.get(key)
        if moves is not None:
            self._remember(key, moves)
        return read_layout(self._moves.get(key, ""))

    def renew_proposal(
        self, where: LayoutScope, layout: Layout | None, calls: int, now: float
    ) -> None:
        """Propose what pays by now, and withdraw what does not any more; blocks.

        What was proposed a few seconds ago is left as it is.

        Args:
            layout: The layout that pays beside the one in force; None for none.
            calls: Calls of it that this process saw.
        """
        digest = layout_digest(layout) if layout is not None else ""
        latest, renewed_at = self._renewed.get(where) or (None, now)
        if digest == latest and now - renewed_at < _RENEWAL_INTERVAL_S:
            return
        if layout is not None:
            moves = msgspec.json.encode(layout).decode()
            self._store.layouts.propose(where, digest, moves, now)
        self._store.layouts.withdraw(where, calls, now, keep=digest)
        self._renewed.put(where, (digest, now))

    def _remember(self, key: tuple[LayoutScope, int], moves: str) -> None:
        if len(self._moves) > _MAX_LAYOUTS:
            self._moves.clear()
        self._moves[key] = moves
