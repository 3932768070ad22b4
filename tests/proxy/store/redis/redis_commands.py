"""The commands that Redis runs for a store."""

from collections.abc import Awaitable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.crc import key_slot

from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.objective_store import RedisCounters
from tests.fakes.redis_keys import SERVER


async def commands_of(
    store: RedisBudgetStore | RedisCounters, work: Awaitable[Any]
) -> Sequence[Sequence[str]]:
    """The commands that Redis ran for the work: what was sent, then what its scripts called."""
    commands: list[list[str]] = []
    async with Redis.from_url(SERVER) as other, other.monitor() as monitor:
        await work
        await store._redis.echo(f"{store._keys}end")
        while True:
            command = (await monitor.next_command())["command"].split(" ")
            if command == ["ECHO", f"{store._keys}end"]:
                return commands
            if any(store._keys in word for word in command):
                commands.append(command)


async def touched_keys(store: RedisBudgetStore | RedisCounters, work: Awaitable[Any]) -> int:
    """The number of times that scripts touched a key, each one that they were given.

    The keys that one script is given lie in one slot.
    """
    given: set[str] = set()
    touched = 0
    for command, *words in await commands_of(store, work):
        if command == "EVALSHA":
            given = set(words[2 : 2 + int(words[1])])
            assert len({key_slot(key.encode()) for key in given}) == 1
        elif command not in {"SCRIPT", "EVAL"}:
            assert words[0] in given
            touched += 1
    return touched
