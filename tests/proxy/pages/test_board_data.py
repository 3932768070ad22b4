"""Tests of what a running gateway tells its pages."""

from collections.abc import Sequence
from typing import Any

import pytest

from dashboards.board import AdminBoard, BurnStatus, CeilingStatus, Pin
from proxy.pages.board_data import LiveBoard, receipt_facts
from proxy.services.objectives.objective_state import BurnWindow, Miss
from proxy.store.sql.alert_records import AlertResponse
from proxy.store.sql.settings.pins import PinRow
from proxy.store.store import Store
from slo.alert import Severity, budget_alert
from slo.budgets.budget import Budget, BudgetUnit
from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Enforce, Metric, RequestKind
from slo.objectives.verdict import ObjectiveVerdict
from slo.window import Window, window_end
from tests.fakes.admission_harness import NOW
from tests.fakes.alerts import an_alert
from tests.fakes.live_board import ask_board, keep, objective_router
from tests.fakes.objective_replicas import objective
from tests.fakes.receipts import a_receipt

BUDGET = Budget(name="b", scope="team", unit=BudgetUnit.USD, window=Window.MONTH, limit=10**9)


def test_a_live_board_answers_all_that_pages_ask(store: Store) -> None:
    board: AdminBoard = LiveBoard(store, (), router=None, counters=None, now=lambda: NOW)

    assert isinstance(board, LiveBoard)


def test_where_nothing_is_promised_nothing_is_told(store: Store) -> None:
    async def everything(board: LiveBoard) -> list[Sequence[Any] | None]:
        parts = (
            board.objectives,
            board.reroutes,
            board.missed_times,
            board.rerouted_calls,
            board.counters,
            board.open_alerts,
        )
        return [await part() for part in parts]

    assert ask_board(store, everything) == [[], [], [], [], [], []]


def test_an_objective_stands_where_the_router_has_it(store: Store) -> None:
    snapshot = ControllerSnapshot(
        state=ControllerState.DEGRADED, level=2, since=NOW - 9, reason="31 of 60 were slow"
    )
    moving = objective_router(objective(feature="chat", name="chat"), chat=snapshot)
    (status,) = ask_board(store, LiveBoard.objectives, router=moving) or ()

    assert (status.name, status.feature, status.what) == (
        "chat",
        "chat",
        "p95 of ttft within 500ms",
    )
    assert (status.enforce, status.acts, status.ladder) == ("degrade", True, ("elsewhere", "small"))
    assert (status.state, status.level, status.since) == ("degraded", 2, NOW - 9)
    assert (status.why, status.pin) == ("31 of 60 were slow", None)


def test_an_objective_that_nothing_was_said_of_is_healthy(store: Store) -> None:
    (status,) = (
        ask_board(
            store, LiveBoard.objectives, router=objective_router(objective(enforce=Enforce.ALERT))
        )
        or ()
    )

    assert status.knows_pin
    assert (status.state, status.level, status.since, status.why) == ("healthy", 0, None, "")
    assert (status.acts, status.only) == (False, "")
    assert (status.burn, status.missed, status.counted) == (None, 0, 0)


def test_an_objective_about_streams_alone_says_so(store: Store) -> None:
    streams = objective(calls=RequestKind.STREAMS)
    (status,) = ask_board(store, LiveBoard.objectives, router=objective_router(streams)) or ()

    assert status.only == "streams only"


def test_burn_is_of_the_last_ten_minutes_on_all_levels(store: Store) -> None:
    moving = objective_router(
        objective(name="chat"), objective(name="cache", metric=Metric.CACHE, under=None)
    )
    for name in ("chat", "cache"):
        arm = moving.tracks[name].arm
        moving.tally.add(arm(0), 60, 20, NOW - 500)
        moving.tally.add(arm(1), 20, 0, NOW)
        moving.tally.add(arm(1), 1000, 1000, NOW - 700)
    chat, cache = ask_board(store, LiveBoard.objectives, router=moving) or ()

    assert chat.burn == pytest.approx(4.0)
    assert (chat.missed, chat.counted) == (cache.missed, cache.counted) == (20, 100)
    assert (cache.burn, cache.floor, chat.floor) == (None, 0.95, None)


def test_burns_over_the_windows_of_alerts_are_those_of_the_leader(store: Store) -> None:
    moving = objective_router(objective(name="chat"))
    moving.burns = {"chat": (BurnWindow(1800.0, 6.0, 2.5, 40, 600.0, 5),)}
    (status,) = ask_board(store, LiveBoard.objectives, router=moving) or ()

    assert status.burns == [
        BurnStatus(over=1800.0, limit=6.0, rate=2.5, counted=40, known=600.0, missed=5)
    ]
    assert status.verdict == ObjectiveVerdict.AT_RISK
    assert status.fact.startswith("5 of 40 calls had no first token within 500 ms in the last 10 m")


