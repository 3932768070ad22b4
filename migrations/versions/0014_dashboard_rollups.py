"""Rollups by day, misses by reason, latency histograms, and sums of what was saved.

Calls that are there are added to all of them, but for latencies, of which the last ninety days
are. Nobody knows what a provider's cache saved on them: the prices of then are not kept.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_BUCKETS = ("input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output",
            "reasoning")  # fmt: skip
_COUNTS = ("calls", "attempts", "errors", "estimated", "unpriced", *_BUCKETS)
_COSTS = ("list_nanos", "cost_nanos")
_TIMES = ("ttft_sum", "ttft_count", "duration_sum")
_ENGINE = ("queue_sum", "prefill_sum", "decode_sum", "transfer_sum", "phases_count",
           "draft_tokens", "accepted_tokens", "gpu_seconds")  # fmt: skip
_CACHING = ("read_saved_nanos", "write_extra_nanos")
_COMPACTED = "compaction IS NOT NULL AND outcome <> 'failed'"
_SAVINGS = {
    "planned": "nullif(count(CASE WHEN cost_nanos IS NOT NULL THEN planning_nanos END), 0)",
    "planning_nanos": "sum(CASE WHEN cost_nanos IS NOT NULL THEN planning_nanos END)",
    "planned_cost_nanos": "sum(CASE WHEN planning_nanos IS NOT NULL THEN cost_nanos END)",
    "compaction_nanos": f"sum(CASE WHEN {_COMPACTED} THEN compaction_nanos END)",
    "notes_nanos": "sum(CASE WHEN compaction IS NULL AND compaction_why = 'notes'"
    " THEN cost_nanos END)",
    "expected_read": "sum(expected_read)",
    "missed": "nullif(count(miss), 0)",
    "miss_tokens": "sum(miss_tokens)",
    "miss_nanos": "sum(miss_nanos)",
}
_PLACE = ("team", "day", "feature", "model", "route", "upstream")
_DAY_KEY = (*_PLACE, "key_id")
_DAY = "started / 86400000000"
_QUARTER = "started / 900000000 * 900"
_MICROS_OF_90_DAYS = 90 * 86_400 * 1_000_000
_BOUNDS = tuple(round(1_000 * 2 ** (n / 4)) for n in range(81))
_LATENCIES = {
    "ttft": "ttft",
    "duration": "duration",
    "itl": "CASE WHEN streamed = 1 AND outcome = 'answered' AND output + reasoning > 1"
    " THEN (duration - ttft) / (output + reasoning - 1) END",
}


def upgrade() -> None:
    for name in _CACHING:
        op.add_column("calls", sa.Column(name, BIG))
    for name in (*_CACHING, *_SAVINGS):
        op.add_column("rollups", sa.Column(name, BIG))
    _create_tables()
    _sum_savings()
    _sum_days()
    _sum_hours()
    _sum_misses()
    _count_latencies("latency_days", ("team", "day", "feature", "model", "route"))
    _count_latencies("latency_hours", ("team", "hour"))


def downgrade() -> None:
    for table in ("latency_hours", "latency_days", "rollup_misses", "rollup_hours", "rollup_days"):
        op.drop_table(table)
    for name in (*reversed(_SAVINGS), *reversed(_CACHING)):
        op.drop_column("rollups", name)
    for name in reversed(_CACHING):
        op.drop_column("calls", name)


def _key(name: str) -> sa.Column:  # type: ignore[type-arg]
    kind = BIG if name in {"day", "hour", "bucket"} else TEXT
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _create_tables() -> None:
    kinds = {"sqlite_strict": True, "sqlite_with_rowid": False}
    op.create_table(
        "rollup_days",
        *map(_key, _DAY_KEY),
        *(sa.Column(name, BIG, nullable=False) for name in _COUNTS),
        *(sa.Column(name, BIG) for name in _COSTS),
        *(sa.Column(name, BIG, nullable=False) for name in _TIMES),
        *(sa.Column(name, BIG) for name in (*_ENGINE, *_CACHING, *_SAVINGS)),
        **kinds,
    )
    op.create_table(
        "rollup_hours",
        *map(_key, ("hour", "team", *_DAY_KEY[2:])),
        sa.Column("calls", BIG, nullable=False),
        sa.Column("unpriced", BIG, nullable=False),
        sa.Column("cost_nanos", BIG),
        sa.Column("prompt_tokens", BIG, nullable=False),
        sa.Column("cache_read", BIG, nullable=False),
        **kinds,
    )
    op.create_table(
        "rollup_misses",
        *map(_key, (*_PLACE, "reason")),
        sa.Column("attempts", BIG, nullable=False),
        sa.Column("tokens", BIG, nullable=False),
        sa.Column("nanos", BIG),
        sa.Column("example", TEXT, nullable=False),
        **kinds,
    )
    for table, place in (
        ("latency_days", ("metric", "day", "team", "feature", "model", "route")),
        ("latency_hours", ("metric", "hour", "team")),
    ):
        op.create_table(
            table,
            *map(_key, (*place, "bucket")),
            sa.Column("calls", BIG, nullable=False),
            **kinds,
        )


def _sum_savings() -> None:
    """Add to each rollup what its calls saved and missed, where they say anything of it."""
    key = (*_DAY_KEY, "quarter")
    named = {"day": f"{_DAY} AS day", "quarter": f"{_QUARTER} AS quarter"}
    sums = ", ".join(f"{told} AS {name}" for name, told in _SAVINGS.items())
    op.execute(
        f"UPDATE rollups SET {', '.join(f'{name} = found.{name}' for name in _SAVINGS)} FROM ("
        f" SELECT {', '.join(named.get(name, name) for name in key)}, {sums} FROM calls"
        " WHERE conversation IS NOT NULL OR compaction IS NOT NULL OR compaction_why IS NOT NULL"
        f" GROUP BY {', '.join(key)}) AS found"
        f" WHERE {' AND '.join(f'rollups.{name} = found.{name}' for name in key)}"
    )


def _sum_days() -> None:
    names = (*_COUNTS, *_COSTS, *_TIMES, *_ENGINE, *_CACHING, *_SAVINGS)
    op.execute(
        f"INSERT INTO rollup_days ({', '.join((*_DAY_KEY, *names))})"
        f" SELECT {', '.join(_DAY_KEY)}, {', '.join(f'sum({name})' for name in names)}"
        f" FROM rollups GROUP BY {', '.join(_DAY_KEY)}"
    )


def _sum_hours() -> None:
    place = ", ".join(_DAY_KEY[2:])
    prompt = " + ".join(_BUCKETS[:6])
    op.execute(
        f"INSERT INTO rollup_hours (team, hour, {place}, calls, unpriced, cost_nanos,"
        " prompt_tokens, cache_read)"
        f" SELECT team, quarter / 3600 * 3600 AS hour, {place}, sum(calls), sum(unpriced),"
        f" sum(cost_nanos), sum({prompt}), sum(cache_read)"
        f" FROM rollups GROUP BY team, quarter / 3600 * 3600, {place}"
    )


def _sum_misses() -> None:
    key = ", ".join(_PLACE)
    op.execute(
        f"INSERT INTO rollup_misses ({key}, reason, attempts, tokens, nanos, example)"
        f" SELECT {key.replace('day', f'{_DAY} AS day')}, miss, count(*),"
        " coalesce(sum(miss_tokens), 0), sum(miss_nanos), max(call_id)"
        f" FROM calls WHERE miss IS NOT NULL GROUP BY {key}, miss"
    )


def _count_latencies(table: str, place: tuple[str, ...]) -> None:
    named = {"day": f"{_DAY} AS day", "hour": "started / 3600000000 * 3600 AS hour"}
    given = ", ".join(named.get(name, name) for name in place)
    each = " UNION ALL ".join(
        f"SELECT {given}, '{metric}' AS metric, {micros} AS micros FROM calls"
        " WHERE final = 1 AND outcome <> 'refused' AND started > ("
        f"SELECT coalesce(max(started), 0) - {_MICROS_OF_90_DAYS} FROM calls)"
        for metric, micros in _LATENCIES.items()
    )
    key = ", ".join((*place, "metric", "bucket"))
    op.execute(
        f"INSERT INTO {table} ({key}, calls) SELECT {key}, count(*) FROM ("
        f" SELECT {', '.join(place)}, metric, {_bucket(0, len(_BOUNDS))} AS bucket"
        f" FROM ({each}) AS latencies WHERE micros IS NOT NULL) AS buckets GROUP BY {key}"
    )


def _bucket(first: int, end: int) -> str:
    if first == end:
        return str(first)
    middle = (first + end) // 2
    below, above = _bucket(first, middle), _bucket(middle + 1, end)
    return f"CASE WHEN micros < {_BOUNDS[middle]} THEN {below} ELSE {above} END"
