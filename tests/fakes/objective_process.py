"""A process that counts and leads through Redis, for tests with several of them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.store.redis.objective_store import RedisCounters
from tests.fakes.redis_keys import SERVER

ORGANIZATION = "acme"


def open_counters(prefix: str) -> RedisCounters:
    """Return what the processes share."""
    return RedisCounters(SERVER, ORGANIZATION, prefix=prefix, deadline=30.0)


@contextmanager
def objective_process(prefix: str, who: str, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    """A process that asks to lead, counts one good call, and says its epoch or None.

    It does that again for every line it reads.
    """
    command = [sys.executable, "-m", "tests.fakes.objective_process", prefix, who, str(seconds)]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


async def _steer(prefix: str, who: str, seconds: float) -> None:
    store = open_counters(prefix)
    while True:
        epoch = await store.lead(who, seconds)
        now, _ = await store._redis.time()
        await store.add({("calls", now // 10): (1, 0)})
        sys.stdout.write(f"{epoch}\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    asyncio.run(_steer(sys.argv[1], sys.argv[2], float(sys.argv[3])))
