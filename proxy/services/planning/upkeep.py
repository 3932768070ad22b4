"""Periodic work of a running gateway: retention, pending sums, known keys, the planning guard."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.reloading import Reloader
from proxy.services.cut_attempts import keep_cut_attempts_booked, keep_sent_attempts_in_place
from proxy.services.planning.guard import SendAlert, suspension_alert
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.access.known_keys import FILE_NAME, KnownKeysFile, remove_known_keys
from proxy.store.sql.settings.layouts import Suspension, suspend_harmful
from proxy.store.store import Store

_log = logging.getLogger("thriftgate.upkeep")

#: Seconds between two rounds of retention.
_RETENTION_INTERVAL_S: Final = 3_600.0
#: Seconds one round may take.
_RETENTION_ROUND_S: Final = 30.0
#: Days a conversation's plan is kept after it was last asked for.
_PLAN_RETENTION_DAYS: Final = 14
#: Seconds between two looks at what planning saves.
_GUARD_INTERVAL_S: Final = 900.0
_DAY_S: Final = 86_400.0
#: Seconds between two moves of pending sums, and seconds one may take.
_MERGE_INTERVAL_S: Final = 10.0
_MERGE_ROUND_S: Final = 5.0
#: Seconds between two looks whether the keys known have changed.
_KEYS_INTERVAL_S: Final = 1.0


def begin_upkeep(
    tasks: BackgroundTaskGroup, opened: Store, reloader: Reloader, now: Callable[[], float]
) -> Sequence[asyncio.Task[None]]:
    """Begin the work that a gateway does for its store as long as it runs; its tasks."""
    settings = reloader.settings
    works = (
        partial(apply_retention, opened, settings.retention_days, now),
        partial(merge_pending_sums, opened),
        partial(keep_known_keys, opened, settings, now),
        partial(keep_cut_attempts_booked, opened, reloader, now),
        partial(keep_sent_attempts_in_place, opened.sent),
    )
    return [tasks.keep(work) for work in works]


async def apply_retention(opened: Store, days: int, now: Callable[[], float]) -> None:
    """Drop what is older than it may be, a little at a time, until cancelled."""
    while True:
        before, idle = now() - days * _DAY_S, now() - _PLAN_RETENTION_DAYS * _DAY_S
        try:
            await opened.ask(opened.ledger.retain, before, _RETENTION_ROUND_S)
            await opened.ask(opened.plans.retain, idle, _RETENTION_ROUND_S)
            await opened.ask(opened.pending_sums.delete_histograms, before, _RETENTION_ROUND_S)
            await opened.ask(opened.replica_time.delete_runs, before)
        except StoreError as error:
            _log.warning("Old rows were not deleted; the next round is in an hour: %s", error)
        await asyncio.sleep(_RETENTION_INTERVAL_S)


async def merge_pending_sums(opened: Store) -> None:
    """Move sums of new calls to their days, hours and histograms, until cancelled.

    Pages count them before, too: it only keeps them quick.
    """
    while True:
        try:
            await opened.ask(opened.pending_sums.merge, _MERGE_ROUND_S)
        except StoreError as error:
            _log.warning("Sums of new calls were not moved to their days: %s", error)
        await asyncio.sleep(_MERGE_INTERVAL_S)


async def keep_known_keys(opened: Store, settings: Settings, now: Callable[[], float]) -> None:
    """Write down which keys are known, for a start without the database, until cancelled.

    Where they are never to be served, none are left on disk.
    """
    path = settings.folder / FILE_NAME
    if not settings.known_keys_max_age_s:
        await opened.ask(remove_known_keys, path)
        return
    file = KnownKeysFile(path, settings.ledger_url, opened.secret)
    while True:
        await opened.ask(file.refresh, opened.keyring, now())
        await asyncio.sleep(_KEYS_INTERVAL_S)


def measure_and_suspend(opened: Store, now: Callable[[], float]) -> list[Suspension]:
    """The features that are suspended now, by arms compared lately by any process; blocks."""
    measured = opened.arms.latest(now() - _GUARD_INTERVAL_S) or opened.arms.measure(now)
    return suspend_harmful(opened.savings, opened.layouts, measured, now())


async def suspend_harmful_features(opened: Store, now: Callable[[], float], say: SendAlert) -> None:
    """Return features that planning makes dearer to being sent unmodified, until cancelled."""
    while True:
        await asyncio.sleep(_GUARD_INTERVAL_S)
        try:
            suspensions = await opened.ask(measure_and_suspend, opened, now)
        except StoreError as error:
            _log.warning("The savings of planning could not be measured: %s", error)
            continue
        for suspension in suspensions:
            _log.error(
                "Planning is suspended for feature %r of team %s until a person resumes it: %s",
                suspension.place.feature,
                suspension.place.team,
                suspension.reason,
            )
            name = opened.keyring.team_name(suspension.place.team)
            say(suspension_alert(suspension.place, name, suspension.reason, now()))
