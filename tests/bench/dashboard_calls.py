# ruff: noqa: S608 - its SQL is its own
"""Rollups of ten million made-up calls in ninety days, written by the database itself."""

from typing import Final

from sqlalchemy import Connection, Engine

from proxy.store.sql.database import write_transaction
from proxy.store.sql.receipt_columns import COLUMNS
from proxy.store.sql.rollups.rollup_statements import (
    days_statement,
    hours_statement,
    weeks_statement,
)
from proxy.store.sql.rollups.rollup_tables import HISTOGRAM, HOURS
from proxy.store.sql.schema import rollups

TEAMS: Final = 40
FEATURES: Final = 200
DAYS: Final = 90
#: The moment after the last call, in seconds since the epoch: 2026-11-26 12:00 UTC.
END: Final = 1_795_694_400
_STEP: Final = 100_000
#: Calls of the last two days, as many as ten million in ninety days have.
CALLS: Final = 222_000

#: Numbers of the nth call: its feature (few have most calls), whether its model fell back, and
#: chances of its own from 0 to 999,982.
_DRAWS: Final = (
    "n",
    "{start} + n * {span} / {rows} AS micros",
    "(n * 7919 + 13) % 999983 AS a",
    "(n * 104729 + 7) % 999979 AS b",
    "(n * 1299709 + 3) % 999961 AS c",
)
_FEATURE: Final = f"(a % {FEATURES}) * (b % {FEATURES}) / {FEATURES}"
_IS_MISS: Final = "c % 8 = 0"
_VALUES: Final = {
    "call_id": "{call}",
    "attempt": "0",
    "final": "1",
    "started": "micros",
    "team": f"'team_' || (f % {TEAMS})",
    "key_id": f"'key_' || (f % {TEAMS}) || '_' || (c % 2)",
    "feature": "CASE WHEN f % 23 = 0 THEN '' ELSE 'feature ' || f END",
    "user_hash": "'user ' || (b % 50000)",
    "endpoint": "'chat/completions'",
    "model": "'model-' || (f % 7)",
    "route": "'lab/model-' || ((f + CASE WHEN c % 61 = 0 THEN 1 ELSE 0 END) % 7)",
    "upstream": "'lab'",
    "streamed": "f % 2",
    "status": "CASE WHEN c % 97 = 0 THEN 502 ELSE 200 END",
    "outcome": "CASE WHEN c % 97 = 0 THEN 'failed' ELSE 'answered' END",
    "error": "''",
    "input": "500 + a % 4000",
    "cache_read": f"CASE WHEN {_IS_MISS} THEN 0 ELSE 4096 END",
    "write_5m": f"CASE WHEN {_IS_MISS} THEN 4096 ELSE 128 END",
    "write_30m": "0",
    "write_1h": "0",
    "write_12h": "0",
    "output": "50 + b % 700",
    "reasoning": "0",
    "estimated": "0",
    "list_nanos": "5000000 + a % 4000000",
    "cost_nanos": "4500000 + a % 4000000",
    "ttft": "150000 + (b % 1000) * (b % 1000) * 2",
    "duration": "900000 + (b % 1000) * (b % 1000) * 2 + (a % 1000) * 9000",
    "overhead": "300",
    "fingerprint": "'ab' || n",
    "upstream_id": "'chatcmpl-' || n",
    "notes": "'[]'",
    "conversation": "'c' || n / 5000 || ' ' || f",
    "arm": "CASE WHEN n / 5000 % 20 = 7 THEN 'control' ELSE 'treated' END",
    "layout": "1",
    "expected_read": "4096",
    "miss": f"CASE WHEN {_IS_MISS} THEN CASE WHEN c % 3 = 0 THEN 'expired' WHEN c % 3 = 1"
    " THEN 'diverged' ELSE 'first_seen' END END",
    "miss_detail": f"CASE WHEN {_IS_MISS} THEN 'idle for a while' END",
    "miss_tokens": f"CASE WHEN {_IS_MISS} THEN 4096 END",
    "miss_nanos": f"CASE WHEN {_IS_MISS} THEN 2000000 + a % 911 END",
    "reroute_reason": "CASE WHEN c % 61 = 0 THEN 'objective chat: latency' END",
    "planning_nanos": "CASE WHEN n / 5000 % 20 = 7 THEN NULL ELSE 300000 + a % 1000 END",
    "read_saved_nanos": f"CASE WHEN {_IS_MISS} THEN 0 ELSE 1800000 END",
    "write_extra_nanos": f"CASE WHEN {_IS_MISS} THEN 1000000 ELSE 32000 END",
}
_NUMBERS: Final = {
    "sqlite": "RECURSIVE numbers(n) AS "
    "(SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end})",
    "postgresql": "numbers AS (SELECT generate_series({first}::bigint, {end}::bigint - 1) AS n)",
}
_CALL_ID: Final = {
    "sqlite": "printf('call_%012x7%019x', micros / 1000, n)",
    "postgresql": "'call_' || lpad(to_hex(micros / 1000), 12, '0') || '7' "
    "|| lpad(to_hex(n), 19, '0')",
}


