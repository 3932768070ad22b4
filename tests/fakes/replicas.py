"""Two gateways, each a process of its own, that share one store, before one lab."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.store import Store
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.free_port import free_port
from tests.fakes.plain_http import PLAIN
from tests.fakes.prefix_harness import TrafficClock, simulator_with_clock
from tests.fakes.serve_process import ServeProcess, serve_process

#: Nothing is planned but for features that are told to be, and no conversation is left out.
_PLANNING = {"THRIFTGATE_PLANNING": "off", "THRIFTGATE_CONTROL_SHARE": "0"}


class SiblingProcess(ServeProcess):
    """Another process on the first one's database; its journal is its own."""

    def __init__(self, first: ServeProcess, folder: Path) -> None:
        self.folder = folder / "sibling"
        self.folder.mkdir(mode=0o700)
        self.database_url = first.database_url
        self.key = first.key
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._catalog = first._catalog
        self._process = None


@dataclass(frozen=True)
class Replicas:
    """Both gateways running.

    Attributes:
        clock: The simulator's time; the gateways' is the machine's.
        store: What both share, opened once more.
    """

    gateways: Sequence[ServeProcess]
    lab: Simulator
    clock: TrafficClock
    store: Store
    client: httpx.Client

    def upstream_request(
        self, which: int, body: bytes, *, feature: str, now: float
    ) -> tuple[str, bytes]:
        """Path and body of what arrives upstream for a call to that gateway."""
        gateway = self.gateways[which]
        self.clock.past = now
        headers: Mapping[str, Any] = {
            "authorization": f"Bearer {gateway.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": feature,
        }
        answer = self.client.post(
            f"{gateway.url}/v1/chat/completions", content=body, headers=headers
        )
        assert answer.status_code == 200, answer.text
        assert orjson.loads(answer.content)["choices"]
        exchange = self.lab.exchanges[-1]
        return exchange.path, exchange.body

    def place(self, feature: str) -> LayoutScope:
        """A feature of the one team."""
        return LayoutScope(self.store.teams.all()[0].id, feature)


@contextmanager
def replicas(
    folder: Path, database_url: str = "", modes: Mapping[str, PlanningMode] | None = None
) -> Iterator[Replicas]:
    """Two running gateways; SQLite in a file of theirs where no URL is given.

    Args:
        folder: Where they keep what is theirs.
        database_url: What they share.
        modes: How features are planned; those that are not named are not.
    """
    url = database_url or migrated_sqlite(folder / "shared.db")
    with ExitStack() as stack:
        lab, catalog, clock = stack.enter_context(
            running_in_thread(lambda: simulator_with_clock(folder))
        )
        first = stack.enter_context(serve_process(folder, catalog, url))
        second = SiblingProcess(first, folder)
        stack.callback(second.kill)
        store = Store.open(url, folder / "journal")
        stack.callback(store.close, 10)
        client = stack.enter_context(httpx.Client(trust_env=False, timeout=60, verify=PLAIN))
        both = Replicas((first, second), lab, clock, store, client)
        for feature, mode in (modes or {}).items():
            store.layouts.switch(both.place(feature), mode, "test", 0.0)
        for gateway in both.gateways:
            gateway.start(**_PLANNING)
        yield both
