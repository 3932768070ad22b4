"""The gateway's state of its routes: breakers, places on a route, and calls that wait for one."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.route_choice import RouteChoice
from proxy.calls.route_health import RouteHealth, RouteHealthRegistry, route_succeeded
from proxy.errors import CallerError, UpstreamError
from proxy.providers.stream_endings import stale_connection
from slo.breaker import BreakerState
from slo.concurrency import ConcurrencyLimit
from tests.fakes.call_dependencies import route
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import broken_connection

pytestmark = pytest.mark.instant_time


ONE, TWO = route("one"), route("two")


def lane(room: int) -> RouteHealth:
    health = RouteHealth(adapts=True)
    health.limit = ConcurrencyLimit(room, 1, room)
    return health


def start_task(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


def upstream_error(status: int, *, retryable: bool = True) -> UpstreamError:
    return UpstreamError("", status=status, code="", retryable=retryable)


@pytest.mark.parametrize(
    ("failure", "did_its_part"),
    [
        (None, True),
        (broken_connection(), False),
        (stale_connection(), None),
        (upstream_error(429), False),
        (upstream_error(400, retryable=False), True),
        (upstream_error(400), False),
        (upstream_error(405, retryable=False), None),
        (upstream_error(451, retryable=False), None),
        (ClientDisconnected(), None),
        (CallerError("", code=""), None),
        (asyncio.CancelledError(), None),
    ],
)
def test_each_outcome_says_if_a_route_did_its_part(failure, did_its_part):
    assert route_succeeded(failure) is did_its_part


def test_a_route_is_failing_while_its_breaker_is_open():
    lanes = RouteHealthRegistry()
    assert not lanes.is_failing(ONE, 0.0)
    for _ in range(5):
        lanes.record_outcome(ONE, broken_connection(), 0.0, 0.0)

    assert lanes.is_failing(ONE, 1.0)
    assert not lanes.is_failing(ONE, 1_000.0)
    assert not lanes.is_failing(TWO, 1.0)
    assert [name for name, _ in lanes.states()] == [ONE.name]


def test_a_lane_is_the_routes_own_and_limits_only_what_asks_for_it():
    lanes = RouteHealthRegistry()

    assert lanes.health_of(ONE) is lanes.health_of(ONE)
    assert lanes.health_of(ONE) is not lanes.health_of(TWO)
    assert lanes.health_of(ONE).limit is None
    assert [name for name, _ in lanes.states()] == ["one/m", "two/m"]
    assert RouteHealth(adapts=True).limit is not None


async def test_a_lane_without_a_limit_lets_everybody_in():
    free = RouteHealth(adapts=False)

    for _ in range(2000):
        await free.acquire(ticks())
    free.release(0.1, 0, ticks(), ok=True)


def test_routes_that_fail_come_last():
    lanes, choices = RouteHealthRegistry(), (RouteChoice(ONE, "m"), RouteChoice(TWO, "m"))
    assert lanes.sort_failing_last(choices, 0.0) is choices
    for n in range(5):
        lanes.record_outcome(ONE, broken_connection(), 0.5 + n, 1.0 + n)

    assert lanes.sort_failing_last(choices, 6.0) == (choices[1], choices[0])
    assert lanes.sort_failing_last(choices[:1], 6.0) == choices[:1]
    assert lanes.sort_failing_last(choices, 36.0) == choices  # its turn to show that it works again


def test_where_all_fail_the_one_that_is_back_first_is_tried_first():
    lanes, choices = RouteHealthRegistry(), (RouteChoice(ONE, "m"), RouteChoice(TWO, "m"))
    for n in range(5):
        lanes.record_outcome(ONE, broken_connection(), 2.5 + n, 3.0 + n)
        lanes.record_outcome(TWO, broken_connection(), 0.5 + n, 1.0 + n)

    assert lanes.sort_failing_last(choices, 8.0) == (choices[1], choices[0])


async def test_a_full_lane_gives_its_next_place_to_who_waits_longest():
    full, entered = lane(1), list[int]()
    await full.acquire(ticks())

    async def wait(number: int) -> None:
        await full.acquire(ticks())
        entered.append(number)

    tasks = [start_task(wait(number)) for number in range(3)]
    await asyncio.sleep(1)
    for _ in range(3):
        full.release(0.1, 0, ticks(), ok=True)
        await asyncio.sleep(0.1)
    full.release(0.1, 0, ticks(), ok=True)
    assert full.limit is not None
    assert full.limit.in_flight == 0
    await asyncio.wait(tasks)

    assert entered == [0, 1, 2]


async def test_a_place_is_waited_for_two_seconds():
    full = lane(1)
    await full.acquire(ticks())
    before = ticks()
    with pytest.raises(UpstreamError, match="full") as caught:
        await full.acquire(before)
    assert (caught.value.code, caught.value.retryable) == ("route_full", True)
    assert not full._queue

    assert (ticks() - before) == pytest.approx(2.0)


async def test_no_more_than_a_thousand_wait():
    full = lane(1)
    await full.acquire(ticks())
    waiting = [start_task(full.acquire(ticks())) for _ in range(1000)]
    await asyncio.sleep(0)
    before = ticks()
    with pytest.raises(UpstreamError, match="full"):
        await full.acquire(ticks())
    assert ticks() == before
    await asyncio.wait(waiting)
    assert all(isinstance(task.exception(), UpstreamError) for task in waiting)


async def test_a_place_that_comes_in_the_moment_its_waiter_gives_up_goes_on():
    """The turn is given, and before its waiter runs again its time is over."""

    full, loop = lane(1), asyncio.get_running_loop()
    await full.acquire(ticks())
    due = ticks() + 2.0
    late = start_task(full.acquire(ticks()))
    await asyncio.sleep(1)
    patient = start_task(full.acquire(ticks()))
    loop.call_at(due - 5e-10, lambda: full.release(None, 0, due, ok=True))
    await asyncio.wait({late})
    assert isinstance(late.exception(), UpstreamError)
    await patient
    full.release(None, 0, ticks(), ok=True)
    assert full.limit is not None
    assert full.limit.in_flight == 0


async def test_a_probe_that_finds_no_place_is_given_back():
    full = lane(1)
    await full.acquire(ticks())
    for _ in range(5):
        full.breaker.record_outcome(ticks(), ok=False, began=ticks())
    await asyncio.sleep(31)
    assert full.breaker.state(ticks()) is BreakerState.HALF_OPEN
    with pytest.raises(UpstreamError, match="full"):
        await full.acquire(ticks())
    assert full.breaker.seconds_until_admission(ticks()) == 0
    task = start_task(full.acquire(ticks()))
    await asyncio.sleep(1)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert full.breaker.seconds_until_admission(ticks()) == 0


async def test_a_call_sent_regardless_gives_no_others_probe_back():
    full = lane(1)
    for _ in range(5):
        full.breaker.record_outcome(ticks(), ok=False, began=ticks())
    await asyncio.sleep(31)
    await full.acquire(ticks())
    await asyncio.sleep(1)
    with pytest.raises(UpstreamError, match="full"):
        await full.acquire(ticks())
    assert full.breaker.seconds_until_admission(ticks()) > 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0, 2.0]),  # when it comes, after the one before
            st.sampled_from([0.0, 1.0, 2.0, 4.0]),  # how long it stays
            st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.0]),  # when it is cancelled
            st.integers(0, 3),  # turns of the loop after that
        ),
        max_size=12,
    ),
    st.integers(1, 3),
)
def test_every_call_that_enters_leaves_and_no_place_is_lost(calls, room):
    async def work() -> None:
        full = lane(room)
        assert full.limit is not None

        async def call(stays: float) -> None:
            await full.acquire(ticks())
            try:
                await asyncio.sleep(stays)
            finally:
                full.release(0.1, 10, ticks(), ok=True)

        async def cancel_later(task: "asyncio.Task[None]", after: float, turns: int) -> None:
            await asyncio.sleep(after)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

        tasks: list[asyncio.Task[None]] = []
        for comes, stays, cancelled, turns in calls:
            await asyncio.sleep(comes)
            tasks.append(start_task(call(stays)))
            if cancelled is not None:
                tasks.append(start_task(cancel_later(tasks[-1], cancelled, turns)))
            assert full.limit.in_flight <= room
        await asyncio.gather(*tasks, return_exceptions=True)
        assert full.limit.in_flight == 0
        assert not full._queue

    run_in_instant_time(work())
