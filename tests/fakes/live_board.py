"""The board of a running gateway, asked in time that is set."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from proxy.pages.board_data import LiveBoard
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.errors import StoreError
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.budgets.budget import Budget
from slo.controller.state import ControllerSnapshot
from slo.objectives.objective import Objective
from tests.fakes.admission_harness import NOW
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objective_replicas import tracks
from tests.fakes.receipts import a_receipt

T = TypeVar("T")

LIMIT = 5_000_000_000


def objective_router(*objectives: Objective, **snapshots: ControllerSnapshot) -> ObjectiveRouter:
    """Objectives, and where they stand."""
    router = ObjectiveRouter(tracks(*objectives), two_model_catalog())
    router.snapshots = dict(snapshots)
    return router


def ask_board(
    store: Store,
    question: Callable[[LiveBoard], Awaitable[T]],
    *budgets: Budget,
    **parts: Any,
) -> T:
    """Return what a board says."""

    async def run() -> T:
        options: dict[str, Any] = {"router": None, "counters": None, "now": lambda: NOW}
        board = LiveBoard(store, budgets, **(options | parts))
        return await question(board)

    return asyncio.run(run())


def keep(store: Store, *receipts: Any) -> None:
    """Put receipts into the ledger."""
    inserter(store._engine)(list(receipts))


def spent_by(store: Store, *names: str) -> None:
    """Teams of these names, of which the first spent a dollar, and each other a dollar more."""
    for number, name in enumerate(names):
        team = store.teams.create(name, now=NOW)
        keep(store, a_receipt(number, team=team.id, cost_nanos=10**9 * (number + 1)))


def raise_database_error(*_: Any, **__: Any) -> Any:
    """Return what a database that is away answers."""
    raise StoreError("the database is away")