def test_a_dry_run_counts_calls_that_would_have_fallen_back(store: Store) -> None:
    ladder = ("elsewhere", "small")
    dry = objective(name="dry", enforce=Enforce.OBSERVE, ladder=ladder)
    acting = objective(name="acting", enforce=Enforce.DEGRADE, ladder=ladder)
    router = objective_router(dry, acting)
    router.not_enforced["dry", "small"] = 3
    router.rerouted["acting", "elsewhere"] = 2
    router.rerouted["dry", "elsewhere"] = 9  # of a time at which it was enforced

    statuses = ask_board(store, LiveBoard.objectives, router=router) or ()
    assert {status.name: list(status.fell_back) for status in statuses} == {
        "dry": [("small", 3)],
        "acting": [("elsewhere", 2)],
    }


def test_ceilings_are_shown_with_what_was_decided(store: Store) -> None:
    ceiling = Ceiling(name="cent", limit=10_000_000, on_exceed=(CeilingStep.REFUSE,))
    counts = [(ceiling, [("fits", 3), ("refused", 1)])]

    async def show_ceilings(board: LiveBoard) -> Sequence[CeilingStatus]:
        board.show_ceilings(lambda: counts)
        return await board.ceilings()

    (status,) = ask_board(store, show_ceilings)

    assert (status.name, status.limit_nanos, status.steps) == ("cent", 10_000_000, ["refuse"])
    assert status.decisions == [("fits", 3), ("refused", 1)]


def test_a_pin_says_who_set_it(store: Store) -> None:
    row = PinRow(objective="chat", level=1, until=NOW + 60, why="a test", made=NOW - 5, who="ann")
    store.pins.set(row)
    pinned = ControllerSnapshot(
        state=ControllerState.PINNED,
        level=1,
        since=NOW,
        reason="Pinned to fallback level 1: a test",
    )
    (status,) = (
        ask_board(
            store,
            LiveBoard.objectives,
            router=objective_router(objective(name="chat"), chat=pinned),
        )
        or ()
    )

    assert status.pin == Pin(who="ann", why="a test", until=NOW + 60)
    assert (status.state, status.why) == ("pinned", "")
    assert status.verdict == ObjectiveVerdict.NO_DATA, "a person's pin puts nothing at risk"


def test_reroutes_and_rerouted_calls_are_shown(store: Store) -> None:
    keep(store, a_receipt(1, reroute_reason="chat-ttft: fallback level 1"))
    move = an_alert(kind="move", title="chat-ttft is degraded, on fallback level 1: small")
    store.outbox.add([move], {}, NOW)

    (call,) = ask_board(store, LiveBoard.rerouted_calls) or ()
    (stay,) = ask_board(store, LiveBoard.reroutes) or ()
    assert call.why == "chat-ttft: fallback level 1"
    assert (stay.objective, stay.level) == ("chat-ttft", "small")


def test_open_alerts_are_told_with_what_is_done_and_what_to_do(store: Store) -> None:
    store.outbox.add([an_alert()], {}, NOW)
    (status,) = ask_board(store, LiveBoard.open_alerts) or ()

    assert (status.severity, status.began) == (Severity.PAGE, an_alert().began)
    assert (status.title, status.facts) == (an_alert().title, an_alert().facts)
    assert (status.done, status.fix) == (an_alert().action, "Pin it")


def test_the_stages_of_one_budget_are_one_open_alert(store: Store) -> None:
    ends = window_end(Window.MONTH, NOW)
    low, high, other = (
        budget_alert(BUDGET, whose, percent, 1, NOW + percent, ends)
        for whose, percent in (("acme", 50), ("acme", 80), ("other", 50))
    )
    store.outbox.add([low, high, other], {}, NOW)
    response = AlertResponse(alert=high.id, action="snooze", at=NOW, who="ann", until=NOW + 60)
    store.alert_records.respond(response)
    shown = ask_board(store, LiveBoard.open_alerts) or ()

    assert [(one.id, one.stages) for one in shown] == [(high.id, 2), (other.id, 1)]
    assert [one.snoozed_until for one in shown] == [NOW + 60, None]


def test_a_receipt_of_no_known_price_says_so_and_one_that_used_nothing_does_not() -> None:
    unknown = a_receipt(1, cost_nanos=None, list_nanos=None)
    nothing = a_receipt(2, cost_nanos=None, list_nanos=None, usage=None, ttft=None)

    costs = [dict(receipt_facts(receipt)).get("cost_usd") for receipt in (unknown, nothing)]
    assert costs == ["no known price", None]


def test_a_missed_objective_without_a_ladder_is_missed_on_the_board(store: Store) -> None:
    bare = objective_router(objective(ladder=(), enforce=Enforce.ALERT))
    bare.missed = {"chat-ttft": Miss(NOW - 60, "92 of 92 calls missed it")}
    (status,) = ask_board(store, LiveBoard.objectives, router=bare) or ()

    assert (status.state, status.level, status.since) == ("missed", 0, NOW - 60)
    assert status.why == "92 of 92 calls missed it"
