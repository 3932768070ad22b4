"""Gateways killed with calls under way: what these held counts until its time is over, and once.

That it is spent afterwards takes the minute that holds last; ``python -m
tests.bench.gateway_deaths`` waits for it. Here the counters are read as they stand in a minute.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from proxy.records.receipt import Receipt
from proxy.services.budgets.counter_loss import TTL_S
from proxy.services.cut_attempts import KILLED
from slo.budgets.counter import CounterLevel
from tests.bench.budget_fault_gateways import HALF, Ledger, gateways
from tests.bench.gateway_deaths import kill_one
from tests.fakes.budget_gateway import DIME, FIVE
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import ABSENT, PROGRAM, own_redis
from tests.fakes.serve_process import ServeProcess

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
_DIME_NANOS = 100_000_000


def test_holds_of_a_killed_gateway_count_for_the_others_until_they_expire(tmp_path):
    with own_redis(tmp_path) as redis:
        came = kill_one(tmp_path, redis, waits=False)

    assert came.held == ("5", "5")
    assert 0 < came.frees <= TTL_S + 0.1
    assert came.admitted == 0
    assert came.level.held == HALF * _DIME_NANOS
    # The other half were left by their callers, and may be billed to the end.
    assert came.level.spent == HALF * _DIME_NANOS
    assert 0 < came.spent < came.level.spent


def ask(gateway: ServeProcess, text: str, **fields: object) -> httpx.Response | None:
    """The answer to a call of ten cents at most; None where the connection breaks."""
    with suppress(httpx.HTTPError):
        return httpx.post(
            f"{gateway.url}/v1/chat/completions",
            json=DIME | {"messages": [{"role": "user", "content": text}]} | fields,
            headers={"authorization": f"Bearer {gateway.key}"},
            timeout=60,
            trust_env=False,
            verify=PLAIN,
        )
    return None


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lift_and_end_holds(ledger: Ledger) -> CounterLevel:
    """The team's counter once it was given what the ledger says, and all holds have ended.

    A gateway does the one every minute; the other takes a minute of Redis' own time.
    """

    async def run() -> CounterLevel:
        counters = ledger.open_counters(trusts_callers=True)
        now = time.time()  # noqa: TID251 - the gateway's windows are the machine's
        try:
            (name,) = await counters.counters_from("day/", 2)
            await counters.raise_spent({name: sum(ledger.spend_by_team().values())}, now)
            (level,) = await counters.levels([name], now + TTL_S + 1)
            return level
        finally:
            await counters.aclose()

    return asyncio.run(run())


def test_call_that_a_kill_cut_off_counts_once_after_its_gateway_was_started_again(tmp_path: Path):
    with (
        own_redis(tmp_path) as redis,
        gateways(tmp_path, FIVE, redis.url, count=1) as (gateway,),
        ThreadPoolExecutor(1) as pool,
    ):
        ledger = Ledger(gateway, redis.url)
        assert ask(gateway, "[[fault:words=20]] Hi.") is not None
        wait_until(lambda: ledger.levels(["day"])[0].held == 0)  # the first call's hold is gone
        hanging = pool.submit(ask, gateway, "[[fault:hang]] Well?")
        wait_until(lambda: ledger.levels(["day"])[0].held == _DIME_NANOS)
        gateway.kill()
        assert hanging.result() is None
        gateway.start(
            THRIFTGATE_POLICIES=f"{tmp_path / 'policies.toml'}", THRIFTGATE_REDIS_URL=redis.url
        )

        def cut_receipts() -> list[Receipt]:
            return [one for one in ledger.store.ledger.receipts_since(0) if one.error == KILLED]

        wait_until(cut_receipts)
        receipts = list(ledger.store.ledger.receipts_since(0))
        booked = sum(ledger.spend_by_team().values())
        before = ledger.levels(["day"])[0]
        after = lift_and_end_holds(ledger)
        refusal = ask(gateway, "All of it?", max_completion_tokens=4096, n=16)
        ledger.store.close(5)

    (killed,) = (one for one in receipts if one.error == KILLED)
    (answered,) = (one for one in receipts if one.error == "")
    spent = answered.cost_nanos
    assert spent is not None
    assert killed.cost_nanos is not None
    assert 0 < killed.cost_nanos < _DIME_NANOS
    assert booked == spent + killed.cost_nanos
    assert before == CounterLevel(spent, _DIME_NANOS)
    assert after == CounterLevel(spent + _DIME_NANOS, 0)
    assert refusal is not None
    error = refusal.json()["error"]
    assert error["held"] == "0"
    assert Decimal(error["spent"]) * 1_000_000_000 == after.spent
