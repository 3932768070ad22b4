"""Budgets as they stand in a running gateway: read, counted somewhere, admitted by, reconciled."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from proxy.limits.admission import Admission
from proxy.limits.ceilings import Ceilings
from proxy.limits.counters import counters
from proxy.limits.entry import Entry
from proxy.limits.predicting import Predictor
from proxy.limits.reconcile import Reconciler
from proxy.settle import Seal
from proxy.store.reserving import Reserving, StoreLost
from proxy.surroundings import Surroundings
from slo.budget import Budget

_log = logging.getLogger("thriftgate.budgets")

#: Seconds between two comparisons of this process's clock with Redis's.
_COMPARED_EVERY_S: Final = 10.0


class NotAlone(Exception):
    """Another process serves the same budgets, and each would count for itself."""

    def __init__(self) -> None:
        super().__init__(
            "Another gateway on this database counts budgets by itself, so limits would hold in"
            " each and not together. Set THRIFTGATE_REDIS_URL for both, or"
            " THRIFTGATE_PRIVATE_BUDGETS=1 if that is meant."
        )


@asynccontextmanager
async def standing(around: Surroundings) -> AsyncIterator[Entry | None]:
    """What calls have to pass; None where nothing is promised of what they may use.

    Raises:
        NotAlone: If another process on the database counts budgets by itself.
    """
    promises = around.promises
    if not promises.budgets and not promises.ceilings:
        yield None
        return
    predictor = Predictor(around.estimator, around.catalog)
    await predictor.begin(partial(around.opened.ask, around.opened.answers.last))
    ceilings = Ceilings(promises.ceilings, predictor) if promises.ceilings else None
    if ceilings is not None:
        around.publish(ceilings)
    async with _budgets(promises.budgets, predictor, around) as budgets:
        yield Entry(ceilings, budgets, None if budgets is None else budgets.counters)


@asynccontextmanager
async def _budgets(
    budgets: Sequence[Budget], predictor: Predictor, around: Surroundings
) -> AsyncIterator[Admission | None]:
    """What holds and settles; None where there are no budgets."""
    if not budgets:
        yield None
        return
    opened, tasks = around.opened, around.tasks
    store = counters(around.settings, opened)
    with opened.alone() as is_alone:
        if not (store.is_shared or is_alone or around.settings.private_budgets):
            raise NotAlone
        where = "in Redis, with all other processes" if store.is_shared else "in this process alone"
        _log.info("%d budgets, counted %s", len(budgets), where)
        if store.is_shared:
            await _compare_clock(store, around)
        reconciler = Reconciler(budgets, store, opened, around.now)
        admission = Admission(
            budgets,
            store,
            predictor=predictor,
            seal=Seal(opened.secret),
            tasks=tasks,
            now=around.now,
        )
        admission.say = around.say
        around.publish(reconciler)
        await reconciler.begin()
        works = [admission.beat, reconciler.run]
        if store.is_shared:
            works.append(partial(_keep_comparing, store, around))
        running = [tasks.keep(work) for work in works]
        try:
            yield admission
        finally:
            tasks.end(*running)
            tasks.start(partial(_close, store, admission))


async def _keep_comparing(store: Reserving, around: Surroundings) -> None:
    """Compare the clock with that of the counters now and then, for ever."""
    while True:
        await asyncio.sleep(_COMPARED_EVERY_S)
        await _compare_clock(store, around)


async def _compare_clock(store: Reserving, around: Surroundings) -> None:
    """Let the gateway's clock know what the counters' clock says, if they can be asked."""
    with suppress(StoreLost):
        shared = await store.time()
        if shared is not None:
            around.compare_clock(shared)


async def _close(store: Reserving, admission: Admission) -> None:
    """Let go of the counters once all is settled."""
    await admission.drained()
    await store.aclose()
