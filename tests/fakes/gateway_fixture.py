"""A whole gateway before a whole simulator, on real sockets, in a thread of its own."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from proxy.app import Gateway, gateway
from proxy.providers.fitting.schema_rules import XAI
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite

PRICE = (
    '{ input = "1.00", cache_read = "0.10", write_5m = "1.25", write_1h = "2.00", output = "4.00" }'
)
TRAITS = ("adaptive_thinking", "mid_system", "structured", "forced_tools", "sampling")
MODELS = {
    "gpt-lab": SimulatedModel(regime="openai-interval", traits=frozenset(TRAITS)),
    "gpt-next": SimulatedModel(traits=frozenset({"tools_at_none"})),
    "claude-lab": SimulatedModel(
        wire="anthropic",
        regime="anthropic-breakpoint",
        min_cache_tokens=512,
        traits=frozenset(TRAITS),
    ),
    "grok-lab": SimulatedModel(provider="xai", schema_rules=XAI),
    "embed-lab": SimulatedModel(regime="", dimensions=8),
}
CATALOG = """
default = "lab"

[upstreams.lab]
kind = "openai"
base_url = "{url}"
key_env = "SIMULATOR_KEY"

[upstreams.lab-anthropic]
kind = "anthropic"
base_url = "{url}"
key_env = "SIMULATOR_KEY"

[[models]]
id = "gpt-lab"
upstream = "lab"
price = {price}
max_output = 4096

[[models]]
id = "claude-lab"
upstream = "lab-anthropic"
price = {price}
max_output = 4096
traits = {traits}

[[models]]
id = "embed-lab"
upstream = "lab"
price = {{ input = "0.02" }}
"""


#: A model that takes tools beside reasoning by the Responses API alone, for ``more_catalog``.
GPT_NEXT = f"""
[[models]]
id = "gpt-next"
upstream = "lab"
price = {PRICE}
traits = ["max_completion_tokens", "effort", "forced_tools", "tools_at_none"]
"""
#: A model of xAI, likewise.
GROK = f"""
[upstreams.lab-xai]
kind = "openai"
base_url = "{{url}}"
key_env = "SIMULATOR_KEY"
provider = "xai"

[[models]]
id = "grok-lab"
upstream = "lab-xai"
price = {PRICE}
"""


@dataclass(frozen=True)
class ServedGateway:
    """A running gateway, for one test.

    Attributes:
        url: The gateway's base URL, up to and including ``/v1``.
        key: A key of the first team.
        team: Its id.
    """

    url: str
    key: str
    team: str
    gateway: Gateway

    def receipts(self, call_id: str, team_number: int = 0) -> list[Receipt]:
        """Return what the ledger holds of a team's call, once all that was journalled is in it."""
        store = self.gateway.store
        assert store.drain.flush(20)
        team = store.teams.all()[team_number].id if team_number else self.team
        return store.ledger.call_receipts(call_id, team)


@asynccontextmanager
async def served_gateway(
    settings: Settings, *, now: float = 1_790_000_000.0, **clocks: Any
) -> AsyncIterator[ServedGateway]:
    """A running gateway with a team, whose database is made where the settings name none."""
    if not settings.database_url:
        migrated_sqlite(settings.folder / "thriftgate.db")
    async with gateway(settings, **clocks) as running, serving(running.app) as url:
        team = running.store.teams.create("acme", now=now)
        _, key = running.store.teams.create_key(team.id, "first", now=now)
        yield ServedGateway(url, key, team.id, running)


@asynccontextmanager
async def gateway_before(
    upstream: ASGIApp, folder: Path, catalog: str, *, retries: int = 0, **settings: Any
) -> AsyncIterator[ServedGateway]:
    """A running gateway before an upstream of a test's own.

    Args:
        upstream: The app that answers.
        folder: The gateway's own.
        catalog: The catalog, in which ``{url}`` is the upstream's and ``{price}`` a model's.
        settings: The gateway's.
    """
    async with serving(upstream) as url:
        file = folder / "catalog.toml"
        file.write_text(catalog.format(url=url, price=PRICE))
        async with served_gateway(
            Settings(folder=folder / "gateway", catalog=file, retries=retries, **settings)
        ) as running:
            yield running


