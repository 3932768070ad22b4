"""Statements that add new calls to the rollups, and pending sums to those of days and hours.

::

    new calls ─ summed once by quarter ─┬─ rollups          at once: budgets and reports read them
                                        └─ rollup_pending ─┬─ rollup_day_hours   later, many batches
                                                           ├─ rollup_days        together
                                                           └─ rollup_weeks
    new calls ─ their buckets ── latency_pending ─── histograms of days and hours

Each adds in the order of its table's key, so that two writers wait for each other in one order.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sqlalchemy import Table

from proxy.records.receipt import CEILING_REROUTE
from proxy.store.sql import schema
from proxy.store.sql.rollups.rollup_tables import (
    DAY_KEY,
    HISTOGRAM,
    HOUR_SUMS,
    WEEK_KEY,
    hour_column,
    latency_day_histograms,
    latency_hour_histograms,
    latency_pending,
    rollup_day_hours,
    rollup_days,
    rollup_estimated,
    rollup_fallbacks,
    rollup_fast_path,
    rollup_misses,
    rollup_pending,
    rollup_unanswered,
    rollup_weeks,
)
from slo.objectives.latency_buckets import BOUNDS_MICROS

_IS_COMPACTED: Final = "compaction IS NOT NULL AND outcome <> 'failed'"

#: True of priced attempts whose caller got nothing of an answer, or a broken one; what is known of
#: those of the fast path is that part's.
_IS_UNANSWERED: Final = (
    "list_nanos IS NOT NULL AND outcome <> 'answered' AND (outcome <> 'hung_up' OR ttft IS NULL)"
    " AND fast_path_nanos IS NULL"
)
#: True of priced attempts that answered because what was asked for failed, or missed an objective.
_IS_FALLBACK: Final = (
    "list_nanos IS NOT NULL AND reroute_reason IS NOT NULL"
    f" AND substr(reroute_reason, 1, {len(CEILING_REROUTE)}) <> '{CEILING_REROUTE}'"
    " AND (outcome = 'answered' OR (outcome = 'hung_up' AND ttft IS NOT NULL))"
    " AND fast_path_nanos IS NULL AND coalesce(served_by, '') <> 'small'"
)
_IS_FAST_PATH: Final = "served_by IS NOT NULL OR fast_path_nanos IS NOT NULL"

COUNTS: Final = ("calls", "attempts", "errors", "estimated", "unpriced")
"""Sums that are numbers of calls and attempts."""
SPEND_SUMS: Final = (*COUNTS, "ttft_count", *schema.BUCKETS, "list_nanos", "cost_nanos")
"""Sums that say what was spent, on what; ``ttft_count`` is that of calls with an answer."""
SUMS: Final[Mapping[str, str]] = {
    "calls": "sum(final)",
    "attempts": "count(*)",
    "errors": "sum(CASE WHEN final = 1 AND outcome IN ('failed', 'broken') THEN 1 ELSE 0 END)",
    "estimated": "sum(estimated)",
    "unpriced": "sum(CASE WHEN cost_nanos IS NULL AND (input IS NOT NULL OR outcome = 'answered') "
    "THEN 1 ELSE 0 END)",
    **{bucket: f"coalesce(sum({bucket}), 0)" for bucket in schema.BUCKETS},
    "list_nanos": "sum(list_nanos)",
    "cost_nanos": "sum(cost_nanos)",
    "ttft_sum": "coalesce(sum(CASE WHEN final = 1 THEN ttft END), 0)",
    "ttft_count": "count(CASE WHEN final = 1 THEN ttft END)",
    "duration_sum": "sum(final * duration)",
    **{f"{phase}_sum": f"sum({phase})" for phase in schema.PHASES},
    "phases_count": "nullif(count(prefill), 0)",
    **{name: f"sum({name})" for name in ("draft_tokens", "accepted_tokens", "gpu_seconds")},
    "read_saved_nanos": "sum(read_saved_nanos)",
    "write_extra_nanos": "sum(write_extra_nanos)",
    "planned": "nullif(count(CASE WHEN cost_nanos IS NOT NULL THEN planning_nanos END), 0)",
    "planning_nanos": "sum(CASE WHEN cost_nanos IS NOT NULL THEN planning_nanos END)",
    "planned_cost_nanos": (
        "sum(CASE WHEN planning_nanos IS NOT NULL AND coalesce(arm, '') <> 'control'"
        " THEN cost_nanos END)"
    ),
    "compaction_nanos": f"sum(CASE WHEN {_IS_COMPACTED} THEN compaction_nanos END)",
    "expected_read": "sum(expected_read)",
    "missed": "nullif(count(miss), 0)",
    "miss_tokens": "sum(miss_tokens)",
    "miss_nanos": "sum(miss_nanos)",
}
"""Columns that rollups sum over calls."""

_TIMES: Final = {
    "day": "started / 86400000000 AS day",
    "quarter": "started / 900000000 * 900 AS quarter",
    "hour": "started / 3600000000 * 3600 AS hour",
    "reason": "miss AS reason",
    "part": "coalesce(served_by, 'checks') AS part",
}
_QUARTER_KEY: Final = tuple(column.name for column in schema.rollups.primary_key.columns)
_PROMPT: Final = " + ".join(
    bucket for bucket in schema.BUCKETS if bucket not in {"output", "reasoning"}
)
_MISS_SUMS: Final = {
    "attempts": "count(*)",
    "tokens": "coalesce(sum(miss_tokens), 0)",
    "nanos": "sum(miss_nanos)",
    "example": "max(call_id)",
}
_UNANSWERED_SUMS: Final = {
    "calls": "sum(final)",
    **{bucket: f"coalesce(sum({bucket}), 0)" for bucket in schema.BUCKETS},
    "list_nanos": "sum(list_nanos)",
    "extra_nanos": "sum((1 - final) * list_nanos)",
}
_FALLBACK_SUMS: Final = {
    name: formula for name, formula in _UNANSWERED_SUMS.items() if name != "extra_nanos"
}
_ESTIMATED_SUMS: Final = {"attempts": "count(*)", "cost_nanos": "sum(cost_nanos)"}
_FAST_PATH_SUMS: Final = {
    # A draft is never its call's last attempt.
    "calls": "sum(CASE WHEN served_by = 'draft' THEN 1 ELSE final END)",
    "saved_calls": "sum(CASE WHEN fast_path_nanos IS NOT NULL THEN final ELSE 0 END)",
    **{
        name: f"coalesce(sum(CASE WHEN fast_path_nanos IS NOT NULL THEN {name} END), 0)"
        for name in (*schema.BUCKETS, "list_nanos", "cost_nanos")
    },
    "saved_nanos": "coalesce(sum(fast_path_nanos), 0)",
}
#: Latencies of calls that went to an upstream, in microseconds; of refused ones nobody waited.
#: The time between tokens is a mean: it is that after the first content byte, for each of the rest.
LATENCIES: Final[Mapping[str, str]] = {
    "ttft": "ttft",
    "duration": "duration",
    "itl": "CASE WHEN streamed = 1 AND outcome = 'answered' AND output + reasoning > 1"
    " THEN (duration - ttft) / (output + reasoning - 1) END",
}
HOUR_OF_DAY: Final = "quarter / 3600 % 24"
"""The hour of the day of a row of ``rollup_pending``."""
_WEEK_OF_DAY: Final = "(day + 3) / 7 AS week"
_LATENCY_PLACE: Final = ("hour", "team", "feature", "model", "route")


def pending_sums_statement() -> str:
    """Puts sums of ``new``, rows of the table ``calls``, by quarter into ``rollup_pending``."""
    names = ", ".join(_QUARTER_KEY)
    grouped = ", ".join(_TIMES.get(name, name) for name in _QUARTER_KEY)
    return f"""
        INSERT INTO {rollup_pending.name} ({names}, {", ".join(SUMS)})
        SELECT {grouped}, {", ".join(SUMS.values())} FROM new GROUP BY {names}
    """  # noqa: S608 - made of the schema's own names


def quarters_statement(source: str) -> str:
    """Adds sums by quarter to ``rollups``.

    Args:
        source: SQL for their rows, each quarter of a key once.
    """
    names = ", ".join((*_QUARTER_KEY, *SUMS))
    return f"""
        INSERT INTO {schema.rollups.name} ({names}) SELECT {names} FROM {source}
        ORDER BY {", ".join(_QUARTER_KEY)} {_on_conflict(schema.rollups)}
    """  # noqa: S608 - as above


def misses_statement() -> str:
    """Adds misses of ``new`` to ``rollup_misses``."""
    return _sparse_statement(rollup_misses, _MISS_SUMS, "miss IS NOT NULL")


def unanswered_statement() -> str:
    """Adds attempts without an answer of ``new`` to ``rollup_unanswered``."""
    return _sparse_statement(rollup_unanswered, _UNANSWERED_SUMS, _IS_UNANSWERED)


def fallbacks_statement() -> str:
    """Adds attempts of ``new`` that fallbacks answered to ``rollup_fallbacks``."""
    return _sparse_statement(rollup_fallbacks, _FALLBACK_SUMS, _IS_FALLBACK)


def estimated_statement() -> str:
    """Adds priced attempts of ``new`` whose usage is estimated to ``rollup_estimated``."""
    condition = "estimated = 1 AND cost_nanos IS NOT NULL"
    return _sparse_statement(rollup_estimated, _ESTIMATED_SUMS, condition)


def fast_path_statement() -> str:
    """Adds attempts of the fast path of ``new`` to ``rollup_fast_path``."""
    return _sparse_statement(rollup_fast_path, _FAST_PATH_SUMS, _IS_FAST_PATH)


def _sparse_statement(table: Table, sums: Mapping[str, str], condition: str) -> str:
    """Adds sums of the rows of ``new`` that a condition holds for to a table."""
    key = [column.name for column in table.primary_key.columns]
    names = ", ".join(key)
    grouped = ", ".join(_TIMES.get(name, name) for name in key)
    return f"""
        INSERT INTO {table.name} ({names}, {", ".join(sums)})
        SELECT {grouped}, {", ".join(sums.values())}
        FROM new WHERE {condition}
        GROUP BY {names} ORDER BY {names} {_on_conflict(table)}
    """  # noqa: S608 - as above


def pending_latencies_statement() -> str:
    """Puts buckets of latencies of ``new`` into ``latency_pending``, a row for each call."""
    place = ", ".join(_TIMES.get(name, name) for name in _LATENCY_PLACE)
    buckets = ", ".join(
        f"CASE WHEN {metric} IS NOT NULL THEN {bucket_case(metric)} END" for metric in LATENCIES
    )
    times = ", ".join(f"{micros} AS {metric}" for metric, micros in LATENCIES.items())
    return f"""
        INSERT INTO {latency_pending.name} ({", ".join((*_LATENCY_PLACE, *LATENCIES))})
        SELECT {", ".join(_LATENCY_PLACE)}, {buckets} FROM (
            SELECT {place}, {times} FROM new WHERE final = 1 AND outcome <> 'refused'
        ) AS latencies
    """  # noqa: S608 - as above


def days_statement() -> str:
    """Adds ``moved``, rows of ``rollup_pending``, to ``rollup_days``."""
    return _longer_statement(rollup_days, ", ".join(DAY_KEY))


def weeks_statement() -> str:
    """Adds ``moved``, rows of ``rollup_pending``, to ``rollup_weeks``."""
    # As ``rollup_tables.week_of`` counts them.
    return _longer_statement(rollup_weeks, ", ".join(WEEK_KEY).replace("week", _WEEK_OF_DAY))


def _longer_statement(table: Table, place: str) -> str:
    names = ", ".join(column.name for column in table.primary_key.columns)
    sums = ", ".join(f"sum({name})" for name in SUMS)
    return f"""
        INSERT INTO {table.name} ({names}, {", ".join(SUMS)})
        SELECT {place}, {sums} FROM moved GROUP BY {names} ORDER BY {names}
        {_on_conflict(table)}
    """  # noqa: S608 - as above


def hours_statement(hours: Collection[int]) -> str:
    """Adds ``moved``, rows of ``rollup_pending``, to ``rollup_day_hours``.

    Args:
        hours: All hours of the day that are among them: other columns are not touched.
    """
    names = ", ".join(DAY_KEY)
    addends = {name: _PROMPT if name == "prompt_tokens" else name for name in HOUR_SUMS}
    sums = {
        hour_column(name, hour): f"sum(CASE WHEN {HOUR_OF_DAY} = {hour} THEN {addend} END)"
        for hour in sorted(hours)
        for name, addend in addends.items()
    }
    return f"""
        INSERT INTO {rollup_day_hours.name} ({names}, {", ".join(sums)})
        SELECT {names}, {", ".join(sums.values())} FROM moved GROUP BY {names} ORDER BY {names}
        {_on_conflict(rollup_day_hours, sums)}
    """  # noqa: S608 - as above


def histogram_statements(buckets: Collection[int]) -> list[str]:
    """Add ``moved``, rows of ``latency_pending``, to the histograms of days and hours.

    Args:
        buckets: All buckets that are among them: other columns are not touched.
    """
    days = {"day": "hour / 86400 AS day"}
    return [
        _histogram_statement(latency_day_histograms, days, buckets),
        _histogram_statement(latency_hour_histograms, {}, buckets),
    ]


def _histogram_statement(table: Table, times: Mapping[str, str], buckets: Collection[int]) -> str:
    key = [column.name for column in table.primary_key.columns]
    names = ", ".join(key)
    place_key = [name for name in key if name != "metric"]
    place = ", ".join(times.get(name, name) for name in place_key)
    metric_rows = " UNION ALL ".join(
        f"SELECT '{metric}' AS metric, {place}, {metric} AS bucket, count(*) AS calls FROM moved"  # noqa: S608 - as above
        f" WHERE {metric} IS NOT NULL GROUP BY {', '.join(place_key)}, {metric}"
        for metric in LATENCIES
    )
    # Counted by bucket first, so that the columns are picked from few rows and not from each call.
    counts = {HISTOGRAM[n]: f"sum(CASE bucket WHEN {n} THEN calls END)" for n in sorted(buckets)}
    return f"""
        INSERT INTO {table.name} ({names}, {", ".join(counts)})
        SELECT {names}, {", ".join(counts.values())} FROM ({metric_rows}) AS latencies
        GROUP BY {names} ORDER BY {names} {_on_conflict(table, counts)}
    """  # noqa: S608 - as above


def _on_conflict(table: Table, names: Iterable[str] = ()) -> str:
    """The clause that adds to what is there; what is unknown on one side is the other's."""
    key = ", ".join(column.name for column in table.primary_key.columns)
    changed = [*names] or [field.name for field in table.columns if not field.primary_key]
    added = ", ".join(_sum_update(table, name) for name in changed)
    return f"ON CONFLICT ({key}) DO UPDATE SET {added}"


def _sum_update(table: Table, name: str) -> str:
    old, new = f"{table.name}.{name}", f"excluded.{name}"
    if name == "example":
        return f"example = CASE WHEN {new} > {old} THEN {new} ELSE {old} END"
    if table.c[name].nullable:
        return f"{name} = coalesce({old} + {new}, {old}, {new})"
    return f"{name} = {old} + {new}"


def bucket_case(micros: str, first: int = 0, end: int = len(BOUNDS_MICROS)) -> str:
    """SQL for the bucket of a latency, found by halves, so that all databases agree on it.

    Args:
        micros: SQL for the latency in microseconds.
        first: The lowest bucket it may be in.
        end: The highest.
    """
    if first == end:
        return str(first)
    middle = (first + end) // 2
    below, above = bucket_case(micros, first, middle), bucket_case(micros, middle + 1, end)
    return f"CASE WHEN {micros} < {BOUNDS_MICROS[middle]} THEN {below} ELSE {above} END"
