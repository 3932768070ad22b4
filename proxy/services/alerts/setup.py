"""Sets up alerts in a running gateway: sinks, outbox, dispatcher."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.configuration import Prepare, Snapshot
from proxy.services.alerts.configured_sinks import (
    ConfiguredSink,
    configured_sinks,
    environment_variables,
)
from proxy.services.alerts.dispatch import AlertDispatcher
from proxy.services.alerts.http_sender import HttpSender
from proxy.settings import upstream_keys
from proxy.store.errors import StoreError
from proxy.store.journal.removed_segments import RemovedSegments
from proxy.store.sql.outbox import MAX_ALERTS
from proxy.store.store import Store
from slo.alert import Alert, Severity, outdated_alerts, resolve_alert, stable_id
from slo.budgets.budget import Budget
from slo.policies.file import Policies
from slo.policies.sinks import Sink

_log = logging.getLogger("thriftgate.alerts")

#: Seconds between two checks of whether files of the journal were removed.
_CHECK_INTERVAL_S: Final = 5.0
#: Seconds for which an alert about removed files is open.
_NOTICE_S: Final = 3600.0
_KEEP_FILES: Final = (
    "Exclude the folder from cleaners of old files and rotations of logs, and mount nothing over it"
    " while the gateway runs. A kill -9 in the moment of a removal loses the receipts of that"
    " moment."
)


@asynccontextmanager
async def running_alerts(
    policies: Policies,
    opened: Store,
    tasks: BackgroundTaskGroup,
    now: Callable[[], float],
    gateway_url: str = "",
) -> AsyncIterator[AlertDispatcher]:
    """Runs the dispatcher of alerts; at the end of the block, what was queued is in the outbox.

    A sink whose address is unknown gets nothing, and the log says so. Without sinks alerts
    are kept all the same, and `thriftgate alerts` shows them.

    Args:
        policies: Their sinks are notified. What is open about other budgets than theirs, or about
            another limit, ends.
        gateway_url: URL at which browsers reach the gateway, for links in messages.
    """
    configured, lacking = _reachable_sinks(policies.sinks, gateway_url)
    for why in lacking:
        _log.warning("%s", why)
    async with HttpSender() as post:
        alerts = AlertDispatcher(configured, opened, now, post=post, salt=token_hex(4))
        running = []
        if opened.is_offline:
            work = partial(_review_once_online, alerts, policies.budgets, opened, now)
            running.append(tasks.start(work))
        else:
            await _review(alerts, policies.budgets, opened, now())
        running.append(tasks.keep(alerts.run))
        removals = partial(alert_on_removals, opened.journal.removed, now, alerts.enqueue)
        running.append(tasks.keep(removals))
        try:
            yield alerts
        finally:
            tasks.end(*running)
            await asyncio.wait(running)


def sinks_of_policies(
    alerts: AlertDispatcher,
    opened: Store,
    tasks: BackgroundTaskGroup,
    now: Callable[[], float],
    gateway_url: str = "",
) -> Prepare:
    """Prepares alerts for another policies file: its sinks are notified, and no others.

    What is open about budgets that were changed or taken back ends.
    """

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        sinks, budgets = snapshot.policies.sinks, snapshot.policies.budgets
        configured, lacking = _reachable_sinks(sinks, gateway_url)

        def commit() -> None:
            for why in lacking:
                _log.warning("%s", why)
            alerts.update(configured)
            tasks.start(lambda: _review(alerts, budgets, opened, now()))

        return commit

    return prepare


def _reachable_sinks(
    sinks: Sequence[Sink], gateway_url: str
) -> tuple[list[ConfiguredSink], list[str]]:
    variables = upstream_keys(environment_variables(sinks))
    return configured_sinks(sinks, variables, gateway_url.rstrip("/"))


async def alert_on_removals(
    removed: RemovedSegments, now: Callable[[], float], send_alert: Callable[[Alert], object]
) -> None:
    """Send an alert of an hour once files are removed, and another if they are after that."""
    alert: Alert | None = None
    while True:
        notice = removed.notice
        if notice is not None and (alert is None or (alert.expires or 0.0) <= now()):
            alert = Alert(
                id=stable_id("journal", notice, f"{now():.0f}"),
                kind="store",
                subject="journal",
                severity=Severity.PAGE,
                title="Files of the journal are removed or truncated while the gateway uses them",
                facts=(("removed", notice),),
                action="What could be read of them was written into a new file.",
                fix=_KEEP_FILES,
                began=now(),
                expires=now() + _NOTICE_S,
            )
            send_alert(alert)
        await asyncio.sleep(_CHECK_INTERVAL_S)


async def _review_once_online(
    alerts: AlertDispatcher, budgets: Sequence[Budget], opened: Store, now: Callable[[], float]
) -> None:
    await opened.wait_until_online()
    await _review(alerts, budgets, opened, now())


async def _review(
    alerts: AlertDispatcher, budgets: Sequence[Budget], opened: Store, now: float
) -> None:
    """End what is open about budgets that are promised no more."""
    for alert in outdated_alerts(await _open_alerts(opened), budgets):
        alerts.enqueue(resolve_alert(alert, now, "Its budget was changed or taken back."))


async def alerts_left_open(opened: Store) -> Sequence[Alert]:
    """The alerts that are open once the database is reached; none where they cannot be read."""
    await opened.wait_until_online()
    return await _open_alerts(opened)


async def _open_alerts(opened: Store) -> Sequence[Alert]:
    try:
        return await opened.ask(opened.outbox.open_alerts, MAX_ALERTS)
    except StoreError as error:
        _log.warning("Open alerts stay as they are: %s", error)
        return ()
