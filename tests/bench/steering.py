# ruff: noqa: T201 - a script prints its result
"""Times the sharing of counts and standings, on the Redis of ``THRIFTGATE_TEST_REDIS``.

Each row is so many keys: adding to the slot of now, and reading what an evaluator reads each time,
the last two slots, then what it reads when it begins, thirty. Times are of one operation after the
other, p50 and p99, on the wall and of this process's own. Beside it stands a bare PING.
Usage: python -m tests.bench.steering [--quick]
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns, process_time_ns
from typing import Any, Final

from proxy.store.redis.objective_state import slot
from proxy.store.redis.objective_store import RedisCounters
from tests.fakes.redis_keys import SERVER, prefix

_BEGUN: Final = 30


async def time_rounds(work: Callable[[], Awaitable[Any]], rounds: int) -> str:
    """Microseconds of one round, p50 and p99, and the processor's."""
    times = []
    worked = process_time_ns()
    for _ in range(rounds):
        began = perf_counter_ns()
        await work()
        times.append(perf_counter_ns() - began)
    worked = process_time_ns() - worked
    times.sort()
    p50, p99 = times[rounds // 2] / 1e3, times[rounds * 99 // 100] / 1e3
    return f"{p50:8.0f} {p99:8.0f} µs ({worked / rounds / 1e3:.0f} µs ours)"


async def row(store: RedisCounters, keys: int, rounds: int) -> None:
    """Print what adding and reading so many keys costs."""
    seconds, _ = await store._redis.time()
    here = slot(seconds)
    names = [f"chat-ttft|route-{index}" for index in range(keys)]
    for at in range(_BEGUN):
        await store.add({(name, here - at): (95, 5) for name in names})
    increments = {(name, here): (95, 5) for name in names}

    async def both() -> None:
        await store.add({(names[0], here): (95, 5)})
        await store.read(names[:1], here, here)

    if keys == 1:
        print(f"one add and one read: {await time_rounds(both, rounds)}")
    for label, work in (
        ("add", lambda: store.add(increments)),
        ("read 2 slots", lambda: store.read(names, here - 1, here)),
        (f"read {_BEGUN} slots", lambda: store.read(names, here - _BEGUN + 1, here)),
    ):
        print(f"{keys:4} keys, {label}: {await time_rounds(work, rounds)}")


async def main(*, quick: bool) -> None:
    """Print all rows."""
    rounds = 50 if quick else 300
    with prefix() as name:
        store = RedisCounters(SERVER, "bench", prefix=name, deadline=10.0)
        print(f"PING: {await time_rounds(store._redis.ping, rounds)}")
        for keys in (1, 20, 200):
            await row(store, keys, rounds)
        epoch = await store.lead("bench", 5.0)
        assert epoch is not None
        state = {f"chat-ttft|route-{index}": b"x" * 100 for index in range(200)}
        print(f"lead: {await time_rounds(lambda: store.lead('bench', 5.0), rounds)}")
        print(f"publish 200: {await time_rounds(lambda: store.publish(epoch, state), rounds)}")
        print(f"standings of 200: {await time_rounds(store.standings, rounds)}")
        await store.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    asyncio.run(main(quick=parser.parse_args().quick))
