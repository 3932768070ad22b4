"""The contract of what replicas share: within one process and in Redis, by the same tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from proxy.store.ports import ObjectiveCounters
from proxy.store.redis.local_objective_store import LocalCounters
from proxy.store.redis.objective_state import (
    MAX_CELLS,
    MAX_CLOCK_SKEW_S,
    MAX_EPOCH,
    MAX_INCREMENT,
    MAX_KEYS,
    MAX_LEASE_S,
    MAX_STATE_BYTES,
    RETENTION_S,
)
from proxy.store.redis.objective_store import RedisCounters
from slo.budgets.tally import SLOT_S
from tests.fakes.clock import ManualClock
from tests.fakes.redis_keys import SERVER
from tests.proxy.store.redis.objective_pairs import HERE, NOW, Pair

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0


@pytest.fixture(params=["alone", "redis"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    """State nobody has used yet, of each kind in turn."""
    watch = ManualClock(NOW)
    if request.param == "alone":
        alone = LocalCounters(watch)
        yield Pair(alone, alone, watch)
        return
    prefix: str = request.getfixturevalue("redis_prefix")
    one, other = (
        RedisCounters(SERVER, "acme", prefix=prefix, deadline=30.0, clock=watch) for _ in range(2)
    )
    yield Pair(one, other, watch)
    await one.aclose()
    await other.aclose()


async def lead(store: ObjectiveCounters, who: str, seconds: float = 5.0) -> int:
    """The epoch under which this one leads."""
    epoch = await store.lead(who, seconds)
    assert epoch is not None
    return epoch


async def test_counts_of_two_replicas_are_summed(pair):
    await pair.one.add({("chat", HERE): (90, 5), ("chat", HERE + 1): (1, 0)})
    await pair.other.add({("chat", HERE): (4, 1), ("mail", HERE): (0, 7)})

    for counters in (pair.one, pair.other):
        assert await counters.read(["chat", "mail", "nobody's"], HERE, HERE + 1) == {
            ("chat", HERE): (94, 6),
            ("chat", HERE + 1): (1, 0),
            ("mail", HERE): (0, 7),
        }


async def test_many_additions_at_once_lose_none(pair):
    adds = [counters.add({("chat", HERE): (3, 1)}) for counters in (pair.one, pair.other) * 50]
    await asyncio.gather(*adds)

    assert await pair.one.read(["chat"], HERE, HERE) == {("chat", HERE): (300, 100)}


async def test_only_the_keys_and_slots_that_are_asked_for_are_reported(pair):
    await pair.one.add({(key, HERE + slot): (1, 1) for key in "ab" for slot in range(4)})

    counts = await pair.one.read(["b"], HERE + 1, HERE + 2)
    assert counts == {("b", HERE + 1): (1, 1), ("b", HERE + 2): (1, 1)}
    assert await pair.one.read([], HERE, HERE + 3) == {}
    assert await pair.one.read(["a"], HERE + 1, HERE) == {}
    assert await pair.one.read(["a"], -5, -1) == {}


async def test_adding_no_calls_leaves_no_counts(pair):
    await pair.one.add({})
    await pair.one.add({("chat", HERE): (0, 0)})

    assert await pair.one.read(["chat"], HERE, HERE) == {}


async def test_the_largest_counts_are_exact(pair):
    for _ in range(3):
        await pair.one.add({("chat", HERE): (MAX_INCREMENT, MAX_INCREMENT)})

    assert await pair.one.read(["chat"], HERE, HERE) == {
        ("chat", HERE): (3 * MAX_INCREMENT, 3 * MAX_INCREMENT)
    }


async def test_more_than_one_script_takes_is_added_and_read_all_the_same(pair):
    keys = [f"key-{number}" for number in range(130)]
    counts = {
        (key, HERE + slot): (good + 1, slot) for good, key in enumerate(keys) for slot in range(19)
    }
    await pair.one.add(counts)

    assert await pair.other.read(keys, HERE - 1, HERE + 30) == counts


async def test_a_slot_is_reported_for_two_hours_after_its_end(pair):
    await pair.one.add({("chat", HERE): (1, 0)})
    ends = (HERE + 1) * SLOT_S + RETENTION_S

    pair.watch.now = ends - 0.5
    assert await pair.one.read(["chat"], HERE, HERE) == {("chat", HERE): (1, 0)}
    pair.watch.now = ends
    assert await pair.one.read(["chat"], HERE, HERE) == {}


async def test_slots_an_hour_from_the_stores_own_time_are_not_counted(pair):
    hour = int(MAX_CLOCK_SKEW_S / SLOT_S)
    near, far = (HERE - hour, HERE + hour), (HERE - hour - 1, HERE + hour + 1, 0, 10**15)
    for slot in near + far:
        await pair.one.add({("chat", slot): (1, 0)})

    counts = await pair.one.read(["chat"], HERE - 720, HERE + 720)
    assert counts == {("chat", slot): (1, 0) for slot in near}
    for slot in far:
        assert await pair.one.read(["chat"], slot, slot) == {}


async def test_counts_from_before_a_clock_step_back_are_not_reported(pair):
    await pair.one.add({("chat", HERE): (1, 0)})
    pair.watch.now = NOW - MAX_CLOCK_SKEW_S - SLOT_S
    before = HERE - 361
    await pair.one.add({("chat", before): (2, 0)})

    assert await pair.one.read(["chat"], before, HERE) == {("chat", before): (2, 0)}


async def test_a_slot_counts_so_many_keys_and_no_more(pair):
    keys = [f"key-{number}" for number in range(MAX_KEYS)]
    await pair.one.add({(key, HERE): (1, 0) for key in keys})
    await pair.one.add({("new", HERE): (1, 0), ("key-7", HERE): (1, 0)})
    await pair.one.add({("new", HERE + 1): (1, 0)})

    assert await pair.one.read(["new", "key-7", "key-8"], HERE, HERE + 1) == {
        ("key-7", HERE): (2, 0),
        ("key-8", HERE): (1, 0),
        ("new", HERE + 1): (1, 0),
    }


async def test_one_leads_and_the_others_are_told_so(pair):
    epoch = await lead(pair.one, "a")
    assert await pair.other.lead("b", 5.0) is None

    pair.watch.now += 4
    assert await pair.one.lead("a", 5.0) == epoch
    pair.watch.now += 4
    assert await pair.other.lead("b", 5.0) is None
    assert await pair.one.lead("a", 5.0) == epoch


async def test_of_many_that_race_one_leads(pair):
    racing = [(pair.one, pair.other)[number % 2].lead(f"{number}", 5.0) for number in range(40)]
    epochs = await asyncio.gather(*racing)

    assert sum(epoch is not None for epoch in epochs) == 1


async def test_when_a_leader_stops_saying_so_the_next_one_leads_under_a_higher_epoch(pair):
    epochs = []
    for who in "abab":
        epochs.append(await lead(pair.one, who))
        pair.watch.now += 4.5
        assert await pair.other.lead("c", 5.0) is None
        pair.watch.now += 0.5
    epochs.append(await lead(pair.one, "b"))

    assert epochs == sorted(set(epochs))


async def test_epochs_grow_however_fast_leaders_change(pair):
    epochs = [await lead(pair.one, who, 0.0) for who in "abcaab"]

    assert epochs == sorted(set(epochs))


async def test_who_leads_can_let_go(pair):
    first = await lead(pair.one, "a")
    assert await pair.one.lead("a", 0) == first

    second = await lead(pair.other, "b")
    assert second > first


async def test_a_lease_from_before_the_clock_was_put_back_binds_nobody(pair):
    first = await lead(pair.one, "a")
    pair.watch.now -= WEEK

    second = await lead(pair.other, "b")
    assert second > first


async def test_objective_counters_report_nothing_before_the_first_publication(pair):
    await pair.one.lead("a", 5.0)

    assert await pair.one.snapshots() == (0, {})


async def test_a_leaders_state_replaces_the_earlier_one(pair):
    epoch = await lead(pair.one, "a")
    assert await pair.one.publish(epoch, {"chat": b"\x00\xff", "é|mail": b""})
    assert await pair.other.snapshots() == (epoch, {"chat": b"\x00\xff", "é|mail": b""})

    assert await pair.one.publish(epoch, {"chat": b"2"})
    assert await pair.other.snapshots() == (epoch, {"chat": b"2"})
    assert await pair.one.publish(epoch, {})
    assert await pair.other.snapshots() == (epoch, {})


async def test_a_deposed_leader_is_refused_even_before_the_new_one_has_spoken(pair):
    old = await lead(pair.one, "a")
    assert await pair.one.publish(old, {"chat": b"old"})
    pair.watch.now += 6
    new = await lead(pair.other, "b")

    assert not await pair.one.publish(old, {"chat": b"stale"})
    assert await pair.other.snapshots() == (old, {"chat": b"old"})
    assert await pair.other.publish(new, {"chat": b"new"})
    assert not await pair.one.publish(old, {})
    assert await pair.one.snapshots() == (new, {"chat": b"new"})


async def test_a_leader_whose_lease_has_ended_may_speak_until_another_leads(pair):
    epoch = await lead(pair.one, "a")
    pair.watch.now += 60

    assert await pair.one.publish(epoch, {"chat": b"late"})


async def test_an_epoch_nobody_gave_out_ends_whoever_leads(pair):
    first = await lead(pair.one, "a")
    assert await pair.other.publish(first + 7, {"chat": b"7"})

    assert not await pair.one.publish(first, {})
    again = await lead(pair.one, "a")
    assert again > first + 7
    assert await pair.one.publish(again, {})


async def test_a_published_state_stays(pair):
    epoch = await lead(pair.one, "a")
    await pair.one.publish(epoch, {"chat": b"2"})
    pair.watch.now += WEEK

    assert await pair.other.snapshots() == (epoch, {"chat": b"2"})


BAD: dict[str, Callable[[ObjectiveCounters], Awaitable[Any]]] = {
    "no name": lambda each: each.add({("", HERE): (1, 0)}),
    "a long name": lambda each: each.add({("é" * 129, HERE): (1, 0)}),
    "no Unicode": lambda each: each.add({("\ud800", HERE): (1, 0)}),
    "a slot before all": lambda each: each.add({("chat", -1): (1, 0)}),
    "less than none": lambda each: each.add({("chat", HERE): (1, -1)}),
    "too many events": lambda each: each.add({("chat", HERE): (MAX_INCREMENT + 1, 0)}),
    "too many increments": lambda each: each.add(
        {("chat", slot): (1, 0) for slot in range(MAX_CELLS + 1)}
    ),
    "to read too many keys": lambda each: each.read(["chat"] * (MAX_KEYS + 1), HERE, HERE),
    "to read too long a time": lambda each: each.read(["chat"], 0, HERE),
    "to read a long name": lambda each: each.read(["x" * 257], HERE, HERE),
    "a leader without a name": lambda each: each.lead("", 5.0),
    "a lease from the past": lambda each: each.lead("a", -1.0),
    "a lease without an end": lambda each: each.lead("a", MAX_LEASE_S + 1),
    "a lease of no number": lambda each: each.lead("a", float("nan")),
    "no epoch": lambda each: each.publish(0, {}),
    "an epoch out of reach": lambda each: each.publish(MAX_EPOCH + 1, {}),
    "too much said": lambda each: each.publish(1, {"chat": b"x" * (MAX_STATE_BYTES + 1)}),
    "a snapshot of nobody": lambda each: each.publish(1, {"": b"x"}),
    "too many snapshots": lambda each: each.publish(
        1, {f"{at}": b"" for at in range(MAX_KEYS + 1)}
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_invalid_counts_are_refused_with_a_message(pair, bad):
    with pytest.raises(ValueError, match=r"not|more than"):
        await bad(pair.one)
    assert await pair.one.snapshots() == (0, {})


def test_only_one_kind_is_shared() -> None:
    assert LocalCounters(ManualClock(NOW)).is_shared is False
    assert RedisCounters.is_shared is True