@asynccontextmanager
async def gateway_before_models(
    models: Mapping[str, SimulatedModel],
    folder: Path,
    catalog: str,
    policies: str,
    settings: Mapping[str, Any],
) -> AsyncIterator[tuple[ServedGateway, Simulator]]:
    """The same before a simulator of these models, with policies; and the simulator."""
    lab = Simulator(
        SimulatorSettings(models=dict(models)), clock=time.monotonic, sleep=asyncio.sleep
    )
    file = folder / "policies.toml"
    file.write_text(policies)
    chosen = {"retries": 1, **settings}
    async with gateway_before(app(lab), folder, catalog, policies=file, **chosen) as served:
        yield served, lab


@dataclass(frozen=True)
class GatewayFixture(ServedGateway):
    """A running gateway before a simulator."""

    folder: Path
    lab: Simulator

    def all_receipts(self) -> list[Receipt]:
        """Everything the ledger holds, by call and attempt."""
        store = self.gateway.store
        assert store.drain.flush(20)
        with closing(sqlite3.connect(self.folder / "gateway" / "thriftgate.db")) as database:
            rows = database.execute("SELECT DISTINCT call_id FROM calls ORDER BY call_id")
            ids = [call_id for (call_id,) in rows]
        return [one for call_id in ids for one in store.ledger.call_receipts(call_id, self.team)]

    def of_feature(self, feature: str, calls: int = 1) -> list[Receipt]:
        """The receipts of a feature, once that many calls have ended."""
        until = time.monotonic() + 5
        while True:
            receipts = [receipt for receipt in self.all_receipts() if receipt.feature == feature]
            if sum(receipt.final for receipt in receipts) >= calls or time.monotonic() > until:
                return receipts
            time.sleep(0.02)


@asynccontextmanager
async def running_simulator(
    folder: Path, *, time_scale: float = 0.0
) -> AsyncIterator[tuple[Simulator, Path]]:
    """A simulator, and the catalog of a gateway before it."""
    lab = Simulator(
        SimulatorSettings(models=MODELS, time_scale=time_scale, keepalive=0.01),
        clock=time.monotonic,
        sleep=asyncio.sleep,
    )
    async with serving(app(lab)) as upstream:
        catalog = folder / "catalog.toml"
        traits = "[" + ", ".join(f'"{trait}"' for trait in TRAITS) + "]"
        catalog.write_text(CATALOG.format(url=upstream, price=PRICE, traits=traits))
        yield lab, catalog


@asynccontextmanager
async def _gateway_before_simulator(
    folder: Path, settings: Mapping[str, Any], more_catalog: str = ""
) -> AsyncIterator[GatewayFixture]:
    async with running_simulator(folder) as (lab, catalog):
        written = catalog.read_text()
        url = written.partition('base_url = "')[2].partition('"')[0]
        catalog.write_text(written + more_catalog.replace("{url}", url))
        chosen = Settings(folder=folder / "gateway", catalog=catalog, **settings)
        async with served_gateway(chosen) as served:
            yield GatewayFixture(**vars(served), folder=folder, lab=lab)


@contextmanager
def running_gateway(
    folder: Path, *, more_catalog: str = "", **settings: Any
) -> Iterator[GatewayFixture]:
    """A running gateway; its settings are the gateway's, as keyword arguments.

    Args:
        folder: Its own.
        more_catalog: Further tables, in which ``{url}`` is the simulator's.
        settings: The gateway's.
    """
    with running_in_thread(
        lambda: _gateway_before_simulator(folder, settings, more_catalog)
    ) as fixture:
        yield fixture
