"""Objectives while Redis, the database or the gateway that leads goes away, in real time.

A third of all calls to ``big`` become thirty times as slow, and new conversations go to ``small``.
Then Redis is held up, killed, and started again, empty; or, of two gateways, the one that leads is
killed; or PostgreSQL is out of reach already when ``big`` becomes slow.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import redis

from proxy.store.store import Store
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from slo.alert import Alert
from tests.fakes.background_loop import running_in_thread
from tests.fakes.http_caller import HttpAnswer, HttpCaller
from tests.fakes.ledger_check import LedgerCheck, check_ledger
from tests.fakes.load import Load
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import OwnRedis
from tests.fakes.replicas import SiblingProcess
from tests.fakes.serve_process import ServeProcess, serve_process
from tests.fakes.virtual_gateway import CATALOG, question
from tests.fakes.wire_cut import WireCut

PROMISE = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "250ms"
enforce = "degrade"
ladder = ["small"]
"""
MODELS = {
    name: SimulatedModel(regime="", ttft=0.02, per_1k=0.0, itl=0.001) for name in ("big", "small")
}
RATE = 15.0
#: Seconds after which ``big`` is given up as never degraded.
_LONG = 30.0


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Answers that the callers of one gateway got in a phase, and the objective at its end.

    Attributes:
        got: What they got, in a few words, and how often.
        slowest: Seconds that the slowest answer took.
        level: What the gateway's metrics say; None where it is dead.
    """

    name: str
    gateway: int
    got: Counter[str]
    slowest: float
    level: float | None


@dataclass(frozen=True, kw_only=True)
class OutageResult:
    """The results of a loss.

    Attributes:
        phases: In order.
        found: The reckoning, once all gateways had stopped.
        alerts: What is told of, and has not ended.
        epochs: Under which somebody led, before and after; () where nobody looked.
    """

    phases: Sequence[Phase]
    found: LedgerCheck
    alerts: Sequence[Alert]
    epochs: Sequence[int] = ()

    def level(self, name: str, gateway: int = 0) -> float | None:
        """Return where the objective stood at the end of a phase, as a gateway said."""
        (found,) = [p.level for p in self.phases if (p.name, p.gateway) == (name, gateway)]
        return found


@dataclass
class GatewaysUnderCalls:
    """Gateways under steady calls, phase by phase."""

    lab: Simulator
    gateways: list[ServeProcess]
    name: str = "calm"
    phases: list[Phase] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)
    _heard: list[tuple[int, HttpAnswer | None]] = field(default_factory=list)
    _number: int = 0

    async def through(self, name: str, seconds: float) -> None:
        """Let a phase pass."""
        await asyncio.sleep(seconds)
        self.end(name)

    async def until_degraded(self, name: str) -> None:
        """Let ``big`` be slow until every gateway moves calls, and for two seconds more."""
        self.lab.inject_fault("big", "slow=30")
        end = time.monotonic() + _LONG
        while any(level(gateway) != 1.0 for gateway in self.gateways):
            assert time.monotonic() < end, [level(gateway) for gateway in self.gateways]
            await asyncio.sleep(0.25)
        await self.through(name, 2)

    def end(self, name: str) -> None:
        """Note what was met since the last phase."""
        heard, self._heard = self._heard, []
        for index, gateway in enumerate(self.gateways):
            met = [each for which, each in heard if which == index]
            self.phases.append(
                Phase(
                    name=name,
                    gateway=index,
                    got=Counter(map(_got, met)),
                    slowest=max((each.took for each in met if each), default=0.0),
                    level=level(gateway),
                )
            )

    @asynccontextmanager
    async def calls(self) -> AsyncIterator[None]:
        """Calls to every gateway, until the block ends and they are answered."""
        diallers = [HttpCaller(f"{each.url}/v1", each.key) for each in self.gateways]
        async with asyncio.TaskGroup() as group:
            going = [
                group.create_task(self._go_on(index, each, group))
                for index, each in enumerate(diallers)
            ]
            try:
                yield
            finally:
                for each in going:
                    each.cancel()
        for http_caller in diallers:
            await http_caller.close()

    async def _go_on(self, index: int, http_caller: HttpCaller, group: asyncio.TaskGroup) -> None:
        while True:
            self._number += 1
            group.create_task(self._call(index, http_caller, self._number))
            await asyncio.sleep(1 / RATE)

    async def _call(self, index: int, http_caller: HttpCaller, number: int) -> None:
        # Were all of them late, the route would be left alone before anything is decided.
        cue = "slow=0.1" if number % 3 else ""
        try:
            heard = await http_caller.ask(question(number, cue=cue))
        except OSError:
            self._heard.append((index, None))
            return
        self._heard.append((index, heard))
        if heard.status == 200 and heard.is_whole:
            self.delivered.append(heard.call)

    def loss(self, epochs: Sequence[int] = ()) -> OutageResult:
        """The outcome; every gateway is stopped."""
        for gateway in self.gateways:
            gateway.stop()
        first = self.gateways[0]
        load = Load(first.url, first.key, delivered=self.delivered)
        store = Store.open(first.database_url, first.folder / "beside")
        try:
            alerts = store.outbox.open_alerts(100)
        finally:
            store.close(5)
        return OutageResult(
            phases=self.phases,
            found=check_ledger(first, load),
            alerts=alerts,
            epochs=epochs,
        )


def _got(heard: HttpAnswer | None) -> str:
    if heard is None:
        return "nobody there"
    if heard.status == 0 or not heard.is_whole:
        return "broken off"
    if heard.status != 200:
        return f"{heard.status} {heard.error['code']}"
    return (
        f"answer, moved ({heard.fallback_reason.partition(': ')[2]})"
        if heard.fallback_reason
        else "answer"
    )


def level(gateway: ServeProcess) -> float | None:
    """The objective's, as a gateway's metrics say; None where it is dead."""
    try:
        page = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=5, verify=PLAIN).text
    except httpx.HTTPError:
        return None
    (line,) = [line for line in page.splitlines() if line.startswith("thriftgate_objective_level{")]
    return float(line.rpartition(" ")[2])


def said(gateway: ServeProcess) -> list[str]:
    """Lines of a gateway's log about objectives and alerts."""
    lines = (gateway.folder / "serve.log").read_text().splitlines()
    return [line for line in lines if "objective" in line.lower() or "alert" in line.lower()]


