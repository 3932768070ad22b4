"""Answers that several gateways may give again, in Redis, bounded by bytes.

All keys of an organisation carry one hash tag, so they lie on one node of a cluster::

    thriftgate:{ORGANISATION}:answers:value:KEY  an answer, which ends by itself
    thriftgate:{ORGANISATION}:answers:ends       sorted set: key → its end in ms
    thriftgate:{ORGANISATION}:answers:sizes      hash: key → bytes
    thriftgate:{ORGANISATION}:answers:bytes      sum of the sizes

Where the sum is over its bound, those that end first go. So the cache never fills a Redis that
counts budgets.
"""

from typing import Final

from redis.exceptions import RedisError

from proxy.store.errors import StoreError
from proxy.store.redis.requests import answer_within, close_client, key_prefix, redis_client

#: Seconds that a call waits for an answer here, before it goes on without.
READ_DEADLINE_S: Final = 0.05
#: Seconds that an answer has to be stored; no call waits for it.
_WRITE_DEADLINE_S: Final = 1.0
#: Answers that go at most for each that is stored.
_MAX_DROPPED: Final = 100

# KEYS: ends, sizes, bytes, value. ARGV: key, value, milliseconds to its end, most bytes, prefix of
# values. Redis tells the time.
_PUT: Final = f"""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local size = #ARGV[2]
local before = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0)
redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], size)
local sum = redis.call('INCRBY', KEYS[3], size - before)
for _ = 1, {_MAX_DROPPED} do
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if not first[1] or (tonumber(first[2]) > now and sum <= tonumber(ARGV[4])) then break end
  local gone = tonumber(redis.call('HGET', KEYS[2], first[1]) or 0)
  redis.call('ZREM', KEYS[1], first[1])
  redis.call('HDEL', KEYS[2], first[1])
  redis.call('DEL', ARGV[5] .. first[1])
  sum = redis.call('DECRBY', KEYS[3], gone)
end
return sum
"""


class RedisAnswers:
    """The answers of one organisation.

    Args:
        max_bytes: Bytes that all of them may take.

    Raises:
        ValueError: If the URL is no such URL.
    """

    def __init__(
        self, url: str, organization: str, max_bytes: int, *, prefix: str = "thriftgate"
    ) -> None:
        self._redis = redis_client(url, retries=0)
        self._prefix = f"{key_prefix(prefix, organization)}answers:"
        self._max_bytes = max_bytes
        self._put = self._redis.register_script(_PUT)

    async def get(self, key: str) -> bytes | None:
        """The answer of a key; None where there is none.

        Raises:
            StoreError: Redis is away, or takes too long.
        """
        try:
            stored = await answer_within(
                self._redis.get(f"{self._prefix}value:{key}"), READ_DEADLINE_S
            )
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreError(f"no answer from Redis: {error!r}") from error
        return stored if isinstance(stored, bytes) else None

    async def put(self, key: str, value: bytes, ttl_s: float) -> int:
        """Store an answer for so long; returns the bytes that all take now.

        Raises:
            StoreError: Redis is away, or takes too long.
        """
        values = f"{self._prefix}value:"
        names = [f"{self._prefix}{name}" for name in ("ends", "sizes", "bytes")]
        lasts_ms = max(round(ttl_s * 1000), 1)
        arguments: list[bytes | str | int] = [key, value, lasts_ms, self._max_bytes, values]
        try:
            taken = await answer_within(
                self._put(keys=[*names, f"{values}{key}"], args=arguments), _WRITE_DEADLINE_S
            )
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreError(f"no answer from Redis: {error!r}") from error
        return int(taken)

    async def aclose(self) -> None:
        """Let go of all connections."""
        await close_client(self._redis)
