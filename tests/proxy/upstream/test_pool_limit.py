"""The queue before an upstream."""

import asyncio

import pytest

from proxy.upstream.pool_limit import PoolLimit
from proxy.upstream.port import was_never_sent


async def wait_in_order(places: PoolLimit, count: int) -> "list[asyncio.Task[None]]":
    """So many who wait, in order."""
    waiting = [asyncio.ensure_future(places.wait_for_turn()) for _ in range(count)]
    await asyncio.sleep(0)
    return waiting


def test_a_place_is_free_again_once_it_is_left():
    places = PoolLimit(1)
    assert places.try_acquire()
    assert not places.try_acquire()
    places.release()

    assert places.try_acquire()


async def test_calls_that_wait_for_the_pool_are_served_in_turn():
    places = PoolLimit(1)
    places.try_acquire()
    first, second = await wait_in_order(places, 2)
    places.release()
    await first
    assert not places.try_acquire()
    assert not second.done()
    places.release()
    await second
    places.release()
    assert places.try_acquire()


async def test_a_call_that_leaves_the_pools_queue_costs_no_place():
    places = PoolLimit(1)
    places.try_acquire()
    first, second = await wait_in_order(places, 2)
    first.cancel()
    places.release()  # before the first could see that it is cancelled
    await second
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await first
    assert was_never_sent(cancelled.value)
    places.release()
    assert places.try_acquire()


async def test_a_call_cancelled_as_its_turn_comes_passes_it_on():
    places = PoolLimit(1)
    places.try_acquire()
    first, second = await wait_in_order(places, 2)
    places.release()
    first.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await first
    assert was_never_sent(cancelled.value)
    await second
    places.release()
    assert places.try_acquire()
