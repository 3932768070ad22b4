"""Any sequence of operations has the same answers from the private and the shared store."""

import asyncio
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.store.redis.local_objective_store import LocalCounters
from proxy.store.redis.objective_store import RedisCounters
from tests.fakes.clock import ManualClock
from tests.fakes.redis_keys import SERVER
from tests.proxy.store.redis.objective_pairs import HERE, NOW, Make, Pair, run_and_close

KEYS = st.sampled_from(["chat", "mail"])
SLOTS = st.integers(HERE - 400, HERE + 800)
COUNTS = st.tuples(st.integers(0, 3), st.integers(0, 3))
SAID = st.binary(max_size=3)
REQUESTS = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(st.tuples(KEYS, SLOTS), COUNTS, max_size=4)),
    st.tuples(st.just("read"), st.just(["chat", "mail"]), SLOTS, SLOTS),
    st.tuples(st.just("lead"), st.sampled_from("abc"), st.sampled_from([0.0, 5.0, 300.0])),
    st.tuples(st.just("publish"), st.integers(0, 2), st.dictionaries(KEYS, SAID)),
    st.tuples(st.just("snapshots")),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 5.0, 30.0, 3000.0])),
)


class StoreDriver:
    """Asks one store what it is told to, and keeps the epochs it was given to speak under."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.epochs = [1]

    async def said(self, request: tuple[Any, ...]) -> object:
        name, *rest = request
        if name == "wait":
            self.pair.watch.now += rest[0]
            return None
        if name == "publish":
            rest[0] = self.epochs[-1 - min(rest[0], len(self.epochs) - 1)]
        answer = await getattr(self.pair.one, name)(*rest)
        if name == "lead" and answer is not None:
            self.epochs.append(answer)
        return answer


@pytest.fixture
def redis_pairs(redis_prefix: str) -> Make:
    def make() -> Pair:
        watch = ManualClock(NOW)
        store = RedisCounters(SERVER, token_hex(6), prefix=redis_prefix, deadline=30.0, clock=watch)
        return Pair(store, store, watch)

    return make


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requests=st.lists(REQUESTS, max_size=30))
def test_whatever_happens_both_kinds_say_the_same(redis_pairs: Make, requests: list[Any]) -> None:
    async def story(pair: Pair) -> None:
        watch = ManualClock(NOW)
        alone = LocalCounters(watch)
        here, there = StoreDriver(Pair(alone, alone, watch)), StoreDriver(pair)
        for request in requests:
            assert await here.said(request) == await there.said(request)

    asyncio.run(run_and_close(redis_pairs(), story))
