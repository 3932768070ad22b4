"""The queue before an upstream."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy.upstream.places import Places
from proxy.upstream.port import Unsent


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


async def queued(places: Places, count: int) -> "list[asyncio.Task[None]]":
    """So many who wait, in order."""
    waiting = [asyncio.ensure_future(places.turn()) for _ in range(count)]
    await asyncio.sleep(0)
    return waiting


def test_a_place_is_free_again_once_it_is_left():
    places = Places(1)
    assert places.take()
    assert not places.take()
    places.leave()

    assert places.take()


def test_who_waits_is_served_in_turn():
    async def work() -> None:
        places = Places(1)
        places.take()
        first, second = await queued(places, 2)
        places.leave()
        await first
        assert not places.take()
        assert not second.done()
        places.leave()
        await second
        places.leave()
        assert places.take()

    run(work)


def test_who_leaves_the_queue_costs_no_place():
    async def work() -> None:
        places = Places(1)
        places.take()
        first, second = await queued(places, 2)
        first.cancel()
        places.leave()  # before the first could see that it is cancelled
        await second
        with pytest.raises(Unsent):
            await first
        places.leave()
        assert places.take()

    run(work)


def test_who_is_cancelled_as_its_turn_comes_passes_it_on():
    async def work() -> None:
        places = Places(1)
        places.take()
        first, second = await queued(places, 2)
        places.leave()
        first.cancel()
        with pytest.raises(Unsent):
            await first
        await second
        places.leave()
        assert places.take()

    run(work)
