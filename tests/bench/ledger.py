# ruff: noqa: T201, S608, S311 - a script prints; its SQL and its chance are its own
"""Times a large ledger's answers: ``python tests/bench/ledger.py --rows 10000000``.

Makes a month of calls inside the database, rolls them up with the statement the drain uses, and
times a month's cost by team and the look-up of a receipt.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from sqlalchemy import Connection, Engine

from dashboards.reports import Part, ReportPeriod
from proxy.store.sql.database import migrate, open_database, read_transaction, write_transaction
from proxy.store.sql.ledger.receipt_ledger import ReceiptLedger
from proxy.store.sql.receipt_columns import COLUMNS
from proxy.store.sql.rollups.rollup_statements import pending_sums_statement, quarters_statement
from proxy.store.sql.views.ledger_reports import LedgerReports

MONTH = ReportPeriod(first=date(2026, 10, 1), end=date(2026, 11, 1), zone="Europe/Berlin")
STEP = 250_000
TEAMS, FEATURES, MODELS = 20, 3, 5
SPLIT: tuple[Part, ...] = ("team", "feature", "model")
MADE = {
    "call_id": "{call}",
    "attempt": "0",
    "final": "1",
    "started": "{micros}",
    "team": "'team_' || (n % {teams})",
    "key_id": "'key_' || (n % {teams})",
    "feature": "'feature ' || (n / 7 % {features})",
    "user_hash": "'5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f'",
    "endpoint": "'chat/completions'",
    "model": "'model ' || (n / 11 % {models})",
    "route": "'route ' || (n / 11 % {models})",
    "upstream": "'openai'",
    "streamed": "n % 2",
    "status": "200",
    "outcome": "'answered'",
    "error": "''",
    "input": "1000 + n % 997",
    "cache_read": "2048",
    "write_5m": "0",
    "write_30m": "0",
    "write_1h": "0",
    "write_12h": "0",
    "output": "300",
    "reasoning": "0",
    "estimated": "0",
    "list_nanos": "5000000 + n % 1013",
    "cost_nanos": "4000000 + n % 1013",
    "ttft": "250000 + n % 1009",
    "duration": "1500000",
    "overhead": "300",
    "fingerprint": "'ab' || n",
    "upstream_id": "'chatcmpl-' || n",
    "notes": "'[]'",
    "conversation": "'c' || n / 3000 || ' ' || n % {teams} || ' ' || n / 7 % {features} || ' ' "
    "|| n / 11 % {models}",
    "arm": "CASE WHEN (n / 3000 + n) % 20 = 7 THEN 'control' ELSE 'treated' END",
    "layout": "1",
    "expected_read": "4096",
    "miss": "CASE WHEN n % 4 = 0 THEN 'expired' WHEN n % 9 = 0 THEN 'diverged' END",
    "miss_detail": "CASE WHEN n % 4 = 0 OR n % 9 = 0 THEN 'idle for ' || (n % 900) || ' s' END",
    "miss_tokens": "CASE WHEN n % 4 = 0 OR n % 9 = 0 THEN 2048 END",
    "miss_nanos": "CASE WHEN n % 4 = 0 OR n % 9 = 0 THEN 2000000 + n % 911 END",
    "upstream_request_id": "'req_' || n",
    "read_saved_nanos": "1800000",
    "write_extra_nanos": "0",
}
NUMBERS = {
    "sqlite": "WITH RECURSIVE made(n) AS "
    "(SELECT {first} UNION ALL SELECT n + 1 FROM made WHERE n + 1 < {end})",
    "postgresql": "WITH made AS (SELECT generate_series({first}::bigint, {end}::bigint - 1) AS n)",
}
CALL = {
    "sqlite": "printf('call_%012x7%019x', {micros} / 1000, n)",
    "postgresql": "'call_' || lpad(to_hex({micros} / 1000), 12, '0') || '7' "
    "|| lpad(to_hex(n), 19, '0')",
}
SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    "postgresql": "SELECT pg_total_relation_size('calls') + pg_total_relation_size('rollups')",
}


def main() -> None:
    """Build, ask, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--url", help="an empty PostgreSQL database; SQLite in a folder if absent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = open_database(options.url or f"sqlite:///{folder}/ledger.db")
        migrate(engine)
        build(engine, options.rows)
        ask(engine, options.rows, Path(folder))
        engine.dispose()


