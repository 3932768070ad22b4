"""One of two replicas of an engine becomes 15 times slower: the calls go to the other one.

Over HTTP, in virtual time, with and without a metrics page and a fallback ladder.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from proxy.records.receipt import Receipt
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.bench.incident_http import PROMISE
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import START, question, virtual_gateway

_LADDER = PROMISE.replace('["small"]', '["elsewhere"]')
_RATE = 5
#: Seconds after which a replica becomes slow, calls are counted, and the last one comes.
_SLOW_S, _COUNTED_S, _END_S = 20, 50, 110


class SlowableReplica:
    """A simulated replica, with a page of its load where it is to have one."""

    def __init__(self, *, has_metrics: bool, becomes_slow: bool) -> None:
        model = SimulatedModel(regime="", ttft=0.2, per_1k=0.0, itl=0.001)
        self._simulator = Simulator(
            SimulatorSettings(models={"house-llm": model}, keepalive=5.0, max_records=10_000),
            clock=asyncio.get_running_loop().time,
            sleep=asyncio.sleep,
        )
        self._has_metrics = has_metrics
        self._becomes_slow = becomes_slow

    def slow_down(self) -> None:
        """Answer 15 times slower from now on, if it is the one that does."""
        if self._becomes_slow:
            self._simulator.inject_fault("house-llm", "slow=15")

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve it; the base URL."""
        page = [Route("/metrics", self._metrics)] if self._has_metrics else []
        async with serving(Starlette(routes=[*page, Mount("/", app(self._simulator))])) as url:
            yield url

    async def _metrics(self, _: object) -> PlainTextResponse:
        running = sum(
            exchange.method == "POST" and not exchange.over.is_set()
            for exchange in self._simulator.exchanges
        )
        return PlainTextResponse(
            f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
        )


@dataclass(frozen=True)
class ReplicaShares:
    """The attempts that each replica got, and whose answers came.

    Attributes:
        before: First attempts while both were healthy.
        after: First attempts long after one became slow.
        answered: Answers of these calls.
        elsewhere: First attempts of calls at the level `elsewhere`.
        is_load_known: True if the gateway read how many calls run at the replicas.
    """

    before: Counter[str]
    after: Counter[str]
    answered: Counter[str]
    elsewhere: Counter[str]
    is_load_known: bool


async def play(folder: Path, policies: str, replicas: list[SlowableReplica]) -> ReplicaShares:
    """Calls come at an even rate, and the replicas that can become slow do."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(replica.serve()) for replica in replicas]
        (folder / "engines.toml").write_text(
            f'[engines.house]\nengine = "vllm"\nserved_name = "house-llm"\nreplicas = {urls}\n'
        )
        keys = "".join(
            f'[upstreams."house:{number}"]\nbase_url = "{url}"\n'
            'headers = { authorization = "Bearer sk-simulated" }\n'
            for number, url in enumerate(urls)
        )
        world = await stack.enter_async_context(
            virtual_gateway(
                folder,
                policies,
                more=keys,
                routes='routes = [{ upstream = "engine:house" }]',
                engines=folder / "engines.toml",
            )
        )
        async with asyncio.TaskGroup() as group:
            for number in range(_RATE * _END_S):
                if number == _RATE * _SLOW_S:
                    for replica in replicas:
                        replica.slow_down()
                group.create_task(world.http_caller.ask(question(0)))
                await asyncio.sleep(1 / _RATE)
        names = await world.metrics()
        receipts = world.receipts()
    first = [receipt for receipt in receipts if receipt.attempt == 0]
    return ReplicaShares(
        before=_upstreams(receipt for receipt in first if receipt.started < START + _SLOW_S),
        after=_upstreams(receipt for receipt in first if receipt.started >= START + _COUNTED_S),
        answered=_upstreams(
            receipt
            for receipt in receipts
            if receipt.final and receipt.started >= START + _COUNTED_S
        ),
        elsewhere=_upstreams(receipt for receipt in first if receipt.reroute_reason),
        is_load_known=any(name.startswith("thriftgate_engine_running") for name in names),
    )


def _upstreams(receipts: Iterable[Receipt]) -> Counter[str]:
    return Counter(receipt.upstream for receipt in receipts)


def check(folder: Path, policies: str, *, slow: int, has_metrics: bool) -> ReplicaShares:
    """The shares of a run, in which the calls left the slow replica."""

    async def story() -> ReplicaShares:
        replicas = [
            SlowableReplica(has_metrics=has_metrics, becomes_slow=number == slow)
            for number in range(2)
        ]
        return await play(folder, policies, replicas)

    shares = run_in_virtual_time(story)
    name = f"house:{slow}"
    assert shares.is_load_known == has_metrics
    assert shares.before[name] > 0.2 * shares.before.total()
    assert shares.after[name] < 0.15 * shares.after.total()
    assert shares.answered[name] < 0.05 * shares.answered.total()
    return shares


_METRICS = pytest.mark.parametrize("has_metrics", [True, False], ids=["metrics", "no metrics"])


@_METRICS
def test_a_replica_15_times_slower_loses_its_share_by_the_gateways_own_times(
    tmp_path: Path, *, has_metrics: bool
) -> None:
    check(tmp_path, "", slow=0, has_metrics=has_metrics)


@_METRICS
def test_level_elsewhere_leaves_out_the_slow_replica_not_the_first_of_the_catalog(
    tmp_path: Path, *, has_metrics: bool
) -> None:
    shares = check(tmp_path, _LADDER, slow=1, has_metrics=has_metrics)

    assert set(shares.elsewhere) == {"house:0"}
