"""Stores of budgets' counters, of each kind in turn."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex

import pytest

from proxy.store.ports import BudgetStore
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from tests.fakes.redis_keys import SERVER

Make = Callable[[], BudgetStore]
Story = Callable[[BudgetStore], Awaitable[None]]


@pytest.fixture(params=["private", "redis"])
def make_store(request: pytest.FixtureRequest) -> Make:
    """Makes a store nobody has used yet, of each kind in turn."""
    if request.param == "private":
        return LocalBudgetStore
    prefix: str = request.getfixturevalue("redis_prefix")
    return lambda: RedisBudgetStore(
        SERVER, token_hex(4), prefix=prefix, deadline=30.0, trusts_callers=True
    )


@pytest.fixture
def play_store(make_store: Make) -> Callable[[Story], None]:
    """Plays a story with a store of its own."""

    async def play(story: Story) -> None:
        store = make_store()
        try:
            await story(store)
        finally:
            await store.aclose()

    return lambda story: asyncio.run(play(story))
