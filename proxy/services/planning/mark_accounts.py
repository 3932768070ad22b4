"""Shares the accounts of cache marks, earnings and possible losses, between all processes."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.prefix.team_indexes import TeamMemory
from proxy.records.mark_account import MAX_TEAM_LOSS_NANOS, TeamLoan
from proxy.store.errors import StoreError
from proxy.store.sql.settings.mark_accounts import HALVING_INTERVAL_S
from proxy.store.store import Store

_log = logging.getLogger("thriftgate.planning")

#: Seconds between two exchanges: as long, two processes may each pay a feature's stake.
EXCHANGE_INTERVAL_S: Final = 2.0
#: Seconds that are looked back for the accounts that others changed, beyond the last exchange.
_OVERLAP_S: Final = 10.0
#: Accounts read, the latest, and stored in one exchange.
_MAX_READ: Final = 10_000
_MAX_STORED: Final = 1_000
_STOP_DEADLINE_S: Final = 2.0
_DAY_S: Final = 86_400.0
#: Seconds an account is kept after its last call.
_RETENTION_S: Final = 30 * _DAY_S


class MarkAccountExchange:
    """Exchanges the accounts of one process with the store.

    Args:
        memory: Counts the marks of this process.
        lock: Held while it is used.
    """

    def __init__(
        self, memory: TeamMemory, lock: threading.Lock, store: Store, now: Callable[[], float]
    ) -> None:
        self._memory, self._lock, self._store, self._now = memory, lock, store, now
        memory.borrow_stakes()
        self._looked_at = now() - _RETENTION_S
        self._halved_at = 0.0

    @asynccontextmanager
    async def running(self, tasks: BackgroundTaskGroup) -> AsyncIterator[None]:
        """Exchange accounts every few seconds; at the end, store what was counted last."""
        task = tasks.keep(self._exchange_repeatedly)
        try:
            yield
        finally:
            tasks.end(task)
            await self.stop()

    async def _exchange_repeatedly(self) -> None:
        while True:
            try:
                await self.exchange()
            except StoreError as error:
                _log.warning("The accounts of cache marks were not shared: %s", error)
            await asyncio.sleep(EXCHANGE_INTERVAL_S)

    async def stop(self) -> None:
        """Store what was counted last, where the store answers in time."""
        try:
            async with asyncio.timeout(_STOP_DEADLINE_S):
                await self._store.ask(partial(self._store_news, self._now(), ends=True))
        except (StoreError, TimeoutError) as error:
            _log.warning("The last accounts of cache marks were not stored: %s", error)

    async def exchange(self) -> None:
        """Store what was counted here, and take over what others counted.

        Raises:
            StoreError: The store is away; what was counted waits for the next exchange.
        """
        now, rows = self._now(), self._store.mark_accounts
        await self._store.ask(self._store_news, now)
        await self._store.ask(self._adopt_all, self._looked_at, now)
        # Accounts are deleted by the time alone, so not where the clock was just set.
        is_steady = abs(now - self._looked_at) < _DAY_S
        self._looked_at = now - _OVERLAP_S
        if is_steady and abs(now - self._halved_at) >= HALVING_INTERVAL_S:
            self._halved_at = now
            await self._store.ask(rows.halve_losses, now)
            await self._store.ask(rows.delete_unused, now - _RETENTION_S)

    def _store_news(self, now: float, *, ends: bool = False) -> None:
        """Store what was counted here since it was stored last, and borrow; on a thread."""
        with self._lock:
            news = self._memory.account_news(_MAX_STORED)
            loans = self._memory.team_loans(ends=ends)
        if loans:
            self._borrow(loans, now)
        if not news:
            return
        changes = [feature_news.change(scope) for scope, feature_news in news.items()]
        accounts = self._store.mark_accounts.add(changes, now)
        with self._lock:
            for account in accounts:
                self._memory.adopt_account(account, news[account.scope])

    def _borrow(self, loans: Sequence[TeamLoan], now: float) -> None:
        lent = self._store.mark_accounts.lend(loans, MAX_TEAM_LOSS_NANOS, now)
        with self._lock:
            for loan, amount in zip(loans, lent, strict=True):
                self._memory.stake_of(loan.team).adopt_loan(loan, amount)

    def _adopt_all(self, since: float, now: float) -> None:
        """Take over what any process changed since then; on a thread."""
        rows = self._store.mark_accounts
        accounts = rows.updated_since(since, _MAX_READ)
        lent = rows.lent_since(since, int(now // _DAY_S))
        with self._lock:
            for account in reversed(accounts):
                self._memory.adopt_account(account)
            for team, amount in lent.items():
                self._memory.stake_of(team).note_lent(amount, now)
