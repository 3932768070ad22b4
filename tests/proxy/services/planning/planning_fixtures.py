"""Planning around a real store, and calls to plan."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from proxy.prefix.planned import Passthrough, Planned
from proxy.prefix.planner import Planner
from proxy.records.call import Call
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.services.planning.planning import PromptPlanning
from proxy.store.errors import StoreError
from proxy.store.store import Store
from tests.fakes.call_dependencies import LoopTasks, call, route
from tests.fakes.databases import migrated_sqlite
from tests.proxy.prefix.planning_requests import NOW, RULES, SECRET, body, conversation_messages

PLACE = LayoutScope("team_1", "chat", "any")
ROUTE = route("openai", regime="openai-interval")
LARGE = RULES * (48 * 1_024 // len(RULES) + 1)
ABOVE = "Call number {}.\n"
AnyStore = TypeVar("AnyStore", bound=Store)
T = TypeVar("T")


def open_store(
    folder: Path, kind: type[AnyStore], mode: PlanningMode = PlanningMode.OBSERVE
) -> AnyStore:
    return kind.open(migrated_sqlite(folder / "thriftgate.db"), folder / "journal", mode)


@contextmanager
def running_planning(
    store: Store, planner: Planner | None = None, **fields: Any
) -> Iterator[PromptPlanning]:
    """Planning on this store; it leaves no conversation alone unless the planner does."""
    given = {"now": lambda: NOW, **fields}
    planning_service = PromptPlanning(
        planner or Planner(SECRET, share=0.0), store, LoopTasks(), **given
    )
    try:
        yield planning_service
    finally:
        planning_service.close()


def chat(turns: int = 0, **fields: Any) -> Call:
    return call(body(*conversation_messages(turns), **fields))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def plan_and_store(planning: PromptPlanning, call: Call) -> Planned:
    """The call, once the store has what was decided for it."""
    planned = await planning.plan(call, ROUTE)
    assert isinstance(planned, Planned)
    async with asyncio.timeout(20):  # each wait of its own is short, for a caller waits with it
        while planning._unstored:
            await planning.wait_until_stored(planned)
    return planned


def as_planned(outcome: Planned | Passthrough) -> Planned:
    assert isinstance(outcome, Planned)
    return outcome


class UnreachableStore(Store):
    """A database that does not answer."""

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        raise StoreError("away")


class SlowStore(Store):
    """A database that answers too late."""

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(3_600)