#: Columns of rollups that a made-up row has; all others are 0. ``k`` is its number of calls, ``h``
#: a chance of its own.
_SUMS: Final = {
    "calls": "k",
    "attempts": "k",
    "errors": "h % 97 / 96",
    "input": "k * (500 + h % 4000)",
    "cache_read": "k * 3500",
    "write_5m": "k * 600",
    "output": "k * 350",
    "list_nanos": "k * (5000000 + h % 4000000)",
    "cost_nanos": "k * (4500000 + h % 4000000)",
    "ttft_sum": "k * 800000",
    "ttft_count": "k",
    "duration_sum": "k * 6000000",
    "read_saved_nanos": "k * 1600000",
    "write_extra_nanos": "k * 150000",
    "planned": "k",
    "planning_nanos": "k * 300000",
    "planned_cost_nanos": "k * 4500000",
    "expected_read": "k * 4096",
    "missed": "k / 8",
    "miss_tokens": "k / 8 * 4096",
    "miss_nanos": "k / 8 * 2000000",
}
_QUARTERS: Final = 96
_METRICS: Final = "(SELECT 'ttft' AS metric UNION ALL SELECT 'duration' UNION ALL SELECT 'itl')"
_REASONS: Final = (
    "(SELECT 'expired' AS reason UNION ALL SELECT 'diverged' UNION ALL SELECT 'first_seen')"
)


