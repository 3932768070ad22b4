"""Budgets as they stand in a running gateway: read, counted somewhere, admitted by, reconciled."""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from functools import partial
from hashlib import blake2b
from typing import Final

from proxy.catalog.catalog import Catalog
from proxy.catalog.problems import BadCatalog
from proxy.catalog.source import decoded, parse
from proxy.limits.admission import Admission
from proxy.limits.ceilings import Ceilings
from proxy.limits.entry import Entry
from proxy.limits.predicting import Predictor
from proxy.limits.reconcile import Reconciler
from proxy.settings import Settings
from proxy.settle import Seal
from proxy.store.redis_reserving import Shared
from proxy.store.redis_steering import Together
from proxy.store.reserving import Private, Reserving, StoreLost
from proxy.store.store import Store
from proxy.surroundings import Surroundings
from slo.budget import Budget
from slo.promises.file import Promises, models, read
from slo.promises.table import BadPromises, Mistake, Place, mistake
from slo.rungs import WORDS

_log = logging.getLogger("thriftgate.budgets")

_UNKNOWN: Final = "write a model's public name, or add it to the catalog"
#: Seconds that Redis has to answer whoever only asks whether it is there.
_REACHED: Final = 1.0


class NotAlone(Exception):
    """Another process serves the same budgets, and each would count for itself."""

    def __init__(self) -> None:
        super().__init__(
            "Another gateway on this database counts budgets by itself, so limits would hold in"
            " each and not together. Set THRIFTGATE_REDIS_URL for both, or"
            " THRIFTGATE_PRIVATE_BUDGETS=1 if that is meant."
        )


def promised(settings: Settings, known: Catalog | None = None) -> Promises:
    """What the file of promises says; nothing where there is none.

    Args:
        settings: They name it.
        known: The models that calls may be moved to; None for whichever it names.

    Raises:
        BadPromises: With every mistake found.
        OSError: If the file cannot be read.
    """
    if settings.promises is None:
        return Promises()
    raw, file = settings.promises.read_bytes(), str(settings.promises)
    try:
        top = parse(decoded(raw, file), file)
    except BadCatalog as bad:
        raise BadPromises(
            Mistake(file=each.file, line=each.line, where="", what=each.what, mend=each.mend)
            for each in bad.problems
        ) from None
    found = read(top)
    if known is not None and (strange := list(_strangers(top, known))):
        raise BadPromises(strange)
    return found


def _strangers(top: Place, known: Catalog) -> Iterator[Mistake]:
    """The models that promises name and the catalog has not."""
    for where, place in models(top):
        name = place.value
        if known.find(name) is None:
            others = known.models if where.startswith("ceilings.") else [*known.models, *WORDS]
            close = get_close_matches(name, others, n=1)
            mend = f"did you mean {close[0]}?" if close else _UNKNOWN
            yield mistake(place, where, f"names {name}, which the catalog has not", mend)


def counters(settings: Settings, opened: Store) -> Reserving:
    """Where budgets are counted.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is none.
    """
    if not settings.redis_url:
        return Private()
    return Shared(settings.redis_url, blake2b(opened.secret, digest_size=8).hexdigest())


def check_counters(settings: Settings) -> None:
    """Nothing, where the settings name counters that can be asked.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is no such URL.
    """
    if settings.redis_url:
        Shared(settings.redis_url, "check")


async def away(settings: Settings) -> str:
    """Why the Redis that the settings name cannot be asked; "" where it can, or they name none.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is none.
    """
    if not settings.redis_url:
        return ""
    shared = Together(settings.redis_url, "check", deadline=_REACHED)
    try:
        await shared.standings()
    except StoreLost as error:
        return str(error)
    finally:
        await shared.aclose()
    return ""


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
        running = [tasks.keep(work) for work in (admission.beat, reconciler.run)]
        try:
            yield admission
        finally:
            tasks.end(*running)
            tasks.start(partial(_close, store, admission))


async def _close(store: Reserving, admission: Admission) -> None:
    """Let go of the counters once all is settled."""
    await admission.drained()
    await store.aclose()
