import asyncio
import logging
from collections.abc import Callable
from typing import Any

from proxy.services.alerts.dispatch import MAX_QUEUED_ALERTS, AlertDispatcher
from proxy.services.alerts.notifier import LEASE_S
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo import window
from slo.alert import Severity
from slo.alerting import GROUPING_SLOT_S, ThresholdWatch
from slo.budgets.budget import Budget, BudgetUnit, counter_key
from slo.budgets.counter import CounterLevel
from slo.window import Window
from tests.fakes.alerts import NOW, POISON, an_alert, an_outlet, json_of_post
from tests.fakes.dispatcher_harness import FAILS, OK, DispatcherHarness, dispatcher_harness
from tests.fakes.server import serving


async def test_the_same_said_again_here_or_by_another_process_is_told_once(store):
    async with dispatcher_harness(store, [OK]) as room:
        other = room.beside(an_outlet(room.server, at_least=Severity.NOTE))
        other.enqueue(an_alert())
        room.alerts.enqueue(an_alert())
        await room.after(0, other)
        await room.said(an_alert())
        await room.after(0, other)
        await room.after(LEASE_S, other)

        assert room.subjects() == [["chat-ttft"]]


async def test_a_threshold_that_was_told_before_a_restart_is_not_told_after_it(store):
    day = Budget(name="day", scope="team", unit=BudgetUnit.REQUESTS, window=Window.DAY, limit=100)
    ends, name = window.window_end(Window.DAY, NOW), counter_key(day, "acme", NOW)

    async with dispatcher_harness(store, [OK]) as room:
        for spent in (80, 81, 95):
            watch = ThresholdWatch()
            alert = watch.crossed_threshold_alert(
                day, "acme", name, CounterLevel(spent, 0), ends, room.now
            )
            room.alerts = room.beside(an_outlet(room.server))
            await room.said(*([alert] if alert else []))

        assert room.subjects() == [["day of team acme"]] * 2


async def test_no_alert_is_sent_before_its_slot_is_over(store):
    async with dispatcher_harness(store, [OK]) as room:
        room.alerts.enqueue(an_alert())
        await room.after(0)
        assert room.got == []


async def test_an_alert_with_an_expiry_ends_by_itself(store, caplog):
    caplog.set_level(logging.INFO)

    async with dispatcher_harness(store, [OK]) as room:
        await room.said(an_alert(expires=NOW + 100))
        await room.after(100)
        await room.after(1)
        await room.after(GROUPING_SLOT_S)

        assert room.types() == ["open", "resolved"]
        assert json_of_post(room.got[1])["data"]["alerts"][0]["seconds"] == 100
    logged = [(record.levelname, record.getMessage()[:15]) for record in caplog.records]
    assert [entry for entry in logged if entry[1].startswith("Alert")] == [
        ("WARNING", "Alert, page: ch"),
        ("INFO", "Alert, resolved"),
    ]


async def test_a_sink_is_told_only_of_what_is_urgent_enough_for_it(store):
    async with dispatcher_harness(store, [OK]) as room:
        room.alerts = room.beside(an_outlet(room.server, at_least=Severity.PAGE))
        await room.said(an_alert("t", severity=Severity.TICKET), an_alert("p"))

        assert room.subjects() == [["p"]]


async def test_one_sink_that_fails_keeps_nothing_from_another(store):
    async with dispatcher_harness(store, [FAILS]) as room, serving(OK) as well:
        room.alerts = room.beside(an_outlet(room.server), an_outlet(well, name="well"))
        await room.said(an_alert())

        assert (len(room.got), len(well.got)) == (1, 1)


async def test_poisoned_names_reach_sinks_and_the_log_on_one_line(store, caplog):
    caplog.set_level(logging.INFO)

    async with dispatcher_harness(store, [OK]) as room:
        await room.said(an_alert(POISON, title=POISON, facts=((POISON, POISON),)))
        (alert,) = json_of_post(room.got[0])["data"]["alerts"]

        assert all(alert[name].isprintable() for name in ("subject", "title"))
        assert len(room.got[0].body) < 5_000
    messages = [
        record.getMessage() for record in caplog.records if record.name == "thriftgate.alerts"
    ]
    assert len(messages) == 1
    assert messages[0].isprintable()


