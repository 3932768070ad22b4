"""Keys of a test's own on the Redis server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from redis import Redis

SERVER = os.environ.get("THRIFTGATE_TEST_REDIS", "redis://127.0.0.1:6379/9")  # noqa: TID251 - a test's own setting


@contextmanager
def prefix() -> Iterator[str]:
    """Yields a prefix for the keys of one test; only these keys are deleted afterwards.

    Raises:
        redis.RedisError: If there is no server, or one that does not answer.
    """
    name = f"thriftgate_{token_hex(6)}"
    with Redis.from_url(SERVER, socket_connect_timeout=3, socket_timeout=3) as server:
        server.ping()
        try:
            yield name
        finally:
            for key in server.scan_iter(match=f"{name}*", count=10_000):
                server.delete(key)
