"""Requests to Redis that are cancelled."""

import asyncio

import pytest
from redis import RedisError

from proxy.store.redis.requests import close_client, redis_client
from tests.fakes.redis_keys import SERVER

#: Turns of the event loop after which requests are cancelled: more than any of them takes.
_MOST_TURNS = 40


async def _survived_cancellations() -> list[int]:
    """Turns after which a task that asks for ever was cancelled, and went on."""
    client = redis_client(SERVER, retries=0)

    async def ask_for_ever() -> None:
        while True:
            await client.time()

    try:
        await client.time()
        went_on = []
        for turns in range(_MOST_TURNS):
            asking = asyncio.ensure_future(ask_for_ever())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait({asking}, timeout=0.2)
            if not asking.cancelled():
                went_on.append(turns)
                asking.cancel()
        return went_on
    finally:
        await close_client(client)


def test_a_task_that_is_cancelled_in_any_turn_of_a_request_ends_cancelled() -> None:
    try:
        went_on = asyncio.run(_survived_cancellations())
    except RedisError as error:
        pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")

    assert went_on == []
