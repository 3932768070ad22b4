"""Keys of one's own in Redis."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from tests.fakes.redis_keys import SERVER, prefix


@pytest.fixture
def redis_prefix() -> Iterator[str]:
    """The prefix of this test's keys on the Redis server."""
    with ExitStack() as stack:
        try:
            name = stack.enter_context(prefix())
        except redis.RedisError as error:
            pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")
        yield name
