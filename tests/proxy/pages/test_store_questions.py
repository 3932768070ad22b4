"""Telling pages harms nothing: what takes too long is given up, and calls go on."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from proxy.errors import Unready
from proxy.pages.board_data import LiveBoard
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from tests.fakes.admission_harness import budget
from tests.fakes.live_board import ask_board, objective_router, raise_database_error
from tests.fakes.objective_replicas import objective

_PARTS = {
    "moved.calls": "ledger.fallback_rows.RecentFallbacks.calls",
    "moved.stays": "ledger.fallback_rows.RecentFallbacks.reroutes",
    "outbox.open": "outbox.Outbox.open_alerts",
    "pins.held": "settings.pins.Pins.current_pins",
    "spendings.of": "ledger.spendings.Spendings.from_rollups",
}
#: Seconds that a part of a page has, where it will get no answer.
PATIENCE_S = 1.0


def test_a_database_that_is_away_is_not_available_and_no_failure(store: Store, monkeypatch) -> None:
    for part in ("moved.calls", "moved.stays", "outbox.open", "pins.held", "spendings.of"):
        monkeypatch.setattr(f"proxy.store.sql.{_PARTS[part]}", raise_database_error)

    async def everything(board: LiveBoard) -> list[Any]:
        return [
            await board.rerouted_calls(),
            await board.reroutes(),
            await board.open_alerts(),
            await board.counters(),
        ]

    assert ask_board(store, everything, budget()) == [None] * 4
    (promise,) = ask_board(store, LiveBoard.objectives, router=objective_router(objective())) or ()
    assert (promise.pin, promise.knows_pin) == (None, False)


class SlowQuestions:
    """Questions that go on until they are let, and how many were asked of each kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
        self.asked_for: list[str] = []
        self.goes_on = threading.Event()
        for part in parts:
            monkeypatch.setattr(f"proxy.store.sql.{_PARTS[part]}", self._slow(part))

    def _slow(self, part: str) -> Callable[..., list[Any]]:
        def slow(*_: Any) -> list[Any]:
            self.asked_for.append(part)
            assert self.goes_on.wait(10)
            return []

        return slow


async def page(board: LiveBoard) -> list[bool]:
    """Return which parts are known, all asked for at once."""
    parts = (
        board.objectives,
        board.reroutes,
        board.rerouted_calls,
        board.counters,
        board.open_alerts,
    )
    return [result is not None for result in await asyncio.gather(*(part() for part in parts))]


def test_a_question_that_takes_too_long_is_given_up_and_keeps_one_thread_alone(
    store: Store, monkeypatch
) -> None:
    slow = SlowQuestions(monkeypatch, "moved.calls")

    async def run(board: LiveBoard) -> None:
        assert await asyncio.gather(*(board.rerouted_calls() for _ in range(8))) == [None] * 8
        assert slow.asked_for == ["moved.calls"]
        assert await board.reroutes() == []
        assert await page(board) == [True, True, False, True, True]
        assert slow.asked_for == ["moved.calls"]
        slow.goes_on.set()
        assert await board.rerouted_calls() == []

    ask_board(store, run, budget(), router=objective_router(objective()), timeout_s=1.5)


def test_pages_never_keep_more_than_two_threads_of_the_store(store: Store, monkeypatch) -> None:
    slow = SlowQuestions(monkeypatch, "moved.calls", "moved.stays", "outbox.open")

    async def run(board: LiveBoard) -> None:
        lookers = [page(board) for _ in range(5)]
        async with asyncio.timeout(PATIENCE_S * 5):  # one patience, and no sum of them
            result = await asyncio.gather(*lookers)
        assert all(not seen[1] and not seen[2] and not seen[4] for seen in result)
        assert len(slow.asked_for) == 2
        assert await store.ask(lambda: "calls go on") == "calls go on"
        slow.goes_on.set()
        assert await page(board) == [True] * 5

    ask_board(store, run, router=objective_router(objective()), timeout_s=PATIENCE_S)


def test_a_query_given_up_while_it_waits_for_a_thread_is_never_run(
    store: Store, monkeypatch
) -> None:
    goes_on = threading.Event()

    async def run(board: LiveBoard) -> None:
        for _ in range(4):
            store._threads.submit(goes_on.wait, 10)
        assert await page(board) == [True, False, False, True, False]
        goes_on.set()
        assert await page(board) == [True] * 5

    ask_board(store, run, router=objective_router(objective()), timeout_s=1.5)


def test_a_question_that_a_page_cannot_do_without_is_said_to_be_late(
    store: Store,
) -> None:
    async def expect(question: Callable[[], list[str]], timeout_s: float) -> list[str]:
        return await StoreQuestions(store, timeout_s).expect("rows", question)

    def answer_late() -> list[str]:
        time.sleep(0.05)
        return []

    assert asyncio.run(expect(list, PATIENCE_S)) == []
    with pytest.raises(Unready, match="did not answer in time") as late:
        asyncio.run(expect(answer_late, 0.001))
    assert late.value.code == "store_busy"
