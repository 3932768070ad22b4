"""Counts and states of objectives that replicas share in Redis.

One operation is one command or Lua script and one round trip, or several where much is added or
read at once. All keys of an organisation carry one hash tag, so they lie on one node of a
cluster::

    thriftgate:{ORGANISATION}:steering:slot:NUMBER  hash: key → bad x 2^32 + good
    thriftgate:{ORGANISATION}:steering:lease        hash: who, ends in ms, epoch
    thriftgate:{ORGANISATION}:steering:told         hash: epoch, said → every snapshot, as msgpack

Redis tells the time, so that replicas whose clocks differ agree on who leads, and one whose clock
is an hour off adds nothing. Good and bad share a number because that halves what is added, kept and
read; it holds as long as no slot sees 2^32 events, 400 million a second. A slot goes by itself two
hours after its end; lease and snapshots stay, a key each.

An epoch is the time in milliseconds, or one more than the last where that is more: so it grows even
where Redis lost what it knew, as long as its clock is not put back as well.

A script adds at most 250 increments or reads 500 counts, about a millisecond of Redis's time and of
this process's: neither does anything else meanwhile.

Source: Redis documentation, "Scripting with Lua" and "Redis cluster specification" (7.0).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from proxy.store.errors import StoreError
from proxy.store.ports import Cell, Count
from proxy.store.redis.objective_state import (
    MAX_CLOCK_SKEW_S,
    MAX_KEYS,
    MAX_LEASE_S,
    RETENTION_S,
    check_epoch,
    check_lease,
    check_states,
    nonzero_increments,
    retains_slot,
    slots_to_read,
)
from proxy.store.redis.requests import answer_within, close_client, key_prefix, redis_client
from slo.budgets.tally import SLOT_S

DEADLINE_S: Final = 0.5
"""Seconds after which a Redis that has not answered is lost; nobody's call waits for it."""

_INCREMENTS_PER_SCRIPT = 250  # increments of one script; see the module
_COUNTS_PER_SCRIPT = 500  # counts of one script
_BAD_UNIT: Final = 2**32

# ARGV: now in ms or '', then the operation's own. Numbers stay below 2^53 wherever Lua counts.
_HEAD: Final = f"""
local SLOT, KEPT = {SLOT_S * 1000:.0f}, {RETENTION_S * 1000:.0f}
local DRIFT = {MAX_CLOCK_SKEW_S * 1000:.0f}
local LEASE, MOST = {MAX_LEASE_S * 1000:.0f}, {MAX_KEYS}
local call = redis.call

local function time()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local now = time()
"""

# KEYS: slots. ARGV[2..]: the slots' numbers; then slot's place in KEYS, key and bad x 2^32 + good
# of each increment, added by Redis as int64.
_ADD: Final = """
local taken = {}
for i = 1, #KEYS do taken[i] = math.abs(ARGV[i + 1] * SLOT - now) <= DRIFT end
for at = #KEYS + 2, #ARGV, 3 do
  local i, key = tonumber(ARGV[at]), ARGV[at + 1]
  local slot = KEYS[i]
  if taken[i] and (call('HLEN', slot) < MOST or call('HEXISTS', slot, key) == 1) then
    call('HINCRBY', slot, key, ARGV[at + 2])
  end
end
for i, slot in ipairs(KEYS) do
  if taken[i] then call('PEXPIRE', slot, (ARGV[i + 1] + 1) * SLOT + KEPT - now) end
end
"""

# KEYS: slots. ARGV[2..]: keys. Returns now in ms, and the counts of each slot in one string: a
# client reads one string faster than as many as there are counts.
_CELLS: Final = """
local found = {tostring(now)}
for i, slot in ipairs(KEYS) do
  local counts = {}
  if call('EXISTS', slot) == 1 then
    counts = call('HMGET', slot, unpack(ARGV, 2))
    for j, count in ipairs(counts) do counts[j] = count or '0' end
  end
  found[i + 1] = table.concat(counts, ' ')
end
return found
"""

# KEYS: lease. ARGV[2..]: who, ms. Returns the epoch, or nil. A lease that ends later than any can
# was taken before Redis's clock was put back.
_LEAD: Final = """
local who, ends, epoch = unpack(call('HMGET', KEYS[1], 'who', 'ends', 'epoch'))
ends, epoch = tonumber(ends or 0), tonumber(epoch or 0)
if ends > now and ends <= now + LEASE then
  if who ~= ARGV[2] then return nil end
else
  epoch = math.max(epoch + 1, now)
end
call('HSET', KEYS[1], 'who', ARGV[2], 'ends', now + ARGV[3], 'epoch', epoch)
return epoch
"""

# KEYS: lease, told. ARGV[2..]: epoch, every snapshot. Returns 1, or 0 if a newer epoch has begun.
_PUBLISH: Final = """
local epoch, last = tonumber(ARGV[2]), tonumber(call('HGET', KEYS[1], 'epoch') or 0)
if epoch < last then return 0 end
if epoch > last then
  call('HDEL', KEYS[1], 'who', 'ends')
  call('HSET', KEYS[1], 'epoch', epoch)
end
call('HSET', KEYS[2], 'epoch', epoch, 'said', ARGV[3])
return 1
"""

_Said = msgspec.msgpack.Decoder(dict[str, bytes])