def build(engine: Engine, rows: int) -> None:
    """Fill the ledger and say how long that took and how large it is."""
    began = time.perf_counter()
    for first in range(0, rows, STEP):
        with write_transaction(engine) as connection:
            make(connection, first, min(first + STEP, rows), rows)
    took = time.perf_counter() - began
    with read_transaction(engine) as connection:
        rollups = connection.exec_driver_sql("SELECT count(*) FROM rollups").scalar_one()
        size = connection.exec_driver_sql(SIZE[connection.dialect.name]).scalar_one()
    print(f"built {rows:,} calls and {rollups:,} rollups in {took:.0f} s, {size / 1e9:.2f} GB")


def make(connection: Connection, first: int, end: int, rows: int) -> None:
    """Insert the calls from ``first`` to ``end``, spread over the month, and roll them up."""
    kind = connection.dialect.name
    start, until = MONTH.bounds
    micros = f"({start * 1_000_000} + n * {(until - start) * 1_000_000 // rows})"
    call = CALL[kind].format(micros=micros)
    values = ", ".join(
        MADE.get(name, "NULL").format(
            call=call, micros=micros, teams=TEAMS, features=FEATURES, models=MODELS
        )
        for name in COLUMNS
    )
    numbers = NUMBERS[kind].format(first=first, end=end)
    statement = f"INSERT INTO calls ({', '.join(COLUMNS)}) {numbers} SELECT {values} FROM made"
    connection.exec_driver_sql(statement.replace("%", "%%") if kind == "postgresql" else statement)
    made = f"calls WHERE call_id >= '{call_id(first, rows)}' AND call_id < '{call_id(end, rows)}'"
    connection.exec_driver_sql(f"WITH new AS (SELECT * FROM {made}) {pending_sums_statement()}")
    connection.exec_driver_sql(quarters_statement("rollup_pending"))
    connection.exec_driver_sql("DELETE FROM rollup_pending")


def call_id(n: int, rows: int) -> str:
    """The id of the nth of so many calls."""
    start, until = MONTH.bounds
    micros = start * 1_000_000 + n * ((until - start) * 1_000_000 // rows)
    return f"call_{micros // 1000:012x}7{n:019x}"


def ask(engine: Engine, rows: int, folder: Path) -> None:
    """Time what pages ask of the ledger: the best of three, and the first."""
    reports, ledger = LedgerReports(engine), ReceiptLedger(engine, folder)
    print_times("a month's cost by team", lambda: reports.spend(MONTH))
    print_times("the same by day", lambda: [reports.spend(day) for day in MONTH.days])
    print_times("the same by team, feature, model", lambda: reports.spend(MONTH, SPLIT))
    (total,) = reports.spend(MONTH, ())
    if total.calls != rows:
        raise SystemExit(f"{total.calls:,} calls in the rollups, {rows:,} in the ledger")
    chance = random.Random(1)
    numbers = [chance.randrange(rows) for _ in range(1000)]
    took = seconds(
        lambda: [ledger.call_receipts(call_id(n, rows), f"team_{n % TEAMS}")[0] for n in numbers]
    )
    print(f"a receipt by its id: {took:.2f} ms")


def print_times(what: str, question: Callable[[], object]) -> None:
    """Ask three times and print how long the first and the fastest took."""
    took = [seconds(question) for _ in range(3)]
    print(f"{what}: {took[0]:.3f} s at first, {min(took):.3f} s at best")


def seconds(question: Callable[[], object]) -> float:
    """Return how long an answer takes."""
    began = time.perf_counter()
    question()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
