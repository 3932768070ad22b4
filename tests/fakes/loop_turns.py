"""Counts how often the loop gets to other calls while one is worked on."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def with_loop_turns(work: Awaitable[T]) -> tuple[T, int]:
    """The result of the work, and the number of turns that others had meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(others())
    try:
        return await work, turns
    finally:
        running.cancel()
