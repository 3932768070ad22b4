# ruff: noqa: T201 - a script prints its result
"""Kill -9 of a gateway under load, again and again: what was delivered, what the ledger holds.

Usage: python -m tests.bench.kill [--kills 10] [--postgres] [--answers]
"""

import argparse
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from redis import Redis

from proxy.fast_path.answer_cache.cached_answer import CachedAnswer, decode_answer
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.ledger_check import LedgerCheck, check_ledger
from tests.fakes.load import Load
from tests.fakes.postgres import schema
from tests.fakes.redis_server import OwnRedis, own_redis
from tests.fakes.serve_process import ServeProcess, serve_process

_POLICY = '[[answer_cache]]\nname = "all"\nreusable = true\n'
#: Questions that all callers ask, so that most calls are hits, and some are shared.
_QUESTIONS = 40


def kill_under_load(
    folder: Path,
    database_url: str = "",
    *,
    kills: int = 2,
    between: float = 0.6,
    pause: float = 0.0,
    seed: int = 1,
) -> tuple[Load, LedgerCheck]:
    """The load and the reckoning after so many kills, each a while after a start.

    Args:
        folder: Where the gateway keeps what is its own.
        database_url: Its ledger; SQLite where none is given.
        kills: How often it is killed.
        between: The most seconds under load before it is.
        pause: Seconds a caller waits between two calls.
        seed: When it is killed.
    """
    chance = random.Random(seed)  # noqa: S311 - when to kill is no secret
    with (
        running_in_thread(lambda: running_simulator(folder, time_scale=0.02)) as (_, catalog),
        serve_process(folder, catalog, database_url) as gateway,
    ):
        gateway.start()
        load = Load(gateway.url, gateway.key, pause=pause)
        with load.running():
            for _ in range(kills):
                _kill_once(gateway, load, between * chance.random())
                gateway.start()
        gateway.stop()
        return load, check_ledger(gateway, load)


def kill_sharing_answers(
    folder: Path, redis: OwnRedis, *, kills: int = 2, between: float = 0.6, pause: float = 0.0
) -> tuple[Load, LedgerCheck, list[CachedAnswer | None]]:
    """The same, and a kill more, with answers in Redis, which is killed each time, too.

    Returns:
        Also the answers in Redis; None for one that cannot be read.
    """
    chance = random.Random(1)  # noqa: S311 - when to kill is no secret
    (folder / "policies.toml").write_text(_POLICY)
    settings = {
        "THRIFTGATE_POLICIES": str(folder / "policies.toml"),
        "THRIFTGATE_REDIS_URL": redis.url,
    }
    with (
        running_in_thread(lambda: running_simulator(folder, time_scale=0.02)) as (_, catalog),
        serve_process(folder, catalog) as gateway,
    ):
        gateway.start(**settings)
        load = Load(gateway.url, gateway.key, pause=pause, questions=_QUESTIONS)
        with load.running():
            for _ in range(kills):
                _kill_once(gateway, load, between * chance.random())
                redis.kill()
                gateway.start(**settings)
                _wait_for_more(load)
                redis.start()
                _wait_for_more(load)
            _kill_once(gateway, load, between * chance.random())
            stored = _stored_answers(redis)
            gateway.start(**settings)
            _wait_for_more(load)
        gateway.stop()
        return load, check_ledger(gateway, load), stored


def _kill_once(gateway: ServeProcess, load: Load, seconds: float) -> None:
    """Kill a gateway so long after its callers got some answers."""
    _wait_for_more(load)
    time.sleep(seconds)
    gateway.kill()


def _wait_for_more(load: Load) -> None:
    """Wait until callers got some more answers."""
    before = len(load.delivered)
    while len(load.delivered) < before + 50:
        time.sleep(0.01)


def _stored_answers(redis: OwnRedis) -> list[CachedAnswer | None]:
    """The answers in a Redis."""
    with Redis.from_url(redis.url) as client:
        keys = client.scan_iter(match="*answers:value:*")
        return [decode_answer(client.get(key) or b"") for key in keys]


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--answers", action="store_true", help="shared in Redis, killed too")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(schema()) if options.postgres else ""
        began = time.monotonic()
        if options.answers:
            redis = stack.enter_context(own_redis(folder))
            load, result, stored = kill_sharing_answers(
                folder, redis, kills=options.kills, between=3.0
            )
            print(f"{load.hits} hits; {len(stored)} answers in Redis, {stored.count(None)} torn")
        else:
            load, result = kill_under_load(folder, url, kills=options.kills, between=3.0)
        print(
            f"{options.kills} kills in {time.monotonic() - began:.0f} s"
            f" ({'PostgreSQL' if url else 'SQLite'}): {result.delivered} delivered,"
            f" {load.broken} broken off, {result.kept} in the ledger,"
            f" {len(result.lost)} lost, {result.doubled} doubled,"
            f" {len(result.adrift)} sums adrift, {result.undrained} segments undrained"
        )


if __name__ == "__main__":
    main()
