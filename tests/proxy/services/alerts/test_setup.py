import asyncio
import logging
import os

import msgspec
from sqlalchemy import text

from proxy.services.alerts.setup import running_alerts
from proxy.store.journal.removed_segments import UnshippedLines
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from slo import window
from slo.alert import budget_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.policies.file import Policies
from slo.window import Window
from tests.fakes.alerts import NOW, a_sink, an_alert
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.databases import migrated_sqlite
from tests.fakes.offline import offline_store

DAY = Budget(name="day", scope="team", unit=BudgetUnit.REQUESTS, window=Window.DAY, limit=1_000)


def stood(store, *alerts, sinks=(), budgets=()):
    """Enqueues alerts while the dispatcher runs."""

    async def run() -> None:
        policies = Policies(sinks=sinks, budgets=budgets)
        async with running_alerts(policies, store, LoopTasks(), lambda: NOW) as dispatcher:
            await asyncio.sleep(0)
            for alert in alerts:
                dispatcher.enqueue(alert)

    asyncio.run(run())


def test_alerts_are_in_the_outbox_after_shutdown(store):
    stood(store, an_alert())

    assert store.outbox.open_alerts(9) == [an_alert()]


def test_files_of_the_journal_that_were_removed_are_alerted_once(store):
    for name in ("1-a.segment", "2-a.segment"):
        path = store.journal.folder / name
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        store.journal.removed.take_over(file, path, 0, UnshippedLines(0))
    stood(store)

    (alert,) = store.outbox.open_alerts(9)
    assert (alert.kind, alert.subject, alert.began) == ("store", "journal", NOW)
    assert str(store.journal.folder) in alert.facts[0][1]
    assert alert.expires == NOW + 3600


def test_a_sink_whose_address_is_unknown_is_told_of_in_the_log(store, caplog):
    caplog.set_level(logging.WARNING)
    stood(store, sinks=(a_sink(url_env="NOBODY_SETS_THIS", secret_env="NOR_THIS"),))

    assert "NOBODY_SETS_THIS is not set" in caplog.text


def test_an_open_budget_alert_ends_once_the_limit_is_raised(store):
    alert = budget_alert(DAY, "acme", 95, 960, NOW, window.window_end(Window.DAY, NOW))
    raised = msgspec.structs.replace(DAY, limit=2_000)
    stood(store, alert, an_alert())
    stood(store, budgets=(DAY, raised))
    assert len(store.outbox.open_alerts(9)) == 2

    stood(store, budgets=(raised,))
    assert store.outbox.open_alerts(9) == [an_alert()]


def test_a_database_that_is_away_keeps_no_gateway_from_starting(store, caplog):
    with write_transaction(store._engine) as connection:
        connection.execute(text("DROP TABLE alerts"))
    stood(store)

    assert "Open alerts stay as they are: no such table" in caplog.text


def test_without_its_database_alerts_wait_for_it_and_are_reviewed_once_it_is_there(
    tmp_path, caplog
):
    opened, _ = offline_store(tmp_path)
    other = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "other")
    alert = budget_alert(DAY, "acme", 95, 960, NOW, window.window_end(Window.DAY, NOW))
    other.outbox.add([alert], {}, NOW)

    async def run() -> None:
        async with (
            asyncio.timeout(60),
            running_alerts(Policies(), opened, LoopTasks(), lambda: NOW) as dispatcher,
        ):
            await asyncio.sleep(0)
            is_away = "Open alerts stay" in caplog.text
            opened.go_online()
            while await opened.ask(other.outbox.open_alerts, 9):
                await asyncio.sleep(0.05)
                await dispatcher.maintain()
        assert not is_away

    asyncio.run(run())
    opened.close(5)
    other.close(5)