async def test_alerts_wait_in_bounded_memory_while_the_database_is_away(store, caplog):
    async with dispatcher_harness(store, [OK]) as room:
        flaky = Flaky(room.store)
        alerts = flaky.alerts(room)
        accepted = [alerts.enqueue(an_alert(f"s{n}")) for n in range(MAX_QUEUED_ALERTS + 3)]
        await alerts.maintain()
        await alerts.maintain()
        assert accepted == [True] * MAX_QUEUED_ALERTS + [False] * 3
        (metric,) = alerts.collect()
        assert [sample.value for sample in metric.samples] == [alerts.dropped] == [3]
        flaky.is_away = False
        await alerts.maintain()
        assert len(room.store.outbox.open_alerts(MAX_QUEUED_ALERTS + 9)) == MAX_QUEUED_ALERTS
    assert caplog.text.count("Alert, page:") == 10 * MAX_QUEUED_ALERTS // 200
    assert (
        caplog.text.count("190 more alerts; list them with `thriftgate alerts`")
        == MAX_QUEUED_ALERTS // 200
    )
    assert caplog.text.count("Database unavailable, 2000 alerts kept in memory") == 1
    assert caplog.text.count("Alerts are dropped") == 1


async def test_each_overflow_of_the_alert_queue_is_logged_once(store, caplog):
    async with dispatcher_harness(store, [OK]) as room:
        flaky = Flaky(room.store)
        alerts = flaky.alerts(room)
        for outage in ("first", "second"):
            flaky.is_away = True
            for number in range(MAX_QUEUED_ALERTS + 3):
                alerts.enqueue(an_alert(f"{outage} {number}"))
            await alerts.maintain()
            alerts.enqueue(an_alert(f"{outage}, later"))
            flaky.is_away = False
            await alerts.maintain()

        assert alerts.dropped == 8
    assert caplog.text.count("Alerts are dropped") == 2


async def test_alerts_that_cannot_be_stored_at_shutdown_are_logged(store, caplog):
    async with dispatcher_harness(store, [OK]) as room:
        alerts = Flaky(room.store).alerts(room)
        alerts.enqueue(an_alert())
        running = asyncio.get_running_loop().create_task(alerts.run())
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.wait({running})
    assert "Alerts could not be stored and are lost: 1 alert (" in caplog.text
    assert "The sink `on-call` is not notified for 2 s" in caplog.text


async def test_much_that_is_said_is_remembered_within_bounds(store):
    async with dispatcher_harness(store, [OK]) as room:
        alerts = Flaky(room.store).alerts(room, remembered=2)
        for name in "abca":
            alerts.enqueue(an_alert(name))

        assert len(alerts._seen) == 2
        assert len(alerts._waiting) == 4


class Flaky:
    """A store whose database is away."""

    def __init__(self, store: Store) -> None:
        self.is_away = True
        self.outbox = store.outbox
        self._store = store

    async def ask(self, question: Callable[..., Any], *args: Any) -> Any:
        if self.is_away:
            raise StoreError("away")
        return await self._store.ask(question, *args)

    def alerts(self, room: DispatcherHarness, **fields: Any) -> AlertDispatcher:
        outlets = [an_outlet(room.server)]
        return AlertDispatcher(outlets, self, lambda: room.now, post=room.post, **fields)  # type: ignore[arg-type]


async def test_alerts_queued_at_shutdown_are_stored(store):
    async with dispatcher_harness(store, [OK]) as room:
        running = asyncio.get_running_loop().create_task(room.alerts.run())
        await asyncio.sleep(0.05)
        room.alerts.enqueue(an_alert())
        running.cancel()
        await asyncio.wait({running})

        assert running.cancelled()
        assert [alert.subject for alert in room.store.outbox.open_alerts(9)] == ["chat-ttft"]


async def test_running_it_tells_what_is_said(store):
    async with dispatcher_harness(store, [OK]) as room:
        running = asyncio.get_running_loop().create_task(room.alerts.run())
        room.alerts.enqueue(an_alert())
        while not room.store.outbox.open_alerts(1):  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0.01)
        room.now += GROUPING_SLOT_S
        async with asyncio.timeout(10):
            await room.server.asked.wait()
        running.cancel()
        await asyncio.wait({running})

        assert room.subjects() == [["chat-ttft"]]


async def test_sinks_that_change_are_told_from_then_on_and_those_that_went_are_told_no_more(store):
    async with dispatcher_harness(store, [OK]) as room:
        (old,) = room.alerts._notifiers.values()
        stays = an_outlet(room.server, at_least=Severity.NOTE)
        room.alerts.update([stays, an_outlet(room.server, name="second")])
        assert old in room.alerts._notifiers.values()

        running = asyncio.get_running_loop().create_task(room.alerts.run())
        await asyncio.sleep(0)
        assert len(room.alerts._running) == 2
        room.alerts.update([])
        assert room.alerts._running == {}
        running.cancel()
        await asyncio.wait({running})
