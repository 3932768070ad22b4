"""Budgets that several gateway processes count together in Redis, over HTTP."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from proxy.store.store import Store
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.budget_gateway import DEAR, FIVE, bare_call_status
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.redis_keys import SERVER
from tests.fakes.replicas import SiblingProcess
from tests.fakes.serve_process import ServeProcess, serve_process

_SECONDS = 0.0001


@pytest.fixture
def four(tmp_path: Path) -> Iterator[tuple[list[ServeProcess], Simulator]]:
    """Four gateways on one database and one Redis, before a simulator that answers nothing yet."""
    try:
        redis.Redis.from_url(SERVER, socket_connect_timeout=3, socket_timeout=3).ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")
    (tmp_path / "policies.toml").write_text(FIVE)
    with ExitStack() as stack:
        lab, catalog = stack.enter_context(
            running_in_thread(lambda: running_simulator(tmp_path, time_scale=_SECONDS))
        )
        catalog.write_text(catalog.read_text() + DEAR)
        first = stack.enter_context(serve_process(tmp_path, catalog))
        gateways = [first]
        for number in range(3):
            (tmp_path / f"{number}").mkdir()
            sibling = SiblingProcess(first, tmp_path / f"{number}")
            stack.callback(sibling.kill)
            gateways.append(sibling)
        for gateway in gateways:
            gateway.start(
                THRIFTGATE_POLICIES=str(tmp_path / "policies.toml"), THRIFTGATE_REDIS_URL=SERVER
            )
        yield gateways, lab


async def rush(
    gateways: list[ServeProcess], lab: Simulator, calls: int, opened: asyncio.Event
) -> Counter[int]:
    """Number of calls at once by status; the simulator answers when all are decided."""
    statuses: Counter[int] = Counter()

    async def one(number: int) -> None:
        gateway = gateways[number % len(gateways)]
        statuses[await bare_call_status(f"{gateway.url}/v1", gateway.key)] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            group.create_task(one(number))
        while sum(statuses.values()) + len(lab.exchanges) < calls:  # noqa: ASYNC110 - the simulator's is another thread
            await asyncio.sleep(0.02)
        opened.set()
    return statuses


def test_a_thousand_calls_to_four_processes_get_five_dollars_and_no_more(four):
    gateways, lab = four
    opened = asyncio.Event()

    async def sleep_once_opened(seconds: float) -> None:
        while not opened.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)

    lab.sleep = sleep_once_opened

    outcome = asyncio.run(rush(gateways, lab, 1000, opened))

    # On a loaded machine calls miss deadlines of their Redis: what they hold there is given back
    # only after all others were decided.
    assert max(50 - outcome[503], 1) <= outcome[200] <= 50
    assert outcome[200] + outcome[429] + outcome[503] == 1000
    assert len(lab.exchanges) == outcome[200]
    for gateway in gateways:
        gateway.stop()
    store = Store.open(gateways[0].database_url, gateways[0].folder / "journal")
    try:
        assert store.ledger.count_calls() == 1000
        assert store.spendings.from_rollups("team", 0, 2e10)["acme"].nanos <= 5_000_000_000
    finally:
        store.close(5)


def test_a_second_process_that_would_count_for_itself_does_not_start(tmp_path):
    (tmp_path / "policies.toml").write_text(FIVE)
    policies = {"THRIFTGATE_POLICIES": str(tmp_path / "policies.toml")}
    with ExitStack() as stack:
        _, catalog = stack.enter_context(running_in_thread(lambda: running_simulator(tmp_path)))
        first = stack.enter_context(serve_process(tmp_path, catalog))
        second = SiblingProcess(first, tmp_path)
        stack.callback(second.kill)
        first.start(**policies)

        with pytest.raises(
            AssertionError, match=r"Another gateway on this database.* THRIFTGATE_FOLDER"
        ) as refused:
            second.start(**policies)
        assert "Receipts stay in the journal" not in str(refused.value)

        second.start(**policies, THRIFTGATE_PRIVATE_BUDGETS="1")
