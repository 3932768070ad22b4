"""A gateway whose streams may have drafts, before a simulator of a slow and a quick model."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from proxy.records.receipt import Receipt
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import SimulatedExchange, Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import ServedGateway, gateway_before_models
from tests.fakes.plain_http import PLAIN

DRAFT_TTFT_S = 0.05
_SLOW: dict[str, Any] = {"regime": "", "ttft": 0.5, "per_1k": 0.0, "itl": 0.0}
_QUICK: dict[str, Any] = {"regime": "", "ttft": DRAFT_TTFT_S, "per_1k": 0.0, "itl": 0.002}
MODELS = {
    "slow-gpt": SimulatedModel(**_SLOW),
    "slow-claude": SimulatedModel(**_SLOW, wire="anthropic"),
    "quick-gpt": SimulatedModel(**_QUICK),
}
CATALOG = """
[upstreams.lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}
bills_abandoned = false

[upstreams.claude-lab]
kind = "anthropic"
base_url = "{url}"
headers = {{ x-api-key = "sk-simulated" }}
bills_abandoned = false

[[models]]
id = "large"
price = {{ input = "5", output = "25" }}
window = 100000
max_output = 4096
upstream = "lab"
model = "slow-gpt"

[[models]]
id = "claude"
price = {{ input = "5", output = "25" }}
window = 100000
max_output = 4096
upstream = "claude-lab"
model = "slow-claude"

[[models]]
id = "small"
price = {{ input = "0.3", output = "1.2" }}
window = 100000
max_output = 4096
upstream = "lab"
model = "quick-gpt"
"""


@dataclass(frozen=True)
class DraftedGateway(ServedGateway):
    """A running gateway and the simulator behind it."""

    lab: Simulator
    client: httpx.Client

    def exchange(self, model: str) -> SimulatedExchange:
        """The last request to a model of the simulator."""
        name = f'"{model}"'.encode()
        return next(one for one in reversed(self.lab.exchanges) if name in one.body)

    def settled_receipts(self, call_id: str, count: int) -> list[Receipt]:
        """The receipts of a call, once there are so many."""
        until = time.monotonic() + 10
        while len(receipts := self.receipts(call_id)) < count and time.monotonic() < until:
            time.sleep(0.02)
        return receipts


@asynccontextmanager
async def _opened(
    folder: Path, policies: str, settings: dict[str, Any]
) -> AsyncIterator[DraftedGateway]:
    running = gateway_before_models(MODELS, folder, CATALOG, policies, settings)
    async with running as (served, lab):
        headers = {"x-api-key": served.key, "x-thriftgate-trailer": "1"}
        with httpx.Client(verify=PLAIN, timeout=30, headers=headers) as client:
            yield DraftedGateway(**vars(served), lab=lab, client=client)


@contextmanager
def drafted_gateway(folder: Path, policies: str = "", **settings: Any) -> Iterator[DraftedGateway]:
    """A running one; its settings are the gateway's, as keyword arguments."""
    with running_in_thread(lambda: _opened(folder, policies, settings)) as fixture:
        yield fixture
