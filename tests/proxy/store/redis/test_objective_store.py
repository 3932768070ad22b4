"""Redis's own side of what replicas share: processes, deadlines, keys. Both promise the rest."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from time import monotonic
from typing import Any, Final

import pytest
import redis
from redis.asyncio import Redis

from proxy.store.errors import StoreError
from proxy.store.redis.objective_state import MAX_CLOCK_SKEW_S, MAX_KEYS, RETENTION_S
from proxy.store.redis.objective_store import DEADLINE_S, RedisCounters
from slo.budgets.tally import SLOT_S
from tests.fakes.clock import run_in_instant_time
from tests.fakes.objective_process import objective_process, open_counters
from tests.fakes.redis_keys import SERVER
from tests.fakes.reservation_process import read_line, send_go
from tests.fakes.slow_wire import SkippingLoop, SlowWire, run_with_skips
from tests.proxy.store.redis.redis_commands import commands_of, touched_keys

pytestmark = pytest.mark.anyio
HERE: Final = 179_000_000
LEASE: Final = 0.5


@pytest.fixture
async def store(redis_prefix: str) -> AsyncIterator[RedisCounters]:
    store = open_counters(redis_prefix)
    yield store
    await store.aclose()


async def follow(store: RedisCounters) -> int:
    """The epoch under which an heir leads, once whoever leads has stopped."""
    for _ in range(3000):
        epoch = await store.lead("heir", LEASE)
        if epoch is not None:
            return epoch
        await asyncio.sleep(0.01)
    raise AssertionError("the lease never ended")


async def slot_of(store: RedisCounters) -> int:
    """The slot that Redis's own time is in."""
    seconds, _ = await store._redis.time()
    return int(seconds // SLOT_S)


async def test_of_four_processes_one_leads_and_what_all_counted_is_one_count(store, redis_prefix):
    with ExitStack() as stack:
        processes = [
            stack.enter_context(objective_process(redis_prefix, f"process-{number}", 60.0))
            for number in range(4)
        ]
        first = [read_line(process) for process in processes]
        for process in processes:
            send_go(process)
        second = [read_line(process) for process in processes]

    slot = await slot_of(store)
    counts = await store.read(["calls"], slot - 30, slot)
    assert first.count("None") == 3
    assert second == first
    assert sum(good for good, _ in counts.values()) == 8


async def test_a_leader_that_is_killed_is_followed_when_its_lease_ends_and_not_before(
    store, redis_prefix
):
    with objective_process(redis_prefix, "doomed", LEASE) as process:
        read_line(process)
        send_go(process)
        doomed = int(read_line(process))
        began = monotonic()
        process.kill()

    epoch = await follow(store)
    waited = monotonic() - began
    assert not await store.publish(doomed, {"chat": b"late"})
    assert await store.publish(epoch, {"chat": b"new"})
    assert epoch > doomed
    assert waited < LEASE + 5.0


async def test_a_lease_is_as_long_as_redis_says(store):
    first = await store.lead("a", LEASE)
    second = await follow(store)

    assert first is not None
    assert (second - first) / 1000 >= LEASE


async def test_redis_tells_which_slots_are_near(store):
    here = await slot_of(store)
    hour = int(MAX_CLOCK_SKEW_S / SLOT_S)
    await store.add(
        {("chat", here + offset): (1, 0) for offset in (-hour - 2, 0, hour - 2, hour + 2)}
    )

    assert await store.read(["chat"], here - 720, here + 720) == {
        ("chat", here): (1, 0),
        ("chat", here + hour - 2): (1, 0),
    }


async def test_epochs_grow_even_where_redis_forgets_the_last(store):
    first = await store.lead("a", 5.0)
    await store._redis.delete(f"{store._keys}lease")
    await asyncio.sleep(0.002)
    second = await store.lead("b", 5.0)

    assert first is not None
    assert second is not None
    assert second > first
    assert not await store.publish(first, {})


async def test_another_process_finds_what_was_published(store, redis_prefix):
    epoch = await store.lead("a", 5.0)
    assert epoch is not None
    await store.publish(epoch, {"chat": b"2"})
    other = open_counters(redis_prefix)

    assert await other.snapshots() == (epoch, {"chat": b"2"})
    await other.aclose()


@pytest.mark.parametrize("name", ["", "a{b", "a}b"])
def test_an_organization_that_would_break_the_hash_tag_is_refused(name):
    with pytest.raises(ValueError, match="hash tag"):
        RedisCounters(SERVER, name)


def test_a_url_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="redis://"):
        RedisCounters("http://127.0.0.1", "acme")


EVERY: Final[dict[str, Callable[[RedisCounters], Awaitable[Any]]]] = {
    "add": lambda store: store.add({("chat", HERE): (1, 0)}),
    "read": lambda store: store.read(["chat"], HERE, HERE),
    "lead": lambda store: store.lead("a", 5.0),
    "publish": lambda store: store.publish(1, {}),
    "snapshots": lambda store: store.snapshots(),
}


