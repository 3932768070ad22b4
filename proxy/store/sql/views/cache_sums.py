"""Hit rates in buckets of time, and the prompts of calls that missed and hit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, Engine, func, select

from dashboards.reports import Part, SpendFilter
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, Sums, bucket_sums
from proxy.store.sql.rollups.spend_filters import Columns
from proxy.store.sql.rollups.value_sums import (
    ValueQuery,
    largest_values,
    merge_unshown,
    value_columns,
    value_of,
    value_sums,
)

_WRITES: Final = tuple(name for name in schema.BUCKETS if name.startswith("write"))
#: Characters of a kept prompt that are read.
_MAX_PROMPT_CHARS: Final = 600_000
#: Calls before a miss among which the last hit of its feature is looked for.
_MAX_CALLS_BEFORE: Final = 2_000


@dataclass(frozen=True, slots=True)
class PromptPair:
    """Prompts of a call that missed and of the last one before it that hit; None if not kept."""

    missed: str | None
    hit: str | None = None
    hit_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSplit:
    """A split of prompts by one part: its values by their labels, so many of them apart."""

    part: Part
    labels: Mapping[str, str]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFigures:
    """Figures of caches over a period.

    Attributes:
        values: Sums of the period by value, bucket 0.
        features: The same by team and feature.
        buckets: Prompt and read tokens of each bucket by value.
    """

    values: Sums
    features: Sums
    buckets: Sums


class CacheReader:
    """Caches' figures in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sums(self, edges: Sequence[int], split: CacheSplit, only: SpendFilter) -> CacheFigures:
        """Sums of a period by value and by feature, and tokens of each bucket by value.

        Args:
            edges: Beginnings of buckets, and the end of the last, in seconds since the epoch.
            split: Values that are told apart: those with most prompt tokens.
            only: Calls that count.
        """
        query = ValueQuery(
            part=split.part,
            labels=split.labels,
            addends=_rate_tokens,
            only=only,
            hour_addends=_hour_rate_tokens,
        )
        whole = SumQuery(
            place=lambda rows: [rows.team, rows.feature, *value_columns(rows, query)],
            addends=_cache_tokens,
            only=only,
        )
        with read_transaction(self._engine, is_snapshot=True) as connection:
            found = bucket_sums(connection, (edges[0], edges[-1]), whole)
            values: Sums = defaultdict(partial(defaultdict, int))
            features: Sums = defaultdict(partial(defaultdict, int))
            for (bucket, team, feature, *named), sums in found.items():
                for total in (values[bucket, value_of(named)], features[bucket, team, feature]):
                    for name, number in sums.items():
                        total[name] += number
            shown = largest_values(values, "prompt_tokens", split.limit)
            query = replace(query, shown=shown)
            return CacheFigures(
                values=merge_unshown(values, shown),
                features=features,
                buckets=value_sums(partial(bucket_sums, connection), edges, query),
            )

    def prompts_around_miss(self, call_id: str) -> PromptPair:
        """The prompt of a call, and that of the last hit of its feature and model before it."""
        calls, prompts = schema.calls.c, schema.prompts.c
        text = func.substr(prompts.text, 1, _MAX_PROMPT_CHARS)
        with read_transaction(self._engine) as connection:
            missed = connection.execute(select(text).where(prompts.call_id == call_id)).scalar()
            place = select(calls.team, calls.feature, calls.model, calls.started).where(
                calls.call_id == call_id, calls.final == 1
            )
            row = connection.execute(place).first()
            if missed is None or row is None:
                return PromptPair(missed)
            before = (
                select(calls.call_id, calls.model, calls.miss, calls.cache_read)
                .where(
                    schema.PLANNED,
                    calls.team == row.team,
                    calls.feature == row.feature,
                    calls.started < row.started,
                )
                .order_by(calls.started.desc())
                .limit(_MAX_CALLS_BEFORE)
                .subquery("before")
                .c
            )
            is_hit = before.miss.is_(None) & (before.cache_read > 0) & (before.model == row.model)
            hit = connection.execute(
                select(before.call_id, text)
                .join(schema.prompts, prompts.call_id == before.call_id)
                .where(is_hit)
                .order_by(before.call_id.desc())
                .limit(1)
            ).first()
        return PromptPair(missed, hit[1], hit[0]) if hit is not None else PromptPair(missed)


def _all_prompt_tokens(rows: Columns) -> ColumnElement[int]:
    prompt: ColumnElement[int] = rows.input + rows.cache_read
    for name in _WRITES:
        prompt += rows[name]
    return prompt


def _rate_tokens(rows: Columns) -> Mapping[str, ColumnElement[int]]:
    return {"prompt_tokens": _all_prompt_tokens(rows), "read_tokens": rows.cache_read}


def _hour_rate_tokens(
    sums: Mapping[str, ColumnElement[int]],
) -> Mapping[str, ColumnElement[int]]:
    return {"prompt_tokens": sums["prompt_tokens"], "read_tokens": sums["cache_read"]}


def _cache_tokens(rows: Columns) -> Mapping[str, ColumnElement[int]]:
    written = sum((rows[name] for name in _WRITES), start=rows.input * 0)
    return {
        "calls": rows.calls,
        "prompt_tokens": _all_prompt_tokens(rows),
        "read_tokens": rows.cache_read,
        "written_tokens": written,
        "expected_tokens": rows.expected_read,
        "missed_attempts": rows.missed,
        "missed_tokens": rows.miss_tokens,
        "missed_nanos": rows.miss_nanos,
    }
