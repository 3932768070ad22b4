"""Gateway and engine are both started again: system prompts are warm before the first call."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from proxy.app import gateway
from proxy.settings import Settings
from proxy.tools.engine_demo.measure import long_system
from proxy.tools.simulator.server import serving
from tests.fakes.databases import migrated_sqlite
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
_PATIENCE_S = 60.0
_WARMED = 'thriftgate_engine_warming_prompts_total{engine="house",kind="system_prompt"'
_NOW = 1_790_000_000.0


class WarmingCaller:
    """Calls a gateway with a key of its team."""

    def __init__(self, client: httpx2.AsyncClient, url: str, key: str) -> None:
        self._client, self._url = client, url
        self.key = key

    async def cached_share(self, question: str) -> float:
        """Share of a prompt that the engine read from its cache."""
        system = {"role": "system", "content": long_system("of this test")}
        body = {
            "model": "house-llm",
            "messages": [system, {"role": "user", "content": question}],
            "max_tokens": 2,
        }
        headers = {"authorization": f"Bearer {self.key}"}
        url = f"{self._url}/chat/completions"
        answer = await self._client.post(url, json=body, headers=headers)
        usage = answer.json()["usage"]
        assert usage["prompt_tokens"] > 1_000
        return float(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])

    async def wait_until_warmed(self, patience_s: float) -> None:
        """Return once a system prompt was warmed, or after so many seconds."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            page = await self._client.get(f"{self._url.removesuffix('/v1')}/metrics")
            if any(line.startswith(_WARMED) for line in page.text.splitlines()):
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def gateway_and_caller(
    settings: Settings, key: str = "", *, keeps: bool
) -> AsyncIterator[WarmingCaller]:
    """A gateway and a caller of it; a team is made where there is no key yet."""
    async with httpx2.AsyncClient(timeout=60) as client, gateway(settings) as running:
        if not key:
            teams = running.store.teams
            team = teams.create("acme", now=_NOW, keeps_prompts=keeps)
            _, key = teams.create_key(team.id, "first", now=_NOW)
        async with serving(running.app) as url:
            yield WarmingCaller(client, url, key)


def write_engines(folder: Path, url: str) -> Settings:
    """Settings of a gateway before one replica, whose system prompts are warmed."""
    file = folder / "engines.toml"
    file.write_text(
        f'[engines.house]\nengine = "llamacpp"\nserved_name = "house-llm"\n'
        f'replicas = ["{url}"]\nwarming = {{ next_turn = false }}\n'
    )
    migrated_sqlite(folder / "gateway" / "thriftgate.db")
    return Settings(folder=folder / "gateway", engines=file)


@pytest.mark.parametrize("keeps", [True, False])
def test_prompts_of_a_team_that_keeps_them_are_warm_after_gateway_and_engine_were_restarted(
    tmp_path: Path, *, keeps: bool
):
    async def story() -> float:
        replicas = RealReplicas()
        async with replicas.start() as url:
            settings = write_engines(tmp_path, url)
            async with gateway_and_caller(settings, keeps=keeps) as caller:
                await asyncio.sleep(1.2)  # the page of the engine is read each second
                for number in range(3):
                    await caller.cached_share(f"Question {number}")
            await replicas.restart(0)
            async with gateway_and_caller(settings, caller.key, keeps=keeps) as later:
                await later.wait_until_warmed(_PATIENCE_S if keeps else 2.5)
                return await later.cached_share("Once more")

    share = asyncio.run(story())

    assert (tmp_path / "gateway" / "engines" / "system-prompts.json").exists() is keeps
    assert share > 0.9 if keeps else share < 0.1
