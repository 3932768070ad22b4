import asyncio
from typing import Any

import pytest

from proxy.errors import Unready
from proxy.pages.resources.ledger.live_calls import (
    _MAX_WAITING_CALLS,
    MAX_LISTENERS,
    LiveCalls,
    follow,
)
from proxy.records.receipt import IDLE_TEAM
from tests.fakes.clock import run_in_instant_time
from tests.fakes.receipts import a_receipt


def test_a_listener_hears_calls_that_it_wants_as_they_end() -> None:
    async def listen() -> list[str]:
        live = LiveCalls()
        with live.listener(lambda row: row.team == "a") as listener:
            live.record(a_receipt(1, team="a"))
            live.record(a_receipt(2, team="b"))
            live.record(a_receipt(3, team="a", final=False))
            live.record(a_receipt(4, team="a"))
            return [row.call_id for row in await listener.calls(1.0)]

    assert run_in_instant_time(listen()) == [a_receipt(1).call_id, a_receipt(4).call_id]


def test_a_slow_listener_loses_the_oldest_and_is_told_how_many() -> None:
    async def listen() -> tuple[int, int]:
        live = LiveCalls()
        with live.listener(lambda _: True) as listener:
            for n in range(_MAX_WAITING_CALLS + 7):
                live.record(a_receipt(n))
            return len(await listener.calls(1.0)), listener.dropped

    assert run_in_instant_time(listen()) == (_MAX_WAITING_CALLS, 7)


def test_there_are_so_many_listeners_and_no_more() -> None:
    async def listen() -> None:
        live = LiveCalls()
        held = [live.listener(lambda _: True) for _ in range(MAX_LISTENERS)]
        for listener in held:
            listener.__enter__()
        with pytest.raises(Unready, match="follow live calls already"):
            live.listener(lambda _: True).__enter__()
        held[0].__exit__(None, None, None)
        with live.listener(lambda _: True):
            pass

    run_in_instant_time(listen())


def test_the_newest_calls_are_remembered_and_idle_time_is_none() -> None:
    live = LiveCalls()
    for n in range(600):
        live.record(a_receipt(n, team=IDLE_TEAM if n == 599 else "a"))
    result = [row.call_id for row in live.newest(lambda _: True, 2)]

    assert result == [a_receipt(597).call_id, a_receipt(598).call_id]
    assert list(live.newest(lambda row: row.team == "b", 5)) == []
    assert len(list(live.newest(lambda _: True, 10**6))) == 500


def test_the_text_of_prompts_is_not_remembered() -> None:
    """It may be long, and would take the memory of hundreds of bodies."""
    live = LiveCalls()
    live.record(a_receipt(1, prompt="long"))

    assert list(live.newest(lambda receipt: receipt.prompt is not None, 1)) == []
    assert len(list(live.newest(lambda receipt: receipt.prompt is None, 1))) == 1


def test_following_ends_with_its_time_and_says_that_it_is_there() -> None:
    async def run() -> tuple[list[Any], float]:
        live = LiveCalls()
        loop = asyncio.get_running_loop()
        began = loop.time()
        with live.listener(lambda _: True) as listener:
            loop.call_later(12.0, live.record, a_receipt(1))
            seen = [row and row.call_id async for row in follow(listener, 30.0, 10.0)]
        return seen, loop.time() - began

    seen, took = run_in_instant_time(run())
    assert seen == [None, a_receipt(1).call_id, None, None]
    assert took == pytest.approx(30.0)
