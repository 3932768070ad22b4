"""New calls wait in tables that are cheap to add to; hours and histograms are columns of one row.

Sums of hours, and histograms, that are there are moved into the new tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_DAY_KEY = ("team", "day", "feature", "model", "route", "upstream", "key_id")
_COUNTS = ("calls", "attempts", "errors", "estimated", "unpriced", "input", "cache_read",
           "write_5m", "write_30m", "write_1h", "write_12h", "output", "reasoning")  # fmt: skip
_COSTS = ("list_nanos", "cost_nanos")
_TIMES = ("ttft_sum", "ttft_count", "duration_sum")
_OTHERS = (
    "queue_sum", "prefill_sum", "decode_sum", "transfer_sum", "phases_count", "draft_tokens",
    "accepted_tokens", "gpu_seconds", "read_saved_nanos", "write_extra_nanos", "planned",
    "planning_nanos", "planned_cost_nanos", "compaction_nanos", "notes_nanos", "expected_read",
    "missed", "miss_tokens", "miss_nanos",
)  # fmt: skip
_HOUR_SUMS = ("calls", "unpriced", "cost_nanos", "prompt_tokens", "cache_read")
_BUCKETS = range(82)
_HISTOGRAMS = {
    "latency_days": (
        "latency_day_histograms", ("metric", "day", "team", "feature", "model", "route")
    ),
    "latency_hours": ("latency_hour_histograms", ("metric", "hour", "team")),
}  # fmt: skip
_KINDS = {"sqlite_strict": True, "sqlite_with_rowid": False}


def upgrade() -> None:
    op.create_table(
        "rollup_pending",
        *(_required_column(name) for name in (*_DAY_KEY, "quarter", *_COUNTS)),
        *(sa.Column(name, BIG) for name in _COSTS),
        *(_required_column(name) for name in _TIMES),
        *(sa.Column(name, BIG) for name in _OTHERS),
        sqlite_strict=True,
    )
    op.create_table(
        "latency_pending",
        *(_required_column(name) for name in ("hour", "team", "feature", "model", "route")),
        *(sa.Column(name, BIG) for name in ("ttft", "duration", "itl")),
        sqlite_strict=True,
    )
    op.create_table(
        "rollup_day_hours",
        *map(_key, _DAY_KEY),
        *(sa.Column(f"{name}_{hour}", BIG) for hour in range(24) for name in _HOUR_SUMS),
        **_KINDS,
    )
    _sum_weeks()
    _move_hours()
    for old, (new, key) in _HISTOGRAMS.items():
        op.create_table(
            new, *map(_key, key), *(sa.Column(f"bucket_{n}", BIG) for n in _BUCKETS), **_KINDS
        )
        names = ", ".join(key)
        counts = ", ".join(f"sum(CASE bucket WHEN {n} THEN calls END)" for n in _BUCKETS)
        columns = ", ".join(f"bucket_{n}" for n in _BUCKETS)
        op.execute(
            f"INSERT INTO {new} ({names}, {columns})"
            f" SELECT {names}, {counts} FROM {old} GROUP BY {names}"
        )
        op.drop_table(old)


def downgrade() -> None:
    """Back to a row for each hour and bucket; sums that wait are added to their days first."""
    _add_pending()
    _create_hours()
    _create_histograms()
    for table in ("rollup_weeks", "rollup_day_hours", "rollup_pending", "latency_pending"):
        op.drop_table(table)


def _key(name: str) -> sa.Column:  # type: ignore[type-arg]
    kind = BIG if name in {"week", "day", "hour", "bucket"} else TEXT
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _required_column(name: str) -> sa.Column:  # type: ignore[type-arg]
    is_text = name in {"team", "feature", "model", "route", "upstream", "key_id"}
    return sa.Column(name, TEXT if is_text else BIG, nullable=False)


def _sum_weeks() -> None:
    """Weeks begin on Monday, and the epoch began on a Thursday."""
    key = ("team", "week", *_DAY_KEY[2:])
    op.create_table(
        "rollup_weeks",
        *map(_key, key),
        *(sa.Column(name, BIG, nullable=False) for name in _COUNTS),
        *(sa.Column(name, BIG) for name in _COSTS),
        *(sa.Column(name, BIG, nullable=False) for name in _TIMES),
        *(sa.Column(name, BIG) for name in _OTHERS),
        **_KINDS,
    )
    sums = (*_COUNTS, *_COSTS, *_TIMES, *_OTHERS)
    place, names = ", ".join(key), ", ".join(sums)
    op.execute(
        f"INSERT INTO rollup_weeks ({place}, {names})"
        f" SELECT {place.replace('week', '(day + 3) / 7 AS week')},"
        f" {', '.join(f'sum({name})' for name in sums)} FROM rollup_days GROUP BY {place}"
    )


def _move_hours() -> None:
    key = ", ".join(_DAY_KEY)
    columns = [(name, hour) for hour in range(24) for name in _HOUR_SUMS]
    sums = ", ".join(
        f"sum(CASE WHEN hour / 3600 % 24 = {hour} THEN {name} END)" for name, hour in columns
    )
    op.execute(
        f"INSERT INTO rollup_day_hours ({key}, {', '.join(f'{n}_{h}' for n, h in columns)})"
        f" SELECT {key}, {sums} FROM ("
        "SELECT hour / 86400 AS day, rollup_hours.* FROM rollup_hours) AS hours"
        f" GROUP BY {key}"
    )
    op.drop_table("rollup_hours")


def _add_pending() -> None:
    key, names = ", ".join(_DAY_KEY), (*_COUNTS, *_COSTS, *_TIMES, *_OTHERS)
    unknown = {*_COSTS, *_OTHERS}
    added = ", ".join(
        f"{n} = coalesce(rollup_days.{n} + excluded.{n}, rollup_days.{n}, excluded.{n})"
        if n in unknown
        else f"{n} = rollup_days.{n} + excluded.{n}"
        for n in names
    )
    op.execute(
        f"INSERT INTO rollup_days ({key}, {', '.join(names)})"
        f" SELECT {key}, {', '.join(f'sum({name})' for name in names)} FROM rollup_pending"
        f" WHERE 1 = 1 GROUP BY {key} ON CONFLICT ({key}) DO UPDATE SET {added}"
    )


def _create_hours() -> None:
    """From rollups, which have all calls."""
    place = ("feature", "model", "route", "upstream", "key_id")
    op.create_table(
        "rollup_hours",
        *map(_key, ("hour", "team", *place)),
        sa.Column("calls", BIG, nullable=False),
        sa.Column("unpriced", BIG, nullable=False),
        sa.Column("cost_nanos", BIG),
        sa.Column("prompt_tokens", BIG, nullable=False),
        sa.Column("cache_read", BIG, nullable=False),
        **_KINDS,
    )
    names, prompt = ", ".join(place), " + ".join(_COUNTS[5:11])
    op.execute(
        f"INSERT INTO rollup_hours (team, hour, {names}, calls, unpriced, cost_nanos,"
        " prompt_tokens, cache_read)"
        f" SELECT team, quarter / 3600 * 3600 AS hour, {names}, sum(calls), sum(unpriced),"
        f" sum(cost_nanos), sum({prompt}), sum(cache_read)"
        f" FROM rollups GROUP BY team, quarter / 3600 * 3600, {names}"
    )


def _create_histograms() -> None:
    for old, (new, key) in _HISTOGRAMS.items():
        op.create_table(
            old,
            *map(_key, (*key, "bucket")),
            sa.Column("calls", BIG, nullable=False),
            **_KINDS,
        )
        place = ", ".join(key)
        waiting = place.replace("metric, ", "").replace("day", "hour / 86400 AS day")
        counted = [
            f"SELECT {place}, {n} AS bucket, bucket_{n} AS calls FROM {new}"
            f" WHERE bucket_{n} IS NOT NULL"
            for n in _BUCKETS
        ] + [
            f"SELECT '{metric}' AS metric, {waiting}, {metric} AS bucket, 1 AS calls"
            f" FROM latency_pending WHERE {metric} IS NOT NULL"
            for metric in ("ttft", "duration", "itl")
        ]
        op.execute(f"CREATE TEMPORARY TABLE counted AS {counted[0]}")
        for each in counted[1:]:
            op.execute(f"INSERT INTO counted {each}")
        op.execute(
            f"INSERT INTO {old} ({place}, bucket, calls)"
            f" SELECT {place}, bucket, sum(calls) FROM counted GROUP BY {place}, bucket"
        )
        op.execute("DROP TABLE counted")
        op.drop_table(new)
