"""A gateway before a simulator whose time a test sets: hours of traffic in seconds, on sockets.

Both speak through real sockets. Their one clock stands still until it is told to move, so caches
grow old by the traffic's own times. Nothing is planned but for features that are told to be.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import orjson

from dashboards.reports import Part, ReportPeriod, Spend
from proxy import app
from proxy.api.endpoint import Endpoint
from proxy.app import Gateway
from proxy.configuration import read_catalog
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.services.planning.planning import PromptPlanning
from proxy.settings import Settings, read
from proxy.tools.demo.catalog import redirected_catalog, simulated_models
from proxy.tools.simulator.app import app as lab_app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator, cache_of
from tests.fakes.background_loop import running_in_thread
from tests.fakes.chat_refusals import without_chat_refusals
from tests.fakes.plain_http import PLAIN

#: The model that stands for each regime.
MODELS: Mapping[str, str] = {
    "openai-breakpoint": "gpt-6.1-sol",
    "openai-interval": "gpt-5.5",
    "anthropic-breakpoint": "claude-sonnet-5-5",
    "block-chain": "vllm-own",
}
#: An engine of one's own: what a computed token costs is ours to say, a read one a tenth of it.
_ENGINE = """
[upstreams.vllm]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[[models]]
id = "vllm-own"
upstream = "vllm"
regime = "block-chain"
block = 16
window = 128_000
max_output = 8_192
price = {{ input = "0.20", cache_read = "0.02", output = "0.80" }}
"""
_EVER = ReportPeriod(first=date(2020, 1, 1), end=date(2100, 1, 1), zone="UTC")
_BY_FEATURE: tuple[Part, ...] = ("feature",)
START = 1_790_000_000.0
_LEARNED_WITHIN_S = 30.0


@dataclass
class TrafficClock:
    """A clock that shows what it was told last.

    Attributes:
        began: When the day began that times are counted from.
        past: Seconds since then.
    """

    began: float = START
    past: float = 0.0

    def __call__(self) -> float:
        return self.began + self.past

    def turn(self) -> None:
        """Begin another day, the day after."""
        self.began += 86_400.0 * (2 + self.past // 86_400.0)
        self.past = 0.0


@dataclass(frozen=True)
class PrefixHarness:
    """A running gateway and its lab.

    Attributes:
        url: The gateway's, up to and including ``/v1``.
        key: A key of its one team.
        clock: The time of both.
    """

    url: str
    key: str
    team: str
    gateway: Gateway
    lab: Simulator
    clock: TrafficClock
    client: httpx.Client = field(
        default_factory=lambda: httpx.Client(trust_env=False, timeout=60, verify=PLAIN)
    )

    def ask(self, body: Mapping[str, Any], *, at: float, feature: str, words: int = 40) -> Any:
        """The answer, about that many words long, to a call made that many seconds into the day."""
        self.clock.past = at
        self.gateway.store.board.refresh()  # it looks every two seconds, and those pass at once
        self.lab.queue_directives([f"words={words}"])
        answer = self.client.post(
            f"{self.url}/chat/completions",
            content=orjson.dumps(body),
            headers={
                "authorization": f"Bearer {self.key}",
                "content-type": "application/json",
                "x-thriftgate-feature": feature,
            },
        )
        assert answer.status_code == 200, answer.text
        self._wait_until_learned()
        return answer.json()

    def _wait_until_learned(self) -> None:
        """Wait until the gateway has learned from the call: minutes pass before the next one."""
        assert isinstance(self.gateway.app, Endpoint)
        planning = self.gateway.app._deps.planning
        assert isinstance(planning, PromptPlanning)
        over = Event()
        planning._learner.submit(over.set)
        assert over.wait(_LEARNED_WITHIN_S)

    def plan(self, feature: str, mode: PlanningMode) -> None:
        """Have the feature planned in this mode from now on."""
        store = self.gateway.store
        store.layouts.switch(LayoutScope(self.team, feature), mode, "test", self.clock())
        store.board.refresh()

    def turn(self) -> None:
        """Begin another day, with every cache of the simulator empty."""
        self.clock.turn()
        models = self.lab.settings.models
        self.lab._caches.update({name: cache_of(model) for name, model in models.items()})

    def spend_by_feature(self) -> dict[str, Spend]:
        """Return what the ledger holds, by feature."""
        store = self.gateway.store
        assert store.drain.flush(30)
        return {str(row.feature): row for row in store.reports.spend(_EVER, _BY_FEATURE)}


@asynccontextmanager
async def simulator_with_clock(folder: Path) -> AsyncIterator[tuple[Simulator, Path, TrafficClock]]:
    """A simulator with a model of every regime, a gateway's catalog for it, and its clock."""
    clock = TrafficClock()
    catalog = folder / "catalog.toml"
    shipped = read_catalog(read({}))
    catalog.write_text(_ENGINE.format(url="http://127.0.0.1:9/v1"))
    models = simulated_models(read_catalog(_settings(folder, catalog)))
    served = without_chat_refusals(models, MODELS.values())
    lab = Simulator(
        SimulatorSettings(models=served, time_scale=0.0), clock=clock, sleep=asyncio.sleep
    )
    async with serving(lab_app(lab)) as url:
        catalog.write_text(redirected_catalog(shipped, url) + _ENGINE.format(url=url))
        yield lab, catalog, clock


def _settings(folder: Path, catalog: Path) -> Settings:
    return Settings(
        folder=folder / "gateway", catalog=catalog, planning=PlanningMode.OFF, control_share=0.0
    )


@asynccontextmanager
async def _hourglass(folder: Path) -> AsyncIterator[PrefixHarness]:
    async with (
        simulator_with_clock(folder) as (lab, catalog, clock),
        app.gateway(_settings(folder, catalog), clock=clock) as running,
        serving(running.app) as url,
    ):
        team = running.store.teams.create("acme", now=START)
        _, key = running.store.teams.create_key(team.id, "first", now=START)
        yield PrefixHarness(url, key, team.id, running, lab, clock)


@contextmanager
def prefix_harness(folder: Path) -> Iterator[PrefixHarness]:
    """A running one."""
    with running_in_thread(lambda: _hourglass(folder)) as harness, harness.client:
        yield harness
