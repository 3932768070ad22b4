"""Stores of budgets' counters, of each kind in turn."""

from collections.abc import AsyncIterator

import pytest

from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from tests.fakes.reservation_process import open_budget_store


@pytest.fixture
def anyio_backend() -> str:
    """The loop that tests run on."""
    return "asyncio"


@pytest.fixture(params=["private", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn; a module about one kind has its own."""
    return str(request.param)


@pytest.fixture
def trusts_callers() -> bool:
    """True if callers tell the time, not Redis."""
    return True


@pytest.fixture
async def store(
    *, kind: str, trusts_callers: bool, request: pytest.FixtureRequest
) -> AsyncIterator[BudgetStore]:
    """A store that nobody has used yet."""
    if kind == "private":
        yield LocalBudgetStore()
        return
    prefix: str = request.getfixturevalue("redis_prefix")
    store = open_budget_store(prefix, trusts_callers=trusts_callers)
    yield store
    await store.aclose()
