"""A gateway with budgets: one dear model, whose calls of a thousand tokens may cost ten cents.

Another is dear by its prompts, a third is cheap, but may generate very much; of a fourth no limit
is stated, and a fifth costs a thousand dollars a token.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from proxy.app import Gateway, gateway
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN

DEAR = """
[[models]]
id = "dear-lab"
upstream = "lab"
model = "gpt-lab"
price = { input = "0", output = "100" }
max_output = 4096

[[models]]
id = "heavy-lab"
upstream = "lab"
model = "gpt-lab"
price = { input = "100", output = "100" }
max_output = 4096

[[models]]
id = "long-lab"
upstream = "lab"
model = "gpt-lab"
price = { input = "0.75", output = "4.50" }
max_output = 128000

[[models]]
id = "unlimited-lab"
upstream = "lab"
model = "gpt-lab"
price = { input = "1", output = "10" }

[[models]]
id = "golden-lab"
upstream = "lab"
model = "gpt-lab"
price = { input = "999999999", output = "999999999" }
"""
#: What a team may spend in a day: fifty calls of ten cents.
FIVE = """
[[budgets]]
name = "day"
scope = "team"
unit = "usd"
window = "day"
limit = "5"
hold = "worst"
"""
#: What a call asks for by default: ten cents at most.
DIME = {
    "model": "dear-lab",
    "messages": [{"role": "user", "content": "Say something."}],
    "max_completion_tokens": 1000,
}
_CREATED = 1_790_000_000.0


@dataclass(frozen=True)
class BudgetGateway:
    """A running gateway with budgets, for one test.

    Attributes:
        keys: A key of each team, by its name.
        gate: While it is shut, the simulator answers nothing.
    """

    url: str
    keys: Mapping[str, str]
    gateway: Gateway
    lab: Simulator
    gate: threading.Event = field(default_factory=threading.Event)

    def headers(self, team: str = "acme") -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[team]}"}

    def call(self, team: str = "acme", headers: Any = None, **fields: Any) -> httpx.Response:
        """The answer to a call."""
        return httpx.post(
            f"{self.url}/chat/completions",
            content=orjson.dumps(DIME | fields),
            headers=self.headers(team) | {"content-type": "application/json"} | (headers or {}),
            timeout=60,
            trust_env=False,
            verify=PLAIN,
        )

    def costs(self) -> int:
        """Nano-dollars of all calls in the ledger."""
        opened = self.gateway.store
        assert opened.drain.flush(20)
        return sum(
            row.nanos for row in opened.spendings.from_rollups("organization", 0, 2e10).values()
        )


async def bare_call_status(url: str, key: str) -> int:
    """The status of a call on a connection of its own; lighter than any client."""
    where, content = httpx.URL(url), orjson.dumps(DIME)
    head = (
        f"POST {where.path}/chat/completions HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(head.encode() + content)
    answer = await reader.read()
    writer.close()
    return int(answer[9:12])


@asynccontextmanager
async def _gateway_with_settings(
    folder: Path, settings: Mapping[str, Any]
) -> AsyncIterator[BudgetGateway]:
    async with running_simulator(folder, time_scale=0.0001) as (lab, catalog):
        catalog.write_text(catalog.read_text() + DEAR)
        chosen = Settings(
            folder=folder / "gateway",
            catalog=catalog,
            policies=folder / "policies.toml",
            **settings,
        )
        migrated_sqlite(chosen.folder / "thriftgate.db")
        async with gateway(chosen) as running, serving(running.app) as url:
            keys = {}
            teams = {team.name: team for team in running.store.teams.all()}
            for name in ("acme", "other"):
                team = teams.get(name) or running.store.teams.create(name, now=_CREATED)
                _, keys[name] = running.store.teams.create_key(team.id, "first", now=_CREATED)
            fixture = BudgetGateway(url=url, keys=keys, gateway=running, lab=lab)
            fixture.gate.set()

            async def sleep_once_gate_opens(seconds: float) -> None:
                while not fixture.gate.is_set():  # noqa: ASYNC110 - another thread sets it
                    await asyncio.sleep(0.01)
                await asyncio.sleep(seconds)

            lab.sleep = sleep_once_gate_opens
            yield fixture


@contextmanager
def budget_gateway(folder: Path, policies: str, **settings: Any) -> Iterator[BudgetGateway]:
    """A running gateway; its settings are the gateway's, as keyword arguments."""
    (folder / "policies.toml").write_text(policies)
    with running_in_thread(lambda: _gateway_with_settings(folder, settings)) as fixture:
        yield fixture
