"""Rollups by day, misses and histograms say what plain arithmetic says of the same calls."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from sqlalchemy import Engine, Table, create_engine, select, text

from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.store.sql import schema
from proxy.store.sql.database import migrate, read_transaction, write_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.pending_sums import PendingSums
from proxy.store.sql.rollups.rollup_statements import bucket_case
from proxy.store.sql.rollups.rollup_tables import (
    HOUR_SUMS,
    latency_day_histograms,
    latency_hour_histograms,
    rollup_day_hours,
    rollup_days,
    rollup_estimated,
    rollup_fallbacks,
    rollup_fast_path,
    rollup_misses,
    rollup_pending,
    rollup_weeks,
)
from slo.objectives.latency_buckets import BOUNDS_MICROS, bucket_of
from slo.usage import Usage
from tests.fakes.ledger import book, rollups_of
from tests.fakes.receipts import START, a_receipt


def a_call(n: int) -> Receipt:
    return a_receipt(
        n,
        started=START + n * 1_900,
        duration=0.3 * (n % 9 + 1),
        outcome=Outcome.REFUSED if n % 11 == 0 else Outcome.ANSWERED,
        final=n % 13 != 0,
        miss=("", "expired", "diverged")[n % 3],
        miss_tokens=n if n % 3 else None,
        miss_nanos=10 * n if n % 3 == 1 else None,
        conversation="ab" * 16 if n % 3 else "",
        planning_nanos=n - 50 if n % 3 and n % 5 == 0 else None,
        read_saved_nanos=n if n % 2 else None,
        write_extra_nanos=2 * n if n % 2 else None,
        compaction="facts" if n % 7 == 0 else "",
        compaction_nanos=-n if n % 7 == 0 else None,
        compaction_why="notes" if n % 7 == 1 else "",
        usage=Usage(input=50, output=n % 4, reasoning=0),
    )


EPOCH = date(1970, 1, 1)
CALLS = [a_call(n) for n in range(200)]


def rows_of(engine: Engine, table: Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    size = len(table.primary_key.columns)
    with read_transaction(engine) as connection:
        return {tuple(row[:size]): tuple(row[size:]) for row in connection.execute(select(table))}


def histograms_of(engine: Engine, table: Table) -> dict[tuple[Any, ...], tuple[int]]:
    """The number of calls by key and bucket."""
    return {
        (*key, bucket): (count,)
        for key, counts in rows_of(engine, table).items()
        for bucket, count in enumerate(counts)
        if count
    }


def histogram(calls: Iterable[Receipt], place: Any) -> dict[tuple[Any, ...], tuple[int]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for call in calls:
        if not call.final or call.outcome is Outcome.REFUSED:
            continue
        times = {"duration": call.duration, "ttft": call.ttft}
        generated = call.usage.generated_tokens if call.usage else 0
        if call.streamed and generated > 1 and call.ttft is not None:
            times["itl"] = (call.duration - call.ttft) / (generated - 1)
        for metric, seconds in times.items():
            if seconds is not None:
                counts[(metric, *place(call), bucket_of(int(round(seconds * 1e6, 3))))] += 1
    return {key: (count,) for key, count in counts.items()}


def test_days_are_the_sums_of_their_quarters(engine: Engine) -> None:
    book(engine, CALLS, 1.0)
    expected: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for key, sums in rollups_of(engine).items():
        day = expected[key[:-1]]
        for name, value in sums.items():
            numbers = [number for number in (day.get(name), value) if number is not None]
            day[name] = sum(numbers) if numbers else None

    assert rows_of(engine, rollup_days) == {k: tuple(s.values()) for k, s in expected.items()}


def test_weeks_are_the_sums_of_their_days(engine: Engine) -> None:
    book(engine, CALLS, 1.0)
    expected: dict[tuple[Any, ...], list[Any]] = {}
    for (team, day, *place), sums in rows_of(engine, rollup_days).items():
        monday = EPOCH + timedelta(days=day - (EPOCH + timedelta(days=day)).weekday())
        total = expected.setdefault((team, monday, *place), [None] * len(sums))
        for n, number in enumerate(sums):
            total[n] = number if total[n] is None else total[n] + (number or 0)

    weeks = rows_of(engine, rollup_weeks)
    first = timedelta(days=-3)  # week 0 begins on the Monday before the epoch
    assert {
        (team, EPOCH + first + timedelta(weeks=week), *place): list(sums)
        for (team, week, *place), sums in weeks.items()
    } == expected


def test_hours_are_the_sums_of_their_quarters(engine: Engine) -> None:
    book(engine, CALLS, 1.0)
    expected: dict[tuple[Any, ...], list[Any]] = {}
    for key, sums in rollups_of(engine).items():
        *place, quarter = key
        prompt = sum(sums[name] or 0 for name in ("input", "cache_read", "write_5m"))
        row = [sums["calls"], sums["unpriced"], sums["cost_nanos"], prompt, sums["cache_read"]]
        hour = (*place, quarter // 3_600 % 24)
        expected[hour] = [a + b for a, b in zip(expected.get(hour, [0] * 5), row, strict=True)]

    size = len(HOUR_SUMS)
    hours = {
        (*key, hour): list(sums[hour * size : (hour + 1) * size])
        for key, sums in rows_of(engine, rollup_day_hours).items()
        for hour in range(24)
    }
    assert {key: row for key, row in hours.items() if row != [None] * size} == expected


def test_misses_are_summed_by_day_and_reason_with_the_newest_example(engine: Engine) -> None:
    insert = inserter(engine)
    insert(CALLS[100:])
    insert(CALLS)
    expected: dict[tuple[Any, ...], list[Receipt]] = defaultdict(list)
    for receipt in CALLS:
        if receipt.miss:
            day = int(receipt.started) // 86_400
            place = (
                receipt.team,
                day,
                receipt.feature,
                receipt.model,
                receipt.route,
                receipt.upstream,
            )
            expected[(*place, receipt.miss)].append(receipt)

    assert rows_of(engine, rollup_misses) == {
        key: (
            len(some),
            sum(receipt.miss_tokens or 0 for receipt in some),
            sum(receipt.miss_nanos or 0 for receipt in some)
            if any(receipt.miss_nanos is not None for receipt in some)
            else None,
            max(receipt.call_id for receipt in some),
        )
        for key, some in expected.items()
    }


def test_latencies_are_counted_by_bucket_of_day_and_hour(engine: Engine) -> None:
    book(engine, CALLS, 0.6)
    PendingSums(engine).merge(60.0)

    assert histograms_of(engine, latency_day_histograms) == histogram(
        CALLS, lambda r: (int(r.started) // 86_400, r.team, r.feature, r.model, r.route)
    )
    assert histograms_of(engine, latency_hour_histograms) == histogram(
        CALLS, lambda r: (int(r.started) // 3_600 * 3_600, r.team)
    )


def test_the_database_finds_the_bucket_that_python_finds() -> None:
    probes = [0, *(bound + step for bound in BOUNDS_MICROS for step in (-1, 0, 1)), 10**13]
    with create_engine("sqlite://").connect() as connection:
        for micros in probes:
            bucket = connection.execute(text(f"SELECT {bucket_case(str(micros))}")).scalar()
            assert bucket == bucket_of(micros)


#: Tables that migrations after that of the fast path's sums make.
LATER_TABLES = (
    "fast_path_switches",
    "alert_responses",
    "stored_policies",
    "rollup_fallbacks",
    "rollup_estimated",
)


def test_a_migrated_ledger_has_the_fast_path_sums_of_its_calls(engine: Engine) -> None:
    parts = (ServedBy.CACHE, ServedBy.SMALL, ServedBy.LARGE, ServedBy.NOBODY, ServedBy.DRAFT)
    calls = [
        a_receipt(
            n, started=START + n * 500, served_by=parts[n % 5], final=n % 5 < 4 and n % 3 != 0,
            fast_path_nanos=n - 10 if n % 5 != 2 else None, usage=Usage(input=n, output=2),
        )
        for n in range(1, 40)
    ]  # fmt: skip
    inserter(engine)([*calls, *CALLS])
    added = rows_of(engine, rollup_fast_path)
    with write_transaction(engine) as connection:
        for name in (rollup_fast_path.name, *LATER_TABLES):
            connection.execute(text(f"DROP TABLE {name}"))
        for name in ("tags", "upstream_error"):
            connection.execute(text(f"ALTER TABLE calls DROP COLUMN {name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0029'"))
    migrate(engine)

    assert rows_of(engine, rollup_fast_path) == added
    assert {key[-1] for key in added} == {"cache", "small", "large", "checks", "draft"}
    totals = [sum(row[n] for row in added.values()) for n in (0, -1)]
    assert totals == [
        sum(receipt.final or receipt.served_by is ServedBy.DRAFT for receipt in calls),
        sum(receipt.fast_path_nanos or 0 for receipt in calls),
    ]


def test_a_migrated_ledger_has_the_fallback_sums_of_its_calls(engine: Engine) -> None:
    reasons = ("fallback: server_error", "", "the ceiling c of $1 a call", "slow: fallback level 1")
    calls = [
        a_receipt(
            n, started=START + n * 500, reroute_reason=reasons[n % 4], list_nanos=n or None,
            outcome=Outcome.FAILED if n % 5 == 0 else Outcome.ANSWERED, usage=Usage(input=n),
            served_by=ServedBy.SMALL if n % 7 == 0 else ServedBy.NOBODY,
        )
        for n in range(40)
    ]  # fmt: skip
    inserter(engine)([*calls, *CALLS])
    added = rows_of(engine, rollup_fallbacks)
    with write_transaction(engine) as connection:
        for name in (rollup_fallbacks.name, rollup_estimated.name):
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0035'"))
    migrate(engine)

    assert rows_of(engine, rollup_fallbacks) == added
    assert sum(row[0] for row in added.values()) == sum(
        n % 4 in {0, 3} and n % 5 > 0 and n % 7 > 0 for n in range(40)
    )


def test_a_migrated_ledger_counts_refused_calls_as_no_errors(engine: Engine) -> None:
    outcomes = (Outcome.REFUSED, Outcome.FAILED, Outcome.BROKEN, Outcome.ANSWERED)
    calls = [
        a_receipt(n, started=START + n * 500, feature=outcomes[n % 4], outcome=outcomes[n % 4])
        for n in range(40)
    ]
    inserter(engine)(calls)
    tables = (schema.rollups.name, rollup_pending.name)
    with write_transaction(engine) as connection:
        for name in tables:
            connection.execute(
                text(f"UPDATE {name} SET errors = calls WHERE feature = 'refused'")  # noqa: S608 - own names
            )
        connection.execute(text(f"DROP TABLE {rollup_estimated.name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0036'"))
    migrate(engine)

    with read_transaction(engine) as connection:
        for name in tables:
            sums = text(f"SELECT sum(errors), sum(calls) FROM {name}")  # noqa: S608 - own names
            assert tuple(connection.execute(sums).one()) == (20, 40)


def test_a_migrated_ledger_has_the_cost_of_its_estimated_attempts(engine: Engine) -> None:
    calls = [
        a_receipt(n, estimated=n % 2 == 0, cost_nanos=None if n % 3 == 0 else n) for n in range(30)
    ]
    inserter(engine)(calls)
    added = rows_of(engine, rollup_estimated)
    with write_transaction(engine) as connection:
        connection.execute(text(f"DROP TABLE {rollup_estimated.name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0037'"))
    migrate(engine)
    costs = [n for n in range(30) if n % 2 == 0 and n % 3]

    assert rows_of(engine, rollup_estimated) == added
    assert [sum(row[n] for row in added.values()) for n in (0, 1)] == [len(costs), sum(costs)]
