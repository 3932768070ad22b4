"""Pending sums are moved once, in steps, whoever moves them and whatever comes in between."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import Engine, func, select

from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.pending_sums import PendingSums
from proxy.store.sql.rollups.rollup_tables import (
    latency_day_histograms,
    latency_hour_histograms,
    latency_pending,
    rollup_days,
    rollup_pending,
)
from tests.proxy.store.sql.rollups.test_rollup_statements import CALLS

PATIENCE_S = 60.0
DAY = 86_400
WAITED = sum(1 for each in CALLS if each.final and each.outcome.value != "refused")


def count(engine: Engine, table) -> int:
    with read_transaction(engine) as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def calls_of_days(engine: Engine) -> int:
    with read_transaction(engine) as connection:
        return int(connection.execute(select(func.sum(rollup_days.c.calls))).scalar_one() or 0)


def durations(engine: Engine) -> int:
    rows = latency_hour_histograms
    with read_transaction(engine) as connection:
        result = connection.execute(select(rows).where(rows.c.metric == "duration"))
        return sum(number or 0 for row in result for number in row[3:])


@pytest.mark.parametrize("rows_per_step", [7, 1_000])
def test_all_that_waits_is_moved_once(engine: Engine, rows_per_step: int) -> None:
    pending = PendingSums(engine, rows_per_step)
    inserter(engine)(CALLS)
    waiting = count(engine, rollup_pending) + count(engine, latency_pending)

    assert pending.merge(PATIENCE_S) == waiting > 200
    assert pending.merge(PATIENCE_S) == 0
    assert count(engine, rollup_pending) == count(engine, latency_pending) == 0
    assert calls_of_days(engine) == sum(receipt.final for receipt in CALLS)
    assert durations(engine) == WAITED


def test_a_budget_that_is_over_leaves_the_rest_for_later(engine: Engine) -> None:
    inserter(engine)(CALLS)

    assert PendingSums(engine, 7).merge(0.0) == 0
    assert count(engine, rollup_pending) > 100


def test_processes_that_move_and_book_at_once_lose_and_double_nothing(engine: Engine) -> None:
    parts = [CALLS[n::8] for n in range(8)]
    with ThreadPoolExecutor(6) as threads:
        moves = [partial(PendingSums(engine, 5).merge, PATIENCE_S) for _ in range(16)]
        books = [partial(inserter(engine), part) for part in parts]
        both = [task for pair in zip(moves, [*books, *books], strict=True) for task in pair]
        for receipt in [threads.submit(task) for task in both]:
            receipt.result(PATIENCE_S)
    PendingSums(engine).merge(PATIENCE_S)

    assert calls_of_days(engine) == sum(receipt.final for receipt in CALLS)
    assert durations(engine) == WAITED


def test_histograms_that_are_old_are_deleted_and_sums_stay(engine: Engine) -> None:
    inserter(engine)(CALLS)
    pending = PendingSums(engine)
    pending.merge(PATIENCE_S)
    days = sorted({int(receipt.started) // DAY for receipt in CALLS})
    calls, late = calls_of_days(engine), days[2] * DAY + 7.0

    assert pending.delete_histograms(late - 2 * DAY, PATIENCE_S) == 0
    assert pending.delete_histograms(late, 0.0) == 0
    assert pending.delete_histograms(late, PATIENCE_S) > 10
    assert pending.delete_histograms(late, PATIENCE_S) == 0
    with read_transaction(engine) as connection:
        for moment, first in (
            (latency_day_histograms.c.day, days[2]),
            (latency_hour_histograms.c.hour // DAY, days[2]),
        ):
            assert connection.execute(select(func.min(moment))).scalar() == first
    assert calls_of_days(engine) == calls
