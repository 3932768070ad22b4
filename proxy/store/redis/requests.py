"""The Redis client, its key prefix, and deadlines, for all stores in Redis."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

#: Seconds that letting go of connections may take.
_CLOSE_TIMEOUT_S: Final = 1.0
_DEADLINE_STEPS = 4  # in which a deadline passes


def key_prefix(prefix: str, organization: str) -> str:
    """The prefix of an organisation's keys, with the one hash tag that keeps them on one node.

    Raises:
        ValueError: If a name has braces, or the organisation none.
    """
    if not organization or set("{}") & set(organization + prefix):
        raise ValueError(f"{prefix}:{organization} cannot be part of a Redis key's hash tag")
    return f"{prefix}:{{{organization}}}:"


def redis_client(url: str, *, retries: int) -> Redis:
    """A client that asks so many times more where a connection breaks; nothing is connected yet.

    It has no timeouts of its own, ``answer_within`` sets them: with one, it sends by way of
    ``asyncio.wait_for``, which on Python 3.11 may drop the cancellation of its task.

    Raises:
        ValueError: If the URL is no such URL.
    """
    pool = ConnectionPool.from_url(
        url, retry=Retry(NoBackoff(), retries), protocol=2, socket_timeout=None
    )
    return Redis.from_pool(pool)


async def close_client(redis: Redis) -> None:
    """Let go of all connections, and do not wait long for a Redis that does not answer."""
    with suppress(RedisError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await redis.aclose()


async def answer_within(answer: Awaitable[Any], deadline: float) -> Any:  # noqa: ANN401 - any answer
    """The answer, if it comes within the deadline.

    The deadline passes in steps, each with a turn of the event loop: an answer that lies there
    while the loop was busy elsewhere is no answer missed.

    Raises:
        TimeoutError: It did not come.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def step(left: int) -> None:
            nonlocal timer
            if left:
                timer = loop.call_later(deadline / _DEADLINE_STEPS, step, left - 1)
            else:
                limit.reschedule(loop.time())

        step(_DEADLINE_STEPS)
        try:
            return await answer
        finally:
            timer.cancel()
