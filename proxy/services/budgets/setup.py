"""Sets up budgets in a running gateway: counters, admission, reconciliation."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final

import msgspec
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.configuration import Snapshot
from proxy.errors import OperatorError
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.amounts import quantity
from proxy.services.budgets.admission import Admission
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.ceilings import CostCeilings
from proxy.services.budgets.cost_bounds.prediction import Predictor
from proxy.services.budgets.counters import open_budget_store, with_leases
from proxy.services.budgets.reconciliation import Reconciler
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.sql.settings.stored_budgets import StoredBudgets, budgets_beside
from proxy.store.store import Store
from slo.budgets.budget import Budget
from slo.policies.file import Policies

_log = logging.getLogger("thriftgate.budgets")
_UNREAD: Final = (-1, 0)

#: Seconds between two comparisons of this process's clock with Redis's.
_COMPARE_INTERVAL_S: Final = 10.0
_AT_RISK: Final = (
    "budgets that this process counts by itself cannot begin while the database is away: the"
    " amount spent is unknown"
)
_NOT_ALONE: Final = (
    "Another gateway on this database counts budgets by itself, so limits would hold in each and"
    " not together. Set THRIFTGATE_REDIS_URL for both, THRIFTGATE_FOLDER to another folder for a"
    " gateway with a ledger of its own, or THRIFTGATE_PRIVATE_BUDGETS=1 if that is meant."
)
#: Seconds between two attempts to take the lock of who counts budgets.
_LOCK_RETRY_S: Final = 5.0


@asynccontextmanager
async def running_budgets(context: AppContext) -> AsyncIterator[AdmissionGate | None]:
    """Runs budgets and ceilings; yields the admission gate, None without a policies file.

    It follows the file: budgets and ceilings may come, go and change while the gateway runs, and
    the counters of those that stay go on.

    Raises:
        OperatorError: If another process on the database counts budgets by itself.
    """
    if context.settings.policies is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        room = _Limits(context, stack)
        commit = await room.prepare(Snapshot(context.catalog, context.policies))
        commit()
        context.follow(room.prepare)
        yield room.entry


class _ForgottenCounters(Collector):
    """Counts the counters that this process forgot for want of room."""

    def __init__(self, store: LocalBudgetStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """The count, as Prometheus' own type."""
        yield CounterMetricFamily(
            "thriftgate_budget_counters_forgotten",
            "Budget counters that this process forgot before their windows had ended",
            value=self._store.forgotten_counters,
        )


