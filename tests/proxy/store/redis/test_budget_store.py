"""Redis's own side of shared counters: processes, deadlines, keys. The rest is promised by both."""

import asyncio
import socket
from contextlib import ExitStack, suppress
from typing import Final

import pytest
import redis

from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis import budget_scripts as scripts
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.redis.requests import answer_within
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservations import ReservationGranted
from tests.fakes.clock import InstantLoop, run_in_instant_time
from tests.fakes.redis_keys import SERVER
from tests.fakes.reservation_process import (
    CENTS_10,
    CLAIM,
    DOLLARS_5,
    read_line,
    reservation_process,
    send_go,
)
from tests.fakes.slow_wire import SkippingLoop, SlowWire, run_with_skips

DEADLINE_S = 0.1

pytestmark = pytest.mark.anyio
NOW: Final = 1000.0
COUNTER: Final = CLAIM.counter


@pytest.fixture
def kind() -> str:
    return "redis"


@pytest.fixture
def trusts_callers() -> bool:
    return False


def test_four_processes_with_a_thousand_reservations_admit_exactly_fifty(redis_prefix):
    with ExitStack() as stack:
        processes = [
            stack.enter_context(reservation_process(redis_prefix, f"process-{number}", 250))
            for number in range(4)
        ]
        for process in processes:
            send_go(process)
        granted = [int(read_line(process)) for process in processes]
        for process in processes:
            send_go(process)

    assert sum(granted) == 50


@pytest.mark.parametrize("trusts_callers", [True])
async def test_the_holds_of_a_process_that_is_killed_free_themselves(store, redis_prefix):
    with reservation_process(redis_prefix, "doomed", 60) as process:
        send_go(process)
        assert read_line(process) == "50"
        process.kill()

    before = await store.reserve("a", [CLAIM], NOW + 29.999, NOW + 60)
    assert before == ReservationRefused(0, CounterLevel(0, DOLLARS_5), NOW + 30, 50)
    after = await store.reserve("a", [CLAIM], NOW + 30, NOW + 60)
    assert after == ReservationGranted((CounterLevel(0, CENTS_10),), (1,))


async def test_redis_tells_the_time_and_callers_only_how_long(store):
    whole = CounterClaim("team", 100, 100, hard=True, ends=0.0)
    assert isinstance(await store.reserve("long", [whole], NOW, NOW + 60), ReservationGranted)
    refused = await store.reserve("b", [whole], 5 * NOW, 5 * NOW + 60)
    assert isinstance(refused, ReservationRefused)
    assert refused.frees is not None
    assert 5 * NOW < refused.frees <= 5 * NOW + 60

    await store.settle("long", {"team": 0}, NOW)
    await store.reserve("short", [whole], NOW, NOW + 0.001)
    while isinstance(await store.reserve("b", [whole], 0.0, 60.0), ReservationRefused):
        pass


def test_only_one_kind_is_shared():
    assert LocalBudgetStore().is_shared is False
    assert RedisBudgetStore.is_shared is True


@pytest.mark.parametrize("name", ["", "a{b", "a}b"])
def test_an_organization_that_would_break_the_hash_tag_is_refused(name):
    with pytest.raises(ValueError, match="hash tag"):
        RedisBudgetStore(SERVER, name)


def test_a_url_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="redis://"):
        RedisBudgetStore("http://127.0.0.1", "acme")


