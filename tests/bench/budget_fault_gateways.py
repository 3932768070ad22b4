"""Gateways with budgets in one Redis, and their ledger and counters, read beside them."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path

from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.store import Store
from slo.budgets.counter import CounterLevel
from tests.fakes.background_loop import running_in_thread
from tests.fakes.budget_gateway import DEAR
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.replicas import SiblingProcess
from tests.fakes.serve_process import ServeProcess, serve_process

#: Calls of ten cents in half of five dollars.
HALF = 25
NANOS = 1_000_000_000


class Ledger:
    """The ledger and the counters of a gateway, read beside it."""

    def __init__(self, gateway: ServeProcess, redis_url: str) -> None:
        self.store = Store.open(gateway.database_url, gateway.folder / "beside")
        self._redis_url = redis_url

    def spend_by_team(self) -> dict[str, int]:
        """Nano-dollars of each team."""
        spent = self.store.spendings.from_rollups("team", 0, 2e10)
        return {team: sums.nanos for team, sums in spent.items()}

    def open_counters(self, *, trusts_callers: bool = False) -> RedisBudgetStore:
        """Its counters; on a machine with load they may answer later than a gateway waits."""
        organization = blake2b(self.store.secret, digest_size=8).hexdigest()
        return RedisBudgetStore(
            self._redis_url, organization, deadline=10.0, trusts_callers=trusts_callers
        )

    def levels(self, names: Sequence[str]) -> list[CounterLevel]:
        """Return what the counters of these names' first parts say, wherever their windows are."""
        return asyncio.run(self.counter_levels(names))

    async def counter_levels(self, names: Sequence[str]) -> list[CounterLevel]:
        """The same, on a loop that runs."""
        counters = self.open_counters()
        now = time.time()  # noqa: TID251 - the gateway's windows are the machine's
        try:
            levels = [
                (
                    await counters.levels(await counters.counters_from(f"{name}/", 1), now)
                    or [CounterLevel(0, 0)]
                )[0]
                for name in names
            ]
        finally:
            await counters.aclose()
        return levels


@contextmanager
def gateways(
    folder: Path, budgets: str, redis_url: str, *, count: int
) -> Iterator[list[ServeProcess]]:
    """So many gateways on one ledger and one Redis, before one lab."""
    (folder / "policies.toml").write_text(budgets)
    with ExitStack() as stack:
        _, catalog = stack.enter_context(
            running_in_thread(partial(running_simulator, folder, time_scale=0.0001))
        )
        catalog.write_text(catalog.read_text() + DEAR)
        made = [stack.enter_context(serve_process(folder, catalog))]
        for number in range(1, count):
            (folder / f"{number}").mkdir()
            made.append(SiblingProcess(made[0], folder / f"{number}"))
            stack.callback(made[-1].kill)
        for gateway in made:
            gateway.start(
                THRIFTGATE_POLICIES=f"{folder / 'policies.toml'}", THRIFTGATE_REDIS_URL=redis_url
            )
        yield made