@contextmanager
def gateways(
    folder: Path, count: int, database_url: str = "", **more: str
) -> Iterator[GatewaysUnderCalls]:
    """So many gateways before one lab, on one database."""
    (folder / "policies.toml").write_text(PROMISE)
    settings = {"THRIFTGATE_POLICIES": f"{folder / 'policies.toml'}", "THRIFTGATE_PLANNING": "off"}
    with ExitStack() as stack:
        lab, catalog = stack.enter_context(running_in_thread(partial(_lab, folder)))
        made = [stack.enter_context(serve_process(folder, catalog, database_url))]
        for number in range(1, count):
            (folder / f"{number}").mkdir()
            made.append(SiblingProcess(made[0], folder / f"{number}"))
            stack.callback(made[-1].kill)
        for gateway in made:
            gateway.start(**settings, **more)
        yield GatewaysUnderCalls(lab, made)


@asynccontextmanager
async def _lab(folder: Path) -> AsyncIterator[tuple[Simulator, Path]]:
    lab = Simulator(SimulatorSettings(models=MODELS), clock=time.monotonic, sleep=asyncio.sleep)
    async with serving(app(lab)) as upstream:
        catalog = folder / "catalog.toml"
        catalog.write_text(CATALOG.format(url=upstream, more=""))
        yield lab, catalog


def _leads(gateway: ServeProcess) -> bool:
    """True if it told of the move, as only who leads does."""
    return any("Alert, " in line for line in said(gateway))


def redis_lost(folder: Path, server: OwnRedis, *, seconds: float = 4.0) -> OutageResult:
    """Take Redis from a gateway whose calls are moved, and give it back empty.

    Args:
        folder: Where everything is.
        server: The Redis.
        seconds: How long each phase takes.
    """

    async def story(watched: GatewaysUnderCalls) -> None:
        async with watched.calls():
            await watched.through("calm", seconds)
            await watched.until_degraded("slow")
            server.hold_up()
            await watched.through("Redis silent", seconds)
            server.kill()
            await watched.through("Redis dead", seconds)
            await asyncio.to_thread(server.start)
            await watched.through("Redis back, empty", seconds + 2)

    with gateways(folder, 1, THRIFTGATE_REDIS_URL=server.url) as watched:
        asyncio.run(story(watched))
        return watched.loss()


def leader_lost(folder: Path, server: OwnRedis, *, seconds: float = 4.0) -> OutageResult:
    """Kill the one of two gateways that leads, and start it again."""
    epochs = []

    async def story(watched: GatewaysUnderCalls) -> None:
        async with watched.calls():
            await watched.through("calm", seconds)
            await watched.until_degraded("slow")
            epochs.append(epoch(server))
            (leader,) = [gateway for gateway in watched.gateways if _leads(gateway)]
            watched.gateways.sort(key=lambda gateway: gateway is not leader)
            leader.kill()
            await watched.through("leader dead", 8)
            epochs.append(epoch(server))
            await asyncio.to_thread(leader.start, **settings)
            await watched.through("leader back", seconds)

    settings = {
        "THRIFTGATE_POLICIES": f"{folder / 'policies.toml'}",
        "THRIFTGATE_PLANNING": "off",
        "THRIFTGATE_REDIS_URL": server.url,
    }
    with gateways(folder, 2, THRIFTGATE_REDIS_URL=server.url) as watched:
        asyncio.run(story(watched))
        return watched.loss(epochs)


def database_lost(folder: Path, database_url: str, *, seconds: float = 4.0) -> OutageResult:
    """Cut a gateway off its PostgreSQL, then let ``big`` become slow."""
    host = urlsplit(database_url)
    user, _, _ = host.netloc.rpartition("@")

    async def story(watched: GatewaysUnderCalls, wire: WireCut) -> None:
        async with watched.calls():
            await watched.through("calm", seconds)
            wire.close_connections()
            await watched.through("database away", seconds)
            await watched.until_degraded("database away, slow")
            wire.mend()
            await watched.through("database back", seconds + 2)

    with WireCut(host.hostname or "", host.port or 5432) as wire:
        url = host._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()
        with gateways(folder, 1, url) as watched:
            asyncio.run(story(watched, wire))
            return watched.loss()


def epoch(server: OwnRedis) -> int:
    """Under which somebody leads."""
    with redis.Redis.from_url(server.url, socket_timeout=2) as client:
        (key,) = client.scan_iter(match="*:steering:lease")
        return int(client.hget(key, "epoch"))
