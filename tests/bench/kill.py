# ruff: noqa: T201 - a script prints its result
"""Kill -9 of a gateway under load, again and again: what was delivered, what the ledger holds.

Usage: python -m tests.bench.kill [--kills 10] [--postgres]
"""

import argparse
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.ledger_check import LedgerCheck, check_ledger
from tests.fakes.load import Load
from tests.fakes.postgres import schema
from tests.fakes.serve_process import serve_process


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
                before = len(load.delivered)
                while len(load.delivered) < before + 50:
                    time.sleep(0.01)
                time.sleep(between * chance.random())
                gateway.kill()
                gateway.start()
        gateway.stop()
        return load, check_ledger(gateway, load)


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(schema()) if options.postgres else ""
        began = time.monotonic()
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