def lost(port: int, work: Callable[[RedisCounters], Awaitable[Any]], times: int = 1) -> float:
    """Seconds until all of so many operations at once were told that Redis at the port is lost."""

    async def story() -> float:
        store = RedisCounters(f"redis://127.0.0.1:{port}/0", "acme")
        loop = asyncio.get_running_loop()
        began = loop.time()
        answers = await asyncio.gather(*(work(store) for _ in range(times)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreError] * times
        ended = loop.time()
        await store.aclose()
        return ended - began

    return run_in_instant_time(story())


@pytest.mark.parametrize("work", EVERY.values(), ids=EVERY)
def test_every_operation_says_at_once_that_redis_is_not_there(work):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert lost(port, work) < DEADLINE_S


@pytest.mark.parametrize("work", EVERY.values(), ids=EVERY)
def test_every_operation_says_at_its_deadline_that_redis_says_nothing(work):
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        assert lost(silent.getsockname()[1], work) == pytest.approx(DEADLINE_S)


def test_waiting_for_a_turn_is_within_the_deadline():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        port = silent.getsockname()[1]
        assert lost(port, EVERY["snapshots"], times=100) == pytest.approx(DEADLINE_S)


def test_an_answer_that_comes_late_is_not_taken_for_the_next(redis_prefix):
    where = redis.connection.parse_url(SERVER)

    async def story(loop: SkippingLoop) -> None:
        async with SlowWire.to(where.get("host", "127.0.0.1"), where.get("port", 6379)) as wire:
            url = f"redis://127.0.0.1:{wire.port}/{where.get('db', 0)}"
            hasty = RedisCounters(url, "acme", prefix=redis_prefix, deadline=60.0, connections=1)
            slot = await slot_of(hasty)
            await hasty.add({("chat", slot): (1, 0)})

            with pytest.raises(StoreError, match="within 60"):
                await loop.outlast(60.0, hasty.add({("chat", slot): (1, 0)}), wire)

            assert await hasty.snapshots() == (0, {})
            assert await hasty.read(["chat"], slot, slot) == {("chat", slot): (2, 0)}
            await hasty.aclose()

    run_with_skips(story)


async def test_a_connection_that_was_cut_is_made_anew_and_nothing_is_added_twice(store):
    slot = await slot_of(store)
    await store.add({("chat", slot): (1, 0)})
    await store._redis.connection_pool.disconnect()
    await store.add({("chat", slot): (1, 0)})
    async with Redis.from_url(SERVER) as other:
        await other.client_kill_filter(_id=str(await store._redis.client_id()))
    await asyncio.sleep(0.05)
    await store.add({("chat", slot): (1, 0)})

    assert await store.read(["chat"], slot, slot) == {("chat", slot): (3, 0)}


@pytest.mark.parametrize(
    "said", [b"", b"\xff", b"\x93\x01\x02\x03", b"\x81\xa1a\x01"], ids=["none", "no", "list", "int"]
)
async def test_an_unreadable_published_state_is_a_lost_store(store, said):
    await store._redis.hset(f"{store._keys}told", mapping={"epoch": 1, "said": said})
    with pytest.raises(StoreError, match="no valid state of objectives"):
        await store.snapshots()


async def test_an_error_from_redis_is_a_lost_objective_store_too(store):
    await store._redis.set(f"{store._keys}lease", "not a lease")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await store.lead("a", 5.0)


async def test_scripts_touch_the_keys_they_are_given_and_all_lie_in_one_slot(store):
    here = await slot_of(store)

    async def work() -> None:
        await store.add({(key, here + offset): (1, 1) for key in "ab" for offset in range(9)})
        await store.read(["a", "b", "{odd}"], here, here + 20)
        epoch = await store.lead("a", 5.0)
        assert epoch is not None
        await store.publish(epoch, {"chat": b"1"})
        await asyncio.sleep(0.01)

    assert await touched_keys(store, work()) > 60


async def test_no_script_does_more_than_its_share(store):
    here = await slot_of(store)
    keys = [f"{number}" for number in range(MAX_KEYS)]

    async def work() -> None:
        await store.add({(key, here): (1, 1) for key in keys})
        await store.read(keys, here, here + 3)
        await store.read(["1"], here, here + 2500)

    within = 0
    shares = []
    for command, *_ in [*await commands_of(store, work()), ["EVALSHA"]]:
        if command == "EVALSHA":
            shares.append(within)
        within = 0 if command == "EVALSHA" else within + 1
    assert len(shares) > 10
    assert max(shares) <= 1002


async def test_slots_go_by_themselves_and_what_was_published_stays(store):
    here = await slot_of(store)
    await store.add({("chat", here + offset): (1, 0) for offset in (-350, 0, 350)})
    epoch = await store.lead("a", 5.0)
    assert epoch is not None
    await store.publish(epoch, {"chat": b"1"})

    async def seconds_left(key: str) -> float:
        return float(await store._redis.pttl(f"{store._keys}{key}")) / 1000

    for key, expected in {
        f"slot:{here - 350}": RETENTION_S - 3500 + SLOT_S,
        f"slot:{here}": RETENTION_S + SLOT_S,
        f"slot:{here + 350}": RETENTION_S + 3500 + SLOT_S,
    }.items():
        assert expected - 120 < await seconds_left(key) <= expected + 1
    for key in ("lease", "told"):
        assert await store._redis.pttl(f"{store._keys}{key}") == -1
    assert len([key async for key in store._redis.scan_iter(f"{store._keys}*")]) == 5
