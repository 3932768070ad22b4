"""A gateway with policies before a simulator, on real sockets, in virtual time.

Two models: ``big``, which callers ask for, and ``small``. Gateway, lab and callers share one loop,
whose time is the only one there is (see ``virtual_clock``); threads and disks take none of it.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import orjson
from sqlalchemy import select

from proxy.api.endpoint import Endpoint
from proxy.app import Gateway
from proxy.records.feature_mode import PlanningMode
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger import receipt_ledger
from proxy.store.sql.receipt_columns import receipt_from_row
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from slo.alert import Alert
from slo.price import call_cost
from tests.fakes.gateway_fixture import served_gateway
from tests.fakes.http_caller import HttpCaller
from tests.fakes.plain_http import PLAIN

START = 1_790_000_000.0
MODELS: Mapping[str, SimulatedModel] = {
    "big": SimulatedModel(regime="", ttft=0.20, per_1k=0.0, itl=0.001),
    "small": SimulatedModel(regime="", ttft=0.14, per_1k=0.0, itl=0.001),
}
CATALOG = """
default = "lab"

[upstreams.lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[upstreams.other]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[[models]]
id = "big"
upstream = "lab"
window = 128_000
max_output = 8_192
price = {{ input = "2", output = "10" }}
{more}
[[models]]
id = "small"
upstream = "lab"
window = 128_000
max_output = 8_192
price = {{ input = "0.2", output = "1" }}
"""


class LogRecorder(logging.Handler):
    """Collects what the gateway logs, and when.

    Attributes:
        lines: The time, who said it, and what.
        worse: What is worse than a warning, with its traceback.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[float, str, str]] = []
        self.worse: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        second = asyncio.get_running_loop().time() if _runs() else float("nan")
        self.lines.append((second, record.name, record.getMessage()))
        if record.levelno > logging.WARNING:
            self.worse.append(self.format(record))


@dataclass(frozen=True)
class VirtualGateway:
    """A gateway in virtual time, for one story.

    Attributes:
        key: A key of its one team.
        clock: Seconds since the epoch, as the gateway's clock says.
        said: The log.
    """

    url: str
    key: str
    team: str
    gateway: Gateway
    lab: Simulator
    http_caller: HttpCaller
    clock: "WallClock"
    said: LogRecorder = field(default_factory=LogRecorder)

    def receipts(self) -> list[Receipt]:
        """All that the ledger holds, by call and attempt."""
        store = self.gateway.store
        assert store.drain.flush(30)
        calls = schema.calls.c
        query = receipt_ledger._RECEIPTS.where(calls.team == self.team)
        with read_transaction(store.ledger._engine) as connection:
            rows = connection.execute(query.order_by(calls.call_id, calls.attempt))
            return [receipt_from_row(row[:-1], row[-1]) for row in rows]

    def finals(self) -> dict[str, str]:
        """Return why each call was rerouted, by its id, as its one final receipt says."""
        store, calls = self.gateway.store, schema.calls.c
        assert store.drain.flush(30)
        with read_transaction(store.ledger._engine) as connection:
            rows = connection.execute(
                select(calls.call_id, calls.reroute_reason).where(calls.final)
            ).all()
        receipts = {call: moved or "" for call, moved in rows}
        assert len(receipts) == len(rows)
        return receipts

    def alerts(self) -> list[Alert]:
        """All that was told, in the order it began."""
        with read_transaction(self.gateway.store.outbox._engine) as connection:
            texts = connection.execute(select(schema.alerts.c.text)).scalars()
            alerts = [msgspec.json.decode(text, type=Alert) for text in texts]
        return sorted(alerts, key=lambda alert: alert.began)

    def moves(self) -> list[tuple[float, str]]:
        """Return when objectives moved, and what the log said of it."""
        return [
            (second, line)
            for second, name, line in self.said.lines
            if name == "thriftgate.objectives"
            and " is " in line
            and not re.search(r" is (missed:|no longer missed)", line)
        ]

    def breaker(self, model: str) -> str:
        """Return what the breaker of a model's first route does with calls."""
        front = self.gateway.app
        assert isinstance(front, Endpoint)
        lane = front._deps.route_health.health_of(self.gateway.catalog.models[model].routes[0])
        return lane.breaker.state(asyncio.get_running_loop().time()).value

    def charged_nanos(self) -> int:
        """Nano-dollars that the simulator charged in all."""
        total = 0
        for exchange in self.lab.exchanges:
            if exchange.usage is not None:
                tariff = (
                    self.gateway.catalog.models[orjson.loads(exchange.body)["model"]]
                    .routes[0]
                    .tariff
                )
                assert tariff is not None
                paid = call_cost(exchange.usage, tariff, START)
                assert paid is not None
                total += paid.effective_nanos
        return total

    async def metrics(self) -> dict[str, float]:
        """Return what the gateway tells Prometheus, by name and labels."""
        async with httpx.AsyncClient(trust_env=False, timeout=60, verify=PLAIN) as client:
            page = (await client.get(self.url.removesuffix("/v1") + "/metrics")).text
        rows = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}


@dataclass
class WallClock:
    """The clock on the gateway's wall, which can jump; threads read it, too.

    Attributes:
        ahead: Seconds by which it is wrong.
    """

    loop: asyncio.AbstractEventLoop
    ahead: float = 0.0

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return START + self.loop.time() + self.ahead


@asynccontextmanager
async def virtual_gateway(
    folder: Path,
    policies: str,
    *,
    more: str = "",
    routes: str = 'upstream = "lab"',
    **settings: Any,
) -> AsyncIterator[VirtualGateway]:
    """A running one, until left.

    Args:
        folder: Where it keeps what is its own.
        policies: The policies file.
        more: What the catalog says of ``big`` besides.
        routes: What it says of the way there.
        settings: The gateway's.
    """
    loop = asyncio.get_running_loop()
    clock = WallClock(loop)
    lab = Simulator(
        SimulatorSettings(models=MODELS, keepalive=5.0, max_records=100_000),
        clock=loop.time,
        sleep=asyncio.sleep,
    )
    (folder / "policies.toml").write_text(policies)
    async with serving(app(lab)) as upstream:
        catalog = CATALOG.format(url=upstream, more=more).replace('upstream = "lab"', routes, 1)
        (folder / "catalog.toml").write_text(catalog)
        chosen = Settings(
            folder=folder / "gateway",
            catalog=folder / "catalog.toml",
            policies=folder / "policies.toml",
            planning=PlanningMode.OFF,
            **settings,
        )
        async with served_gateway(chosen, now=START, clock=clock, ticks=loop.time) as served:
            http_caller = HttpCaller(served.url, served.key)
            fixture = VirtualGateway(**vars(served), lab=lab, http_caller=http_caller, clock=clock)
            with _log_to(fixture.said):
                yield fixture
            await http_caller.close()


@contextmanager
def _log_to(recorder: LogRecorder) -> Any:
    log = logging.getLogger("thriftgate")
    before, log.level = log.level, logging.INFO
    log.addHandler(recorder)
    try:
        yield
    finally:
        log.removeHandler(recorder)
        log.level = before


def _runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def question(
    number: int, messages: Sequence[Mapping[str, str]] = (), cue: str = ""
) -> dict[str, Any]:
    """A streamed call of a few words to ``big``.

    Args:
        number: Tells it from others.
        messages: What was said before.
        cue: What the simulator is to do with it.
    """
    words = f"[[fault:words=2{',' if cue else ''}{cue}]] Question {number}?"
    return {
        "model": "big",
        "stream": True,
        "max_completion_tokens": 4,
        "messages": [*messages, {"role": "user", "content": words}],
    }
