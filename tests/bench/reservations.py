# ruff: noqa: T201 - a script prints its result
"""Times reservations and settlements, in this process and on ``THRIFTGATE_TEST_REDIS``.

Each row is a store and so many counters per call; times are of one operation after the other, p50
and p99. Beside Redis stands a bare PING by the same client. Last, a thousand reservations at once,
and what a call's budgets take in all, prediction included, with leases and without, and with a
ceiling before them.
Usage: python -m tests.bench.reservations [--quick]
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import Any, Final

from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.translation.translation import prepare
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.timeline import Timeline
from proxy.services.budgets.admission_gate import AdmissionGate
from proxy.services.budgets.ceilings import CostCeilings
from proxy.store.ports import BudgetStore, CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.leased_counters import LeasedCounters
from proxy.store.redis.local_budget_store import LocalBudgetStore
from slo.budgets.ceiling import Ceiling
from slo.budgets.counter import CounterClaim
from slo.budgets.reservations import ReservationGranted
from tests.fakes.admission_harness import ROUTE, AdmissionHarness, budget
from tests.fakes.admission_scenarios import ANSWERED
from tests.fakes.clock import ticks
from tests.fakes.redis_keys import SERVER, prefix

NOW: Final = 1000.0
_LIMIT: Final = 10**15


async def time_rounds(work: Callable[[int], Awaitable[Any]], rounds: int) -> str:
    """Microseconds of one round, p50 and p99."""
    times = []
    for number in range(rounds):
        began = perf_counter_ns()
        await work(number)
        times.append(perf_counter_ns() - began)
    times.sort()
    return f"{times[rounds // 2] / 1e3:7.1f} {times[rounds * 99 // 100] / 1e3:8.1f} µs"


async def row(store: BudgetStore, label: str, counters: int, rounds: int) -> None:
    """Print what reserving and settling cost with so many counters."""
    await store.change_condition(await store.condition(NOW), CountersCondition.WHOLE, NOW)
    claims = [
        CounterClaim(f"{counters}-{index}", 1000, _LIMIT, hard=True, ends=NOW)
        for index in range(counters)
    ]
    amounts = {claim.counter: 900 for claim in claims}

    async def reserve(number: int) -> None:
        await store.reserve(f"{counters}-{number}", claims, NOW, NOW + 300, only_whole=True)

    async def settle(number: int) -> None:
        await store.settle(f"{counters}-{number}", amounts, NOW)

    print(f"{label}, {counters} counters: reserve {await time_rounds(reserve, rounds)}", end="; ")
    print(f"settle {await time_rounds(settle, rounds)}")


async def leased_row(leased: LeasedCounters, counters: int, rounds: int) -> None:
    """Print what the same costs within leases; every hundredth call they are renewed beside it."""
    claims = [
        CounterClaim(f"leased-{index}", 1000, _LIMIT, hard=True, ends=NOW)
        for index in range(counters)
    ]
    amounts = {claim.counter: 9 for claim in claims}
    for number in range(2):
        await leased.reserve(f"{counters}-first-{number}", claims, NOW, NOW + 300)
    await leased.renew()

    async def work(number: int) -> None:
        assert leased.reserve_leased(f"{counters}-{number}", claims, NOW) is not None
        assert leased.settle_leased(f"{counters}-{number}", amounts, NOW)

    times = []
    for _ in range(rounds // 100):
        times.append(await time_rounds(work, 100))
        await leased.renew()
    print(f"leased, {counters} counters: reserve and settle {sorted(times)[len(times) // 2]}")


async def call_row(
    store: BudgetStore, label: str, rounds: int, *, has_ceiling: bool = False
) -> None:
    """Print what admitting and settling a call that counts in two budgets takes, all in all."""
    harness = AdmissionHarness(
        budget(limit=_LIMIT), budget(name="c", scope="organization", limit=_LIMIT)
    )
    harness.admission.counters = store
    ceilings = [Ceiling(name="c", limit=_LIMIT)] if has_ceiling else []
    entry = AdmissionGate(CostCeilings(ceilings, harness.predictor), harness.admission)
    await store.change_condition(await store.condition(NOW), CountersCondition.WHOLE, NOW)
    seal, times = Pseudonymizer(b"secret"), []
    for number in range(rounds):
        attempt = harness.attempt(number)
        prepared = prepare(attempt.call, attempt.route or ROUTE)
        ended = build_receipt(attempt, ANSWERED, Timeline(ticks), seal)
        began = perf_counter_ns()
        await entry.admit(attempt, prepared, lambda _: True)
        entry.settle(ended)
        await harness.admission.wait_until_settled()
        times.append(perf_counter_ns() - began)
        if number % 100 == 5 and isinstance(store, LeasedCounters):
            await store.renew()
    times = sorted(times[100:])
    p50, p10 = (times[len(times) * part // 10] / 1e3 for part in (5, 1))
    what = "a call of two budgets" + " and a ceiling" * has_ceiling
    print(f"{label}, {what}, all in all: {p50:.1f} µs, the fastest tenth {p10:.1f}")


async def burst(store: BudgetStore, label: str) -> None:
    """Print how long a thousand reservations at once take."""
    dime = CounterClaim("burst", 10**8, 5 * 10**9, hard=True, ends=NOW)
    began = perf_counter_ns()
    answers = await asyncio.gather(
        *(store.reserve(f"burst-{each}", [dime], NOW, NOW + 300) for each in range(1000))
    )
    granted = sum(isinstance(each, ReservationGranted) for each in answers)
    elapsed_ms = (perf_counter_ns() - began) / 1e6
    print(f"{label}, 1000 at once: {granted} granted, {elapsed_ms:.0f} ms")


async def main(*, quick: bool) -> None:
    """Print all rows."""
    rounds = 300 if quick else 5000
    private = LocalBudgetStore()
    for counters in (1, 4, 8):
        await row(private, "in-process", counters, rounds)
    await burst(private, "in-process")
    with prefix() as name:
        shared = RedisBudgetStore(SERVER, "bench", prefix=name, deadline=10.0)
        for counters in (1, 4, 8):
            await row(shared, "Redis", counters, rounds)
        print(f"Redis, PING: {await time_rounds(lambda _: shared._redis.ping(), rounds)}")
        await burst(shared, "Redis")
        leased = LeasedCounters(shared, lambda: NOW)
        for counters in (1, 4, 8):
            await leased_row(leased, counters, rounds)
        await call_row(shared, "Redis", rounds)
        await call_row(leased, "leased", rounds)
        await call_row(leased, "leased", rounds, has_ceiling=True)
        await leased.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    asyncio.run(main(quick=parser.parse_args().quick))
