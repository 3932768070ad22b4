"""Keys that the scripts leave and touch in Redis; what they count is tested elsewhere."""

from typing import Final

import msgspec
import pytest

from proxy.store.ports import CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from slo.budgets.counter import CounterClaim, CounterLevel
from slo.budgets.leases import Lease
from slo.budgets.reservations import (
    COUNTER_RETENTION_S,
    MAX_SETTLED_REMEMBERED,
    SETTLED_MEMORY_S,
    UNKNOWN_WINDOW_RETENTION_S,
)
from tests.fakes.reservation_process import CLAIM
from tests.proxy.store.redis.redis_commands import commands_of, touched_keys

MARKED = 30.0

pytestmark = pytest.mark.anyio
NOW: Final = 1000.0
COUNTER: Final = CLAIM.counter


@pytest.fixture
def kind() -> str:
    return "redis"


@pytest.fixture
def trusts_callers() -> bool:
    return False


@pytest.mark.parametrize("trusts_callers", [True])
async def test_one_script_frees_a_thousand_holds_and_leaves_the_rest_to_the_next(store):
    for number in range(1100):
        claim = CounterClaim(COUNTER, 1, 2000, hard=True, ends=NOW)
        await store.reserve(f"dead-{number}", [claim], NOW, NOW + 10)

    assert await store.levels([COUNTER], NOW + 10) == [CounterLevel(0, 100)]
    assert await store.levels([COUNTER], NOW + 10) == [CounterLevel(0, 0)]


async def test_scripts_touch_the_keys_they_are_given_and_all_lie_in_one_slot(store):
    user = CounterClaim("user:{odd}:name", 1, 10, hard=True, ends=NOW)
    counters = [CLAIM.counter, user.counter]

    async def work() -> None:
        for name in "abc":
            await store.reserve(name, [CLAIM, user], NOW, NOW + (0 if name == "c" else 60))
        assert await store.reserve("e", [CLAIM], NOW, NOW + 60, only_whole=True) is None
        await store.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, NOW)
        assert await store.condition(NOW) is CountersCondition.WHOLE
        await store.reserve("e", [CLAIM, user], NOW, NOW + 60, only_whole=True)
        await store.extend("a", counters, NOW, NOW + 60)
        await store.settle("a", dict.fromkeys(counters, 3), NOW)
        await store.levels(counters, NOW)
        await store.raise_spent({COUNTER: 30}, NOW)
        report = Lease(CLAIM, CounterLevel(0, 0), NOW).report(COUNTER, 1, NOW)
        report = msgspec.structs.replace(report, spent={1000: 7, 1001: 8})
        await store.report("lease/x", [report], NOW, 60)
        checkpoint = await store.begin_checkpoint(NOW, 5)
        await store.settle("b", dict.fromkeys(counters, 3), NOW)
        await store.restore({COUNTER: 30}, checkpoint, NOW)

    assert await touched_keys(store, work()) > 50


async def test_every_key_goes_by_itself_some_time_after_its_window(store):
    seconds, _ = await store._redis.time()
    month = CounterClaim("month", 1, 10, hard=True, ends=seconds + 1000.0)
    ended = CounterClaim("ended", 1, 10, hard=True, ends=seconds - 1000.0)
    await store.reserve("a", [month, ended], NOW, NOW + 60)
    await store.settle("b", {"unknown": 1}, NOW)
    await store.raise_spent({"lifted": 1}, NOW)
    await store.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, NOW)

    async def seconds_left(key: str) -> float:
        return float(await store._redis.pttl(f"{store._keys}{key}")) / 1000

    for key, expected in {
        "counter:month": 1000 + COUNTER_RETENTION_S,
        "holds:month": 1000 + COUNTER_RETENTION_S,
        "counter:ended": COUNTER_RETENTION_S,
        "holds:ended": COUNTER_RETENTION_S,
        "counter:unknown": UNKNOWN_WINDOW_RETENTION_S,
        "counter:lifted": UNKNOWN_WINDOW_RETENTION_S,
        "settled": SETTLED_MEMORY_S,
        "mark": MARKED,
    }.items():
        assert expected - 120 < await seconds_left(key) <= expected + 1
    assert len([key async for key in store._redis.scan_iter(f"{store._keys}*")]) == 8


async def test_counters_say_that_they_are_being_repaired_until_they_are(store):
    await store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
    assert await seconds_left(store) == pytest.approx(UNKNOWN_WINDOW_RETENTION_S, abs=120)


async def seconds_left(store: RedisBudgetStore) -> float:
    """Seconds for which the mark is kept."""
    return float(await store._redis.pttl(f"{store._keys}mark")) / 1000


async def test_a_mark_that_is_made_anew_lasts_as_long_again(store):
    await store.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, NOW)
    await store._redis.pexpire(f"{store._keys}mark", 1000)
    assert await store.change_condition(CountersCondition.WHOLE, CountersCondition.WHOLE, NOW)
    assert await seconds_left(store) == pytest.approx(MARKED, abs=5)


async def test_wholeness_of_counters_is_checked_in_the_same_round_trip(store):
    await store.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, NOW)
    await store.reserve("a", [CLAIM], NOW, NOW + 60, only_whole=True)

    commands = await commands_of(store, store.reserve("b", [CLAIM], NOW, NOW + 60, only_whole=True))
    assert [words[0] for words in commands].count("EVALSHA") == 1
    assert commands[0][0] == "EVALSHA"


@pytest.mark.parametrize("trusts_callers", [True])
async def test_only_so_many_settled_names_are_remembered(store):
    many = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, 'old-' .. i) end"

    key = f"{store._keys}settled"
    await store._redis.eval(many, 1, key, str(MAX_SETTLED_REMEMBERED))
    assert await store.settle("new", {COUNTER: 1}, NOW)
    assert await store._redis.zcard(key) == MAX_SETTLED_REMEMBERED
    assert await store._redis.zscore(key, "old-1") is None
    assert not await store.settle("new", {COUNTER: 1}, NOW)
