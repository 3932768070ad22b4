"""Plans that are played in a room with a dispatcher."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from proxy.store.store import Store
from tests.fakes.dispatcher_harness import OK, DispatcherHarness, dispatcher_harness
from tests.fakes.server import Step


@pytest.fixture
def play(store: Store) -> Callable[..., None]:
    """Runs a plan in a room whose sink answers so."""

    def run(
        plan: Callable[[DispatcherHarness], Coroutine[Any, Any, None]], *answers: Sequence[Step]
    ) -> None:
        async def all_of_it() -> None:
            async with dispatcher_harness(store, answers or [OK]) as room:
                await plan(room)

        asyncio.run(all_of_it())

    return run