def lost(port: int, times: int = 1) -> float:
    """Seconds until all of so many operations at once were told that Redis at the port is lost."""

    async def story() -> float:
        store = RedisBudgetStore(f"redis://127.0.0.1:{port}/0", "acme")
        loop = asyncio.get_running_loop()
        began = loop.time()
        answers = await asyncio.gather(
            *(store.reserve(f"{number}", [CLAIM], NOW, NOW + 60) for number in range(times)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [StoreError] * times
        ended = loop.time()
        await store.aclose()
        return ended - began

    return run_in_instant_time(story())


def test_a_redis_that_is_not_there_is_lost_at_once():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert lost(port) < DEADLINE_S


def test_a_redis_that_says_nothing_is_lost_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        assert lost(silent.getsockname()[1]) == pytest.approx(DEADLINE_S)


def test_five_hundred_requests_wait_for_a_lost_redis_no_longer_than_the_deadline():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        assert lost(silent.getsockname()[1], times=500) == pytest.approx(DEADLINE_S)


def test_two_hundred_at_once_are_notified_of_a_server_that_takes_them_and_says_nothing():
    """Over real connections in real time: each waits for the deadline once, whatever the pool."""

    async def story() -> tuple[list[float], int]:
        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(
            lambda _, writer: writers.append(writer), "127.0.0.1", 0
        )
        store = RedisBudgetStore(
            f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", "acme"
        )
        loop = asyncio.get_running_loop()

        async def time_until_unavailable(number: int) -> float:
            began = loop.time()
            with pytest.raises(StoreError):
                await store.reserve(f"{number}", [CLAIM], NOW, NOW + 60)
            return loop.time() - began

        try:
            return list(await asyncio.gather(*map(time_until_unavailable, range(200)))), len(
                writers
            )
        finally:
            await store.aclose()
            for writer in writers:
                writer.close()
            server.close()

    seconds, connections = asyncio.run(story())

    assert connections <= 32
    assert max(seconds) < 10 * DEADLINE_S  # a machine that is busy elsewhere takes its time, too


def test_while_a_slow_redis_answers_others_nobody_waits_for_more_than_five_deadlines():
    async def story() -> list[float]:
        store = RedisBudgetStore(SERVER, "acme", connections=1)
        loop = asyncio.get_running_loop()

        async def slow(**_: object) -> list[int]:
            await asyncio.sleep(0.9 * DEADLINE_S)
            return [0]

        store._scripts[scripts.LIFT] = slow  # type: ignore[assignment]

        async def time_until_unavailable() -> float:
            began = loop.time()
            with suppress(StoreError):
                await store.raise_spent({COUNTER: 1}, NOW)
            return loop.time() - began

        seconds = list(await asyncio.gather(*(time_until_unavailable() for _ in range(50))))
        await store.aclose()
        return seconds

    assert max(run_in_instant_time(story())) <= 5 * DEADLINE_S


def test_every_operation_says_that_redis_is_lost():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    async def story() -> None:
        store = RedisBudgetStore(f"redis://127.0.0.1:{port}/0", "acme")
        for work in (
            store.reserve("a", [CLAIM], NOW, NOW + 60),
            store.settle("a", {COUNTER: 1}, NOW),
            store.extend("a", [COUNTER], NOW, NOW + 60),
            store.levels([COUNTER], NOW),
            store.raise_spent({COUNTER: 1}, NOW),
            store.report("lease/x", [], NOW, 60),
            store.begin_checkpoint(NOW, 5),
            store.restore({COUNTER: 1}, 1, NOW),
            store.counters_from("b", 5),
            store.condition(NOW),
            store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW),
        ):
            with pytest.raises(StoreError):
                await work
        await store.aclose()

    asyncio.run(story())


def test_one_that_gets_no_turn_for_four_deadlines_is_told_so():
    async def story() -> None:
        store = RedisBudgetStore(SERVER, "acme", connections=1)
        await store._turns.acquire()
        began = asyncio.get_running_loop().time()
        with pytest.raises(StoreError, match="too many"):
            await store.levels([COUNTER], NOW)
        assert asyncio.get_running_loop().time() - began == pytest.approx(4 * DEADLINE_S)
        await store.aclose()

    run_in_instant_time(story())


def test_an_answer_that_comes_late_is_not_taken_for_the_next(redis_prefix):
    where = redis.connection.parse_url(SERVER)

    async def story(loop: SkippingLoop) -> None:
        async with SlowWire.to(where.get("host", "127.0.0.1"), where.get("port", 6379)) as wire:
            url = f"redis://127.0.0.1:{wire.port}/{where.get('db', 0)}"
            hasty = RedisBudgetStore(url, "acme", prefix=redis_prefix, deadline=60.0, connections=1)
            assert await hasty.raise_spent({COUNTER: 7}, NOW) == [0]

            with pytest.raises(StoreError, match="within 60"):
                await loop.outlast(60.0, hasty.reserve("a", [CLAIM], NOW, NOW + 60), wire)

            assert await hasty.levels([COUNTER], NOW) == [CounterLevel(7, CENTS_10)]
            again = await hasty.reserve("a", [CLAIM], NOW, NOW + 60)
            assert again == ReservationGranted((CounterLevel(7, CENTS_10),), (1,))
            await hasty.aclose()

    run_with_skips(story)


def test_a_loop_that_was_busy_elsewhere_does_not_make_redis_late():
    async def story() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, InstantLoop)

        async def answer() -> str:
            loop._clock.now += 60
            for _ in range(3):
                await asyncio.sleep(0)
            return "here"

        result: str = await answer_within(answer(), DEADLINE_S)
        return result

    assert run_in_instant_time(story()) == "here"


async def test_an_error_from_redis_is_a_lost_budget_store_too(store):
    await store._redis.set(f"{store._keys}counter:{COUNTER}", "not a counter")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await store.reserve("a", [CLAIM], NOW, NOW + 60)


async def test_counters_are_found_by_how_their_names_begin(store):
    names = [f"b[1]/user/usd/2026-11/{user}" for user in ("ann", "b*b", "c/d", "ünïcode")]
    await store.raise_spent(dict.fromkeys([*names, "b1/user/usd/2026-11/eve"], 1), NOW)
    await store.reserve("a", [CLAIM], NOW, NOW + 60)

    assert await store.counters_from("b[1]/user/usd/2026-11/", 10) == names
    assert len(await store.counters_from("b[1]/user", 2)) == 2
    assert await store.counters_from("nobody", 10) == []

    await store.raise_spent({f"many/{number}": 1 for number in range(1500)}, NOW)
    assert len(await store.counters_from("many/", 2000)) == 1500


async def test_redis_says_what_time_it_is(store):
    first, second = await store.time(), await store.time()
    assert 1_700_000_000 < first <= second + DEADLINE_S