class RedisCounters:
    """Counts and states that the replicas of one organisation share in Redis.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``; nothing is connected yet.
        organization: Whose; a name without braces.
        deadline: Seconds after which an operation that Redis has not answered, or had no turn to
            be asked, is lost.
        clock: Tells the time in Redis's place. For tests: with it, replicas whose clocks differ do
            not agree.

    Raises:
        ValueError: If the URL is no such URL, or a name has braces.
    """

    is_shared = True

    def __init__(
        self,
        url: str,
        organization: str,
        *,
        prefix: str = "thriftgate",
        deadline: float = DEADLINE_S,
        connections: int = 4,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._keys = f"{key_prefix(prefix, organization)}steering:"
        self._deadline = deadline
        self._clock = clock
        self._turns = asyncio.Semaphore(connections)
        self._redis = redis_client(url, retries=0)  # asked twice, Redis would add twice
        self._add = self._redis.register_script(_HEAD + _ADD)
        self._cells = self._redis.register_script(_HEAD + _CELLS)
        self._lead = self._redis.register_script(_HEAD + _LEAD)
        self._publish = self._redis.register_script(_HEAD + _PUBLISH)

    async def add(self, increments: Mapping[Cell, Count]) -> None:
        """Add so many good and bad to each key's count in a slot."""
        cells = list(nonzero_increments(increments).items())

        async def work() -> None:
            for start in range(0, len(cells), _INCREMENTS_PER_SCRIPT):
                await self._add_some(cells[start : start + _INCREMENTS_PER_SCRIPT])

        await self._within_turn(work)

    async def _add_some(self, cells: Sequence[tuple[Cell, Count]]) -> None:
        numbers = list({number for (_, number), _ in cells})
        places = {number: place for place, number in enumerate(numbers, 1)}
        counts = [
            word
            for (key, number), (good, bad) in cells
            for word in (places[number], key, bad * _BAD_UNIT + good)
        ]
        slots = [f"slot:{number}" for number in numbers]
        await self._run(self._add, slots, *numbers, *counts)

    async def read(self, keys: Collection[str], first: int, last: int) -> Mapping[Cell, Count]:
        """Reads what all replicas counted in these slots, both ends included."""
        slots = slots_to_read(keys, first, last)
        if not keys:
            return {}
        at_once = max(1, _COUNTS_PER_SCRIPT // len(keys))
        cells: dict[Cell, Count] = {}

        async def work() -> None:
            for start in range(0, len(slots), at_once):
                cells.update(await self._read_some(list(keys), slots[start : start + at_once]))

        await self._within_turn(work)
        return cells

    async def _read_some(self, keys: Sequence[str], slots: range) -> Mapping[Cell, Count]:
        names = [f"slot:{number}" for number in slots]
        now, *cells = await self._run(self._cells, names, *keys)
        return {
            (key, number): (int(count) % _BAD_UNIT, int(count) // _BAD_UNIT)
            for number, counts in zip(slots, cells, strict=True)
            if retains_slot(number, int(now) / 1000)
            for key, count in zip(keys, counts.split(), strict=False)
            if count != b"0"
        }

    async def lead(self, who: str, seconds: float) -> int | None:
        """The epoch under which ``who`` leads from now on, None where somebody else leads."""
        check_lease(who, seconds)
        epoch: int | None = await self._ask(self._lead, ["lease"], who, _ms(seconds))
        return epoch

    async def publish(self, epoch: int, snapshots: Mapping[str, bytes]) -> bool:
        """Publish the states; earlier ones are replaced as a whole."""
        check_epoch(epoch)
        check_states(snapshots)
        encoded = msgspec.msgpack.encode(snapshots)
        return bool(await self._ask(self._publish, ["lease", "told"], epoch, encoded))

    async def snapshots(self) -> tuple[int, Mapping[str, bytes]]:
        """The states published last, and their epoch."""
        key = f"{self._keys}told"
        epoch, encoded = await self._within_turn(lambda: self._redis.hmget(key, ["epoch", "said"]))
        if epoch is None or encoded is None:
            return 0, {}
        try:
            return int(epoch), _Said.decode(encoded)
        except ValueError as error:
            raise StoreError(f"{key} in Redis is no valid state of objectives: {error}") from error

    async def aclose(self) -> None:
        """Let go of all connections, and do not wait long for a Redis that does not answer."""
        await close_client(self._redis)

    async def _ask(
        self, script: AsyncScript, keys: Sequence[str], *arguments: str | bytes | int
    ) -> Any:  # noqa: ANN401 - what a script returns is its own
        """Runs one script; returns its answer."""
        return await self._within_turn(lambda: self._run(script, keys, *arguments))

    async def _run(
        self, script: AsyncScript, keys: Sequence[str], *arguments: str | bytes | int
    ) -> Any:  # noqa: ANN401 - what a script returns is its own
        time = "" if self._clock is None else _ms(self._clock())
        return await script(keys=[self._keys + key for key in keys], args=(time, *arguments))

    async def _within_turn(self, work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any answer
        """Awaits the work once it has its turn."""

        async def in_turn() -> Any:  # noqa: ANN401 - any answer
            async with self._turns:
                return await work()

        try:
            return await answer_within(in_turn(), self._deadline)
        except TimeoutError as error:
            raise StoreError(f"Redis did not answer within {self._deadline} s") from error
        except (RedisError, OSError) as error:
            raise StoreError(f"Redis cannot be asked: {error}") from error


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
