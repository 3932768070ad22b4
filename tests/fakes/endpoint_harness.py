"""An endpoint with fakes behind it: keys, body memory, dependencies and an upstream."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from proxy.api.connections.body_limits import BodyMemoryLimit
from proxy.api.endpoint import Endpoint, EndpointDependencies
from proxy.catalog.families import UnlistedModels
from proxy.records.call import Key
from proxy.records.receipt import Receipt
from tests.fakes.answers import ASKED, COMPLETION
from tests.fakes.asgi import AsgiConnection, answer_of_app, nothing, refusal, scope
from tests.fakes.call_dependencies import KEY, fake_dependencies
from tests.fakes.clock import run_in_instant_time
from tests.fakes.upstream import JSON, FakeTransport, Piece, ScriptedAnswer

KEYS = {
    "tg-1": KEY,
    "tg-3": msgspec.structs.replace(KEY, id="key_3", team="team_3"),
    "tg-expired": msgspec.structs.replace(KEY, expires=1_790_000_000.0),
    "tg-limited": msgspec.structs.replace(KEY, models=frozenset({"other"})),
    "tg-revoked": msgspec.structs.replace(KEY, revoked=True),
}
SECRETS = {"tg-2": msgspec.structs.replace(KEY, id="key_2", feature="")}
#: The answer of an upstream that has deleted or changed something.
GONE = ScriptedAnswer([b"{}"], headers=JSON)


@dataclass
class FakeKeys:
    """Some keys are known at once, some only to the database."""

    teams: int = 1

    def find(self, token: str) -> Key | None:
        return KEYS.get(token)

    async def fetch(self, token: str) -> Key | None:
        await asyncio.sleep(0)
        return SECRETS.get(token)


@dataclass
class EndpointHarness:
    """An endpoint with fakes behind it."""

    scripts: tuple[ScriptedAnswer | Piece, ...] = (ScriptedAnswer([COMPLETION]),)
    teams: int = 1
    trouble: str = ""
    shared: bool = False
    max_calls: int = 2
    body: int = 1000
    bodies: int = 2000
    passing: UnlistedModels = field(default_factory=UnlistedModels)
    receipts: list[Receipt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = BodyMemoryLimit(per_body=self.body, all_together=self.bodies)
        self.transport = FakeTransport(self.scripts)
        table, ledger = fake_dependencies(self.transport)
        table = replace(table, catalog=replace(table.catalog, passing=self.passing))
        self.receipts = ledger.receipts
        door = EndpointDependencies(
            keys=FakeKeys(self.teams),
            capacity_trouble=lambda: self.trouble,
            now=lambda: 1_790_000_000.0,
            ticks=lambda: 0.0,
            call_id=lambda second: f"call_{second:.0f}",
            body_memory=self.room,
            max_calls=self.max_calls,
            shared_state=self.shared,
        )
        self.front = Endpoint(nothing, table, door)

    def ask(self, body: bytes | AsgiConnection = ASKED, *args: Any, **head: Any) -> AsgiConnection:
        connection = body if isinstance(body, AsgiConnection) else AsgiConnection([body])
        return run_in_instant_time(answer_of_app(self.front, scope(*args, **head), connection))


def endpoint_refusal(
    body: bytes | AsgiConnection = ASKED, harness: EndpointHarness | None = None, **head: Any
) -> Any:
    """Return how the front refuses this, the status in front; nothing is sent upstream."""
    harness = harness or EndpointHarness()
    connection = harness.ask(body, **head)
    error = refusal(connection)
    assert harness.transport.sent == []
    return connection.status, error["code"], error["param"]
