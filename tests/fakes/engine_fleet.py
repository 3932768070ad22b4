"""A gateway before simulated replicas of an engine, each with a prefix cache of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from proxy.app import gateway
from proxy.settings import Settings
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.databases import migrated_sqlite

LONG = "Everything that was agreed on so far, in all its detail. " * 80
#: Starts a replica for the length of a block; yields its base URL.
StartReplica = Callable[[], AbstractAsyncContextManager[str]]
_AUTHORIZATION = 'headers = { authorization = "Bearer sk-simulated" }'


@dataclass
class EngineFleet:
    """Replicas behind one gateway or several.

    Attributes:
        client: Asks them.
        keys: A key of each gateway, by its base URL.
        replicas: What stops each replica.
    """

    folder: Path
    client: httpx2.AsyncClient
    keys: dict[str, str] = field(default_factory=dict)
    replicas: list[AsyncExitStack] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    engine: str = "vllm"
    table: str = ""

    @property
    def engines_file(self) -> Path:
        return self.folder / "engines.toml"

    @property
    def url(self) -> str:
        """The first gateway."""
        return next(iter(self.keys))

    def write_engines(self, urls: list[str]) -> None:
        """The engines file, with replicas at these addresses."""
        listed = ", ".join(f'"{url}"' for url in urls)
        self.engines_file.write_text(
            f'[engines.house]\nengine = "{self.engine}"\nserved_name = "house-llm"\n'
            f"replicas = [{listed}]\n{self.table}\n"
        )

    async def ask(
        self,
        conversation: int,
        turns: int = 1,
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The answer to the call of a conversation after so many turns."""
        messages = [{"role": "system", "content": f"Case {conversation}. {LONG}"}]
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Question {turn}. {LONG}"})
            messages.append({"role": "assistant", "content": f"Answer {turn}"})
        body = {"model": "house-llm", "messages": messages[:-1], "max_tokens": 8}
        base_url = url or self.url
        return await self.client.post(
            f"{base_url}/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {self.keys[base_url]}", **(headers or {})},
        )

    async def metrics(self) -> str:
        """The gateway's metrics."""
        return (await self.client.get(f"{self.url.removesuffix('/v1')}/metrics")).text


@asynccontextmanager
async def engine_fleet(
    folder: Path,
    replicas: int = 2,
    gateways: int = 1,
    start: StartReplica | None = None,
    table: str = "",
    **settings: Any,
) -> AsyncIterator[EngineFleet]:
    """A fleet.

    Args:
        folder: For its files.
        replicas: Number of them.
        gateways: The same.
        table: More fields of the profile.
        start: Starts a replica of llama.cpp; None simulates one of vLLM.
        settings: Settings of the gateways.
    """
    async with AsyncExitStack() as stack, httpx2.AsyncClient(timeout=60) as client:
        fleet = EngineFleet(folder, client, engine="vllm" if start is None else "llamacpp")
        fleet.table = table
        for _ in range(replicas):
            running = await stack.enter_async_context(AsyncExitStack())
            fleet.urls.append(await running.enter_async_context((start or _replica)()))
            fleet.replicas.append(running)
        fleet.write_engines(fleet.urls)
        spare = await stack.enter_async_context(_replica("spare"))
        _write_catalog(folder, fleet.urls, spare)
        for number in range(gateways):
            await _add_gateway(fleet, stack, number, settings)
        yield fleet


@asynccontextmanager
async def _replica(model: str = "house-llm") -> AsyncIterator[str]:
    simulated = SimulatedModel(regime="block-chain", ttft=0.0, per_1k=0.0, itl=0.0)
    simulator = Simulator(
        SimulatorSettings(models={model: simulated}, time_scale=0.0),
        clock=time.monotonic,
        sleep=asyncio.sleep,
    )
    async with serving(app(simulator)) as url:
        yield url


def _write_catalog(folder: Path, urls: list[str], spare: str) -> None:
    tables = [
        f'[upstreams."house:{n}"]\nbase_url = "{url}"\n{_AUTHORIZATION}'
        for n, url in enumerate(urls)
    ]
    tables.append(f'[upstreams.provider]\nbase_url = "{spare}"\nregion = "us"\n{_AUTHORIZATION}')
    tables.append(
        '[[models]]\nid = "house-llm"\nprice = { input = "1", cache_read = "0.1", output = "4" }\n'
        'routes = [{ upstream = "engine:house" },'
        ' { upstream = "provider", model = "spare" }]'
    )
    (folder / "catalog.toml").write_text("\n".join(tables))


async def _add_gateway(
    fleet: EngineFleet, stack: AsyncExitStack, number: int, settings: dict[str, Any]
) -> None:
    own = Settings(
        folder=fleet.folder / f"gateway{number}",
        catalog=fleet.folder / "catalog.toml",
        engines=fleet.engines_file,
        **settings,
    )
    migrated_sqlite(own.folder / "thriftgate.db")
    running = await stack.enter_async_context(gateway(own))
    url = await stack.enter_async_context(serving(running.app))
    team = running.store.teams.create("acme", now=1_790_000_000.0)
    _, fleet.keys[url] = running.store.teams.create_key(team.id, "first", now=1_790_000_000.0)
