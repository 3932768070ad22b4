# ruff: noqa: T201 - a script prints its result
"""A gateway that dies while it holds calls: what it held is spent once its time is over.

Usage: python -m tests.bench.gateway_deaths
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from proxy.services.budgets.counter_loss import TTL_S
from slo.budgets.counter import CounterLevel
from tests.bench.budget_fault_gateways import HALF, NANOS, Ledger, gateways
from tests.fakes.budget_gateway import DIME, FIVE
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import OwnRedis, own_redis
from tests.fakes.serve_process import ServeProcess

_DIME = NANOS // 10


@dataclass(frozen=True)
class KillResult:
    """Results after one of two gateways was killed, each with half of the budget under way.

    Attributes:
        held: Dollars held, as a refused caller of the other gateway was told: before, and after.
        frees: Seconds until something is free, as it was told after.
        waited: Seconds from the kill until nothing was held for the dead one; None if nobody
            waited.
        admitted: How many of the calls were sent that then asked for all of the budget.
        level: What the counter said once all calls of the living one had ended.
        spent: What the ledger said then, in nano-dollars.
    """

    held: tuple[str, str]
    frees: float
    waited: float | None
    admitted: int
    level: CounterLevel
    spent: int


def kill_one(folder: Path, redis: OwnRedis, *, waits: bool) -> KillResult:
    """Kill one of two gateways that share a budget of fifty calls, each with half of them.

    Args:
        folder: Where everything is.
        redis: Where they count.
        waits: True to wait until what the dead one held is spent, which takes a minute.
    """
    return asyncio.run(_kill_one(folder, redis, waits=waits))


async def _kill_one(folder: Path, redis: OwnRedis, *, waits: bool) -> KillResult:
    async with AsyncExitStack() as stack:
        first, second = stack.enter_context(gateways(folder, FIVE, redis.url, count=2))
        ledger = Ledger(second, redis.url)
        stack.callback(ledger.store.close, 5)
        limits = httpx.Limits(max_connections=200)
        client = await stack.enter_async_context(
            httpx.AsyncClient(trust_env=False, timeout=TTL_S * 3, limits=limits, verify=PLAIN)
        )
        hanging = [
            asyncio.ensure_future(call(client, gateway, "[[fault:hang]] Well?"))
            for gateway in (first, second)
            for _ in range(HALF)
        ]
        await until(ledger, lambda level: level.held == 2 * HALF * _DIME)
        before, _ = await wait_for_refusal(client, second)
        await asyncio.to_thread(first.kill)
        began = time.monotonic()
        after, frees = await wait_for_refusal(client, second)
        waited = None
        if waits:
            await until(ledger, lambda level: level.held <= HALF * _DIME)
            waited = time.monotonic() - began
        more = [call(client, second, "[[fault:hang]] And?", patience=3) for _ in range(2 * HALF)]
        answers = await asyncio.gather(*more, return_exceptions=True)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        left = 0 if waits else HALF * _DIME
        level = await until(ledger, lambda level: level.held <= left)
        await asyncio.to_thread(second.stop)
        spent = sum(ledger.spend_by_team().values())
    admitted = sum(isinstance(answer, httpx.TimeoutException) for answer in answers)
    return KillResult((before, after), frees, waited, admitted, level, spent)


async def until(ledger: Ledger, is_so: Callable[[CounterLevel], bool]) -> CounterLevel:
    """The counter once this is so of it, or as it stands after a while."""
    end = time.monotonic() + 1.5 * TTL_S
    (level,) = await ledger.counter_levels(["day"])
    while not is_so(level) and time.monotonic() < end:
        await asyncio.sleep(0.25)
        (level,) = await ledger.counter_levels(["day"])
    return level


async def wait_for_refusal(client: httpx.AsyncClient, gateway: ServeProcess) -> tuple[str, float]:
    """Dollars held and seconds to wait, as a caller is told once nothing is free."""
    for _ in range(400):
        answer = await call(client, gateway, "[[fault:words=1]] Me too?")
        if answer.status_code == 429:
            return str(answer.json()["error"]["held"]), float(answer.headers["retry-after"])
        await asyncio.sleep(0.05)
    raise AssertionError("nothing is refused")


async def call(
    client: httpx.AsyncClient, gateway: ServeProcess, text: str, patience: float = TTL_S * 3
) -> httpx.Response:
    """The answer of a gateway to a call of ten cents at most."""
    return await client.post(
        f"{gateway.url}/v1/chat/completions",
        json=DIME | {"messages": [{"role": "user", "content": text}]},
        headers={"authorization": f"Bearer {gateway.key}"},
        timeout=patience,
    )


def print_death(came: KillResult) -> None:
    """Print what became of the calls of a killed gateway."""
    print(
        f"Kill -9 of one of two gateways with {HALF} calls each: ${came.held[0]} held before,"
        f" ${came.held[1]} after; nothing held for the dead one after {came.waited or 0:.1f} s;"
        f" then {came.admitted} calls of ten cents fit; in the end"
        f" ${came.level.held / NANOS:.3f} held, ${came.level.spent / NANOS:.6f} spent of $5,"
        f" ${came.spent / NANOS:.6f} in the ledger"
    )


def main() -> None:
    """Print what came of it."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        redis = stack.enter_context(own_redis(folders[0]))
        print_death(kill_one(folders[1], redis, waits=True))


if __name__ == "__main__":
    main()