def fill(engine: Engine, end: int = END, calls: int = CALLS) -> None:
    """Write the rollups that ten million calls in ninety days leave, and calls of two days.

    A rollup of a quarter stands for five calls on average; of 400 combinations of feature and key
    60 % have one in a quarter. Days are summed from them as the migration does it.
    """
    first = (end - DAYS * 86_400) // 86_400
    for day in range(first, end // 86_400 + 1):
        with write_transaction(engine) as connection:
            _fill_day(connection, day)
    with write_transaction(engine) as connection:
        for team in range(TEAMS):
            values = f"('team_{team}', 'Team {team}', 0, 0)"
            connection.exec_driver_sql(
                f"INSERT INTO teams (id, name, keeps_prompts, created) VALUES {values}"
            )
    for start in range(0, calls, _STEP):
        with write_transaction(engine) as connection:
            _write_calls(connection, range(start, min(start + _STEP, calls)), end, calls)
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.exec_driver_sql("VACUUM ANALYZE")
            connection.invalidate()  # so that its limit goes to nobody else


def _fill_day(connection: Connection, day: int) -> None:
    """Write a day's rollups, day rollups, misses and histograms, in the order of their keys."""
    numbers = _NUMBERS[connection.dialect.name].format(first=0, end=FEATURES)
    place = (
        f"'team_' || (f.n % {TEAMS}) AS team, {day} AS day,"
        " CASE WHEN f.n % 23 = 0 THEN '' ELSE 'feature ' || f.n END AS feature,"
        " 'model-' || (f.n % 7) AS model, 'lab/model-' || (f.n % 7) AS route, 'lab' AS upstream"
    )
    columns = [column.name for column in rollups.columns if not column.primary_key]
    sums = ", ".join(_SUMS.get(name, "0") for name in columns)
    key = "team, day, feature, model, route, upstream, key_id, quarter"
    chance = f"((f.n * 7919 + q.n * 104729 + s.n * 31 + {day * 1_299_709 % 99_991}) % 99991)"
    _run(
        connection,
        f"WITH {numbers} INSERT INTO rollups ({key}, {', '.join(columns)})"
        f" SELECT {key}, {sums} FROM (SELECT {place},"
        f" 'key_' || (f.n % {TEAMS}) || '_' || s.n AS key_id,"
        f" {day * 86_400} + q.n * 900 AS quarter,"
        f" {chance} AS h, 1 + {chance} % 9 AS k FROM numbers f CROSS JOIN numbers s"
        f" CROSS JOIN numbers q WHERE s.n < 2 AND q.n < {_QUARTERS} AND {chance} % 10 < 6) AS made"
        f" ORDER BY {key}",
    )
    _fill_longer_sums(connection, day)
    _fill_misses_and_latencies(connection, day, place)


def _fill_longer_sums(connection: Connection, day: int) -> None:
    """Write the sums of a day and of its hours, and add them to its week, as the product does."""
    numbers = _NUMBERS[connection.dialect.name].format(first=0, end=TEAMS)
    moved = (
        f"WITH moved AS (SELECT * FROM rollups WHERE day = {day} AND team IN"
        f" (SELECT 'team_' || n FROM (WITH {numbers} SELECT n FROM numbers) AS teams))"
    )
    for statement in (weeks_statement(), days_statement(), hours_statement(HOURS)):
        _run(connection, f"{moved} {statement}")


def _fill_misses_and_latencies(connection: Connection, day: int, place: str) -> None:
    """Write a day's misses and histograms."""
    numbers = _NUMBERS[connection.dialect.name].format(first=0, end=FEATURES)
    _run(
        connection,
        f"WITH {numbers} INSERT INTO rollup_misses"
        f" SELECT {place}, reason, 9, 9 * 4096, 18000000 + f.n, 'call_' || f.n"
        f" FROM numbers f CROSS JOIN {_REASONS} AS reasons ORDER BY 1, 2, 3, 4, 5, 6, 7",
    )
    buckets = {name: f"1 + {n} % 13" for n, name in enumerate(HISTOGRAM) if 20 <= n < 45}
    names, counts = ", ".join(buckets), ", ".join(buckets.values())
    key = "metric, day, team, feature, model, route"
    _run(
        connection,
        f"WITH {numbers} INSERT INTO latency_day_histograms ({key}, {names})"
        f" SELECT {key}, {counts} FROM (SELECT {place} FROM numbers f) AS places"
        f" CROSS JOIN {_METRICS} AS metrics ORDER BY {key}",
    )
    _run(
        connection,
        f"WITH {numbers} INSERT INTO latency_hour_histograms (metric, hour, team, {names})"
        f" SELECT metric, {day * 86_400} + h.n * 3600, 'team_' || f.n, {counts}"
        f" FROM numbers f CROSS JOIN numbers h CROSS JOIN {_METRICS} AS metrics"
        f" WHERE f.n < {TEAMS} AND h.n < 24 ORDER BY 1, 2, 3",
    )


def _write_calls(connection: Connection, some: range, end: int, calls: int) -> None:
    """Write some of the calls of the last two days."""
    kind = connection.dialect.name
    start, span = (end - 2 * 86_400) * 1_000_000, 2 * 86_400 * 1_000_000
    draws = ", ".join(_DRAWS).format(start=start, span=span, rows=calls)
    values = ", ".join(_VALUES.get(name, "NULL") for name in COLUMNS).format(call=_CALL_ID[kind])
    numbers = _NUMBERS[kind].format(first=some.start, end=some.stop)
    made = (
        f"WITH {numbers}, draws AS (SELECT {draws} FROM numbers),"
        f" made AS (SELECT *, {_FEATURE} AS f FROM draws) SELECT {values} FROM made"
    )
    _run(connection, f"INSERT INTO calls ({', '.join(COLUMNS)}) {made}")


def _run(connection: Connection, statement: str) -> None:
    is_postgres = connection.dialect.name == "postgresql"
    connection.exec_driver_sql(statement.replace("%", "%%") if is_postgres else statement)
