# ruff: noqa: T201 - a script prints
"""Cost of booking a receipt in the database, and of moving its sums to their days later.

Receipts are those of ``dashboard_calls``: 40 teams, 200 features, few of which have most calls.
``python -m tests.bench.booking [--url URL]`` prints microseconds of a receipt by the size of a
batch: processor time of this process, which is SQLite's own, and time in all.
"""

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from proxy.records.receipt import Receipt
from proxy.store.sql.database import migrate, open_database
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.pending_sums import PendingSums
from slo.usage import Usage
from tests.bench.dashboard_calls import END, FEATURES, TEAMS
from tests.fakes.receipts import a_receipt

#: Receipts of a batch, and batches.
BATCHES: Final = ((250, 40), (50, 60), (5, 80))
_CALLS_PER_S: Final = 100
_PATIENCE_S: Final = 60.0


def receipt(n: int) -> Receipt:
    """The nth receipt after ``END``."""
    a, b, c = (n * 7919 + 13) % 999_983, (n * 104_729 + 7) % 999_979, (n * 1_299_709) % 999_961
    feature, is_miss = (a % FEATURES) * (b % FEATURES) // FEATURES, c % 8 == 0
    started, ttft = END + n / _CALLS_PER_S, 0.15 + (b % 1000) ** 2 * 2e-6
    team = feature % TEAMS
    return a_receipt(
        n,
        call_id=f"call_{int(started * 1000):012x}7{n:019x}",
        started=started,
        team=f"team_{team}",
        key_id=f"key_{team}_{c % 2}",
        feature=f"feature {feature}",
        user=f"user {b % 50_000}",
        model=f"model-{feature % 7}",
        route=f"lab/model-{feature % 7}",
        streamed=feature % 2 == 1,
        usage=Usage(input=500 + a % 4000, cache_read=0 if is_miss else 4096, output=50 + b % 700),
        ttft=ttft,
        duration=ttft + 0.75 + a % 1000 * 0.009,
        conversation=f"{n // 50} {feature}",
        arm="treated",
        expected_read=4096,
        miss="expired" if is_miss else "",
        miss_tokens=4096 if is_miss else None,
        miss_nanos=2_000_000 if is_miss else None,
        planning_nanos=300_000,
        read_saved_nanos=0 if is_miss else 1_800_000,
    )


def measure(engine: Engine) -> None:
    """Book and print."""
    insert, pending, n = inserter(engine), PendingSums(engine), 0
    insert([receipt(-index) for index in range(1, 2_000)])
    pending.merge(_PATIENCE_S)
    for size, count in BATCHES:
        batches = [[receipt(n + index * size + i) for i in range(size)] for index in range(count)]
        n += size * count
        booked = _times(partial(deque, map(insert, batches), 0))
        moved = _times(lambda: pending.merge(_PATIENCE_S))
        for what, (cpu, wall) in (("booked", booked), ("moved together", moved)):
            micros = f"{cpu / size / count * 1e6:.0f} us of CPU, {wall / size / count * 1e6:.0f} us"
            print(f"batches of {size:>3}, {what:<14}: {micros}")


def _times(work: Callable[[], object]) -> tuple[float, float]:
    """Processor time and time in all, in seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Measure in an empty database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="an empty PostgreSQL database; SQLite in a folder if absent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = open_database(options.url or f"sqlite:///{Path(folder)}/ledger.db")
        migrate(engine)
        measure(engine)
        engine.dispose()


if __name__ == "__main__":
    main()