class _Limits:
    """Ceilings and budgets by the snapshot in force."""

    def __init__(self, around: AppContext, stack: AsyncExitStack) -> None:
        self._around = around
        self._stack = stack
        self._store = open_budget_store(around.settings, around.opened)
        self._leased = with_leases(self._store, around.now)
        self._predictor = Predictor(around.estimator, around.catalog, around.replica_costs.tariff)
        self._ceilings = CostCeilings((), self._predictor)
        self._admission = Admission(
            (),
            self._leased or self._store,
            predictor=self._predictor,
            seal=Pseudonymizer(around.opened.secret),
            tasks=around.tasks,
            now=around.now,
        )
        self._admission.views.say = around.alert
        self._reconciler = Reconciler((), self._store, around.opened, around.now)
        self._is_deferred = False
        self._has_learned = self._is_alone = self._is_counting = self._has_ceilings = False
        self.entry = AdmissionGate(self._ceilings, self._admission)
        stack.push_async_callback(self._end)
        self._running: list[asyncio.Task[None]] = []

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Get ready for a snapshot; what makes it hold.

        Raises:
            OperatorError: If it has budgets, and another process counts such by itself, or this one
                would count them without knowing what was spent.
        """
        policies = snapshot.policies
        if self._around.opened.is_offline:
            self._defer(policies)
        if policies.budgets and not self._is_alone:
            if not (self._is_deferred and self._store.is_shared):
                await self._around.opened.ask(self._check_alone)
            if self._store.is_shared:
                await _compare_clock(self._store, self._around)
        if (policies.budgets or policies.ceilings) and not self._has_learned:
            self._has_learned = True
            opened = self._around.opened
            await self._predictor.lengths.begin(partial(opened.ask, opened.answers.last))
        if self._is_counting:
            await self._reconciler.begin_new(policies.budgets)
        elif policies.budgets:
            self._reconciler.update(policies.budgets)
            await self._reconciler.begin()
        return partial(self._commit, snapshot)

    def _defer(self, policies: Policies) -> None:
        """Defer what needs the database, which is away since the gateway started.

        Raises:
            OperatorError: If it has budgets that would begin at nothing.
        """
        if policies.budgets and not self._store.is_shared:
            raise OperatorError(_AT_RISK)
        if not self._is_deferred:
            self._is_deferred = True
            self._running.append(self._around.tasks.keep(self._apply_deferred))

    async def _apply_deferred(self) -> None:
        """Do what a start without the database has deferred, once there is one.

        Budgets in Redis need neither meanwhile: the lock keeps other processes from counting by
        themselves, and lengths of answers are learned from calls, too.
        """
        opened = self._around.opened
        await opened.wait_until_online()
        while self._store.is_shared and not self._is_alone:
            try:
                await opened.ask(self._check_alone)
            except StoreError as error:
                _log.warning("The lock for counting budgets is not held yet: %s", error)
                await asyncio.sleep(_LOCK_RETRY_S)
        await self._predictor.lengths.begin(partial(opened.ask, opened.answers.last))

    def _check_alone(self) -> None:
        """Take the lock of the one process that may count by itself; blocks.

        Raises:
            OperatorError: Another process has it.
        """
        with ExitStack() as block:
            is_alone = block.enter_context(self._around.opened.singleton_lock())
            if not (self._store.is_shared or is_alone or self._around.settings.private_budgets):
                raise OperatorError(_NOT_ALONE)
            self._stack.enter_context(block.pop_all())
        self._is_alone = True

    def _commit(self, snapshot: Snapshot) -> None:
        policies = snapshot.policies
        self._predictor.update(snapshot.catalog)
        self._ceilings.update(policies.ceilings)
        if policies.ceilings and not self._has_ceilings:
            self._has_ceilings = True
            self._around.publish(self._ceilings)
        self._admission.update(policies.budgets)
        self._reconciler.update(policies.budgets)
        if policies.budgets and not self._is_counting:
            self._begin_counting(len(policies.budgets))

    def _begin_counting(self, budgets: int) -> None:
        self._is_counting = True
        is_shared = self._store.is_shared
        where = "in Redis, with all other processes" if is_shared else "in this process alone"
        _log.info("%s, counted %s", quantity(budgets, "budget"), where)
        self._around.publish(self._reconciler)
        if isinstance(self._store, LocalBudgetStore):
            self._around.publish(_ForgottenCounters(self._store))
        works = [self._admission.extend_reservations, self._reconciler.run]
        if is_shared:
            works.append(partial(_keep_comparing, self._store, self._around))
        if self._leased is not None:
            works.append(self._leased.run)
        self._running += [self._around.tasks.keep(work) for work in works]

    async def _end(self) -> None:
        self._around.tasks.end(*self._running)
        self._around.tasks.start(partial(_close, self._admission))


async def _keep_comparing(store: BudgetStore, around: AppContext) -> None:
    """Compare the clock with that of the counters now and then, without end."""
    while True:
        await asyncio.sleep(_COMPARE_INTERVAL_S)
        await _compare_clock(store, around)


async def _compare_clock(store: BudgetStore, around: AppContext) -> None:
    """Compare the gateway's clock with that of the counters, if they answer."""
    with suppress(StoreError):
        shared = await store.time()
        if shared is not None:
            around.compare_clock(shared)


async def _close(admission: Admission) -> None:
    """Let go of the counters once all is settled."""
    await admission.wait_until_settled()
    await admission.counters.aclose()


class BudgetOverlay:
    """The stored budgets as this process knows them.

    Where the database is away, those that were read last stay in force.
    """

    def __init__(self, stored: StoredBudgets) -> None:
        self._stored = stored
        self._known: tuple[Budget, ...] = ()
        self._revision = _UNREAD

    def revision(self) -> tuple[int, int]:
        """A value that differs after each change; blocks."""
        with suppress(StoreError):  # the ledger says that the database is away
            self._revision = self._stored.revision()
        return self._revision

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the stored budgets beside those of the file, which win; blocks."""
        try:
            self._known = tuple(stored.budget for stored in self._stored.all())
        except StoreError as error:
            _log.warning("Budgets set on pages stay as they were: %s", error)
        names = {budget.name for budget in snapshot.policies.budgets}
        for budget in self._known:
            if budget.name in names:
                _log.warning(
                    "The policies file has a budget %s, which replaces the page's", budget.name
                )
        budgets = budgets_beside(snapshot.policies.budgets, self._known)
        policies = msgspec.structs.replace(snapshot.policies, budgets=budgets)
        return msgspec.structs.replace(snapshot, policies=policies)


def stored_budget_overlay(settings: Settings, store: Store) -> BudgetOverlay | None:
    """The overlay of a gateway; None without a policies file, where no budgets are kept."""
    return None if settings.policies is None else BudgetOverlay(store.budgets)
