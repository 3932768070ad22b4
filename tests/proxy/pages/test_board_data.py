"""Tests of what a running gateway tells its pages."""

from collections.abc import Sequence
from typing import Any

import pytest

from dashboards.board import AdminBoard, BurnStatus, CeilingStatus, Pin
from proxy.pages.board_data import LiveBoard, receipt_facts
from proxy.services.objectives.objective_state import BurnWindow, Miss
from proxy.store.sql.settings.pins import PinRow
from proxy.store.store import Store
from slo.alert import Severity
from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Enforce, Metric, RequestKind
from tests.fakes.admission_harness import NOW
from tests.fakes.alerts import an_alert
from tests.fakes.live_board import ask_board, keep, wheel
from tests.fakes.objective_replicas import objective
from tests.fakes.receipts import a_receipt


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


def test_an_objective_stands_where_the_wheel_has_it(store: Store) -> None:
    standing = ControllerSnapshot(
        state=ControllerState.DEGRADED, level=2, since=NOW - 9, reason="31 of 60 were slow"
    )
    moving = wheel(objective(feature="chat", name="chat"), chat=standing)
    (found,) = ask_board(store, LiveBoard.objectives, router=moving) or ()

    assert (found.name, found.feature, found.what) == ("chat", "chat", "p95 of ttft within 500ms")
    assert (found.enforce, found.acts, found.ladder) == ("degrade", True, ("elsewhere", "small"))
    assert (found.state, found.level, found.since) == ("degraded", 2, NOW - 9)
    assert (found.why, found.pin) == ("31 of 60 were slow", None)


def test_an_objective_that_nothing_was_said_of_is_healthy(store: Store) -> None:
    (found,) = (
        ask_board(store, LiveBoard.objectives, router=wheel(objective(enforce=Enforce.ALERT))) or ()
    )

    assert found.knows_pin
    assert (found.state, found.level, found.since, found.why) == ("healthy", 0, None, "")
    assert (found.acts, found.only) == (False, "")
    assert (found.burn, found.missed, found.counted) == (None, 0, 0)


def test_an_objective_about_streams_alone_says_so(store: Store) -> None:
    streams = objective(calls=RequestKind.STREAMS)
    (found,) = ask_board(store, LiveBoard.objectives, router=wheel(streams)) or ()

    assert found.only == "streams only"


def test_burn_is_of_the_last_ten_minutes_on_all_levels(store: Store) -> None:
    moving = wheel(objective(name="chat"), objective(name="cache", metric=Metric.CACHE, under=None))
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
    moving = wheel(objective(name="chat"))
    moving.burns = {"chat": (BurnWindow(1800.0, 6.0, 2.5, 40, 600.0),)}
    (found,) = ask_board(store, LiveBoard.objectives, router=moving) or ()

    assert found.burns == [BurnStatus(over=1800.0, limit=6.0, rate=2.5, counted=40, known=600.0)]


def test_a_dry_run_counts_calls_that_would_have_fallen_back(store: Store) -> None:
    ladder = ("elsewhere", "small")
    dry = objective(name="dry", enforce=Enforce.OBSERVE, ladder=ladder)
    acting = objective(name="acting", enforce=Enforce.DEGRADE, ladder=ladder)
    router = wheel(dry, acting)
    router.not_enforced["dry", "small"] = 3
    router.rerouted["acting", "elsewhere"] = 2
    router.rerouted["dry", "elsewhere"] = 9  # of a time at which it was enforced

    found = ask_board(store, LiveBoard.objectives, router=router) or ()
    assert {each.name: list(each.fell_back) for each in found} == {
        "dry": [("small", 3)],
        "acting": [("elsewhere", 2)],
    }


def test_ceilings_are_shown_with_what_was_decided(store: Store) -> None:
    ceiling = Ceiling(name="cent", limit=10_000_000, on_exceed=(CeilingStep.REFUSE,))
    counts = [(ceiling, [("fits", 3), ("refused", 1)])]

    async def show_ceilings(board: LiveBoard) -> Sequence[CeilingStatus]:
        board.show_ceilings(lambda: counts)
        return await board.ceilings()

    (found,) = ask_board(store, show_ceilings)

    assert (found.name, found.limit_nanos, found.steps) == ("cent", 10_000_000, ["refuse"])
    assert found.decisions == [("fits", 3), ("refused", 1)]


def test_a_pin_says_who_set_it(store: Store) -> None:
    row = PinRow(objective="chat", level=1, until=NOW + 60, why="a test", made=NOW - 5, who="ann")
    store.pins.set(row)
    pinned = ControllerSnapshot(
        state=ControllerState.PINNED,
        level=1,
        since=NOW,
        reason="Pinned to fallback level 1: a test",
    )
    (found,) = (
        ask_board(store, LiveBoard.objectives, router=wheel(objective(name="chat"), chat=pinned))
        or ()
    )

    assert found.pin == Pin(who="ann", why="a test", until=NOW + 60)
    assert (found.state, found.why) == ("pinned", "")


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
    (found,) = ask_board(store, LiveBoard.open_alerts) or ()

    assert (found.severity, found.began) == (Severity.PAGE, an_alert().began)
    assert (found.title, found.facts) == (an_alert().title, an_alert().facts)
    assert (found.done, found.fix) == (an_alert().action, "Pin it")


def test_a_receipt_of_no_known_price_says_so_and_one_that_used_nothing_does_not() -> None:
    unknown = a_receipt(1, cost_nanos=None, list_nanos=None)
    nothing = a_receipt(2, cost_nanos=None, list_nanos=None, usage=None, ttft=None)

    costs = [dict(receipt_facts(each)).get("cost_usd") for each in (unknown, nothing)]
    assert costs == ["no known price", None]


def test_a_missed_objective_without_a_ladder_is_missed_on_the_board(store: Store) -> None:
    bare = wheel(objective(ladder=(), enforce=Enforce.ALERT))
    bare.missed = {"chat-ttft": Miss(NOW - 60, "92 of 92 calls missed it")}
    (found,) = ask_board(store, LiveBoard.objectives, router=bare) or ()

    assert (found.state, found.level, found.since) == ("missed", 0, NOW - 60)
    assert found.why == "92 of 92 calls missed it"
