"""Hit rates and reasons for misses, and the prompts around one miss: read and made into views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, Connection, cast, func, select

from dashboards.prompt_differences import PromptDifference, prompt_difference
from dashboards.reports import Part, SpendFilter
from dashboards.views.cache_health import (
    CacheDimension,
    CacheFloor,
    CacheHealthView,
    CacheMarks,
    CacheSums,
    FeatureCache,
    FeatureMarks,
    HitRateSeries,
    MissReasonSums,
)
from dashboards.views.costs import share
from proxy.prefix.explain.reasons import FIXES
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.records.mark_account import MAX_TEAM_LOSS_NANOS, StoredMarkAccount
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, Sums, bucket_sums
from proxy.store.sql.rollups.rollup_tables import rollup_misses
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    ValueQuery,
    add_up,
    largest_values,
    merge_labels,
    merge_unshown,
    sums_by,
    value_columns,
    value_of,
    value_sums,
)
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.series import SeriesQuestion, series_name
from slo.budgets.budget import EVERY

_DAY_S: Final = 86_400
_WRITES: Final = tuple(name for name in schema.BUCKETS if name.startswith("write"))
#: Routes whose regimes are told apart, those with most prompt tokens.
_MAX_ROUTES: Final = 1_000
_MAX_FEATURES: Final = 500
_MAX_FEATURE_REASONS: Final = 200
#: Characters of a kept prompt that are read.
_MAX_PROMPT_CHARS: Final = 600_000
#: Calls before a miss among which the last hit of its feature is looked for.
_MAX_CALLS_BEFORE: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheQuestion(SeriesQuestion[CacheDimension]):
    """A question for caches' health.

    Attributes:
        regimes: The rules that the cache of each route follows.
        max_loss_nanos: Amount that a feature's marks may lose.
    """

    regimes: Mapping[str, str]
    floors: Sequence[CacheFloor]
    max_loss_nanos: int

    @property
    def part(self) -> Part:
        """The part that is read; regimes are merged from routes afterwards."""
        return "route" if self.by == "regime" else super(CacheQuestion, self).part


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPrompts:
    """The prompt of a call that missed beside that of the last hit before it.

    Attributes:
        hit_call_id: Id of the call that hit; None where none is known.
        difference: The first place at which they differ; None where one of them is not kept.
    """

    keeps_prompts: bool
    hit_call_id: str | None = None
    difference: PromptDifference | None = None


def cache_health_view(readers: Readers, question: CacheQuestion) -> CacheHealthView:
    """Hit rates and misses of a period; blocks."""
    period, only, names = question.period.bounds, question.only, readers.team_names()
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        values, features, buckets = tokens_by_value(connection, question)
        reasons = misses(connection, period, only, names)
        by_feature = misses(
            connection, period, only, names, places=("team", "feature"), limit=_MAX_FEATURE_REASONS
        )
    size = len(question.buckets.starts)
    whole = [add_up(sums for key, sums in buckets.items() if key[0] == n) for n in range(size)]
    return CacheHealthView(
        **question.frame,
        total=_cache_sums(add_up(values.values())),
        hit_rates=[_hit_rate(sums) for sums in whole],
        series=_series(values, buckets, size, names if question.by == "team" else {}),
        floors=_floors(question.floors, only, names),
        reasons=reasons,
        feature_reasons=by_feature,
        features=_features(features, readers.layouts.states(), names),
        marks=_marks(readers, question, names),
    )


def tokens_by_value(connection: Connection, question: CacheQuestion) -> tuple[Sums, Sums, Sums]:
    """Sums of a period by value and by team and feature, and tokens of each bucket by value."""
    query = ValueQuery(
        part=question.part,
        labels=question.labels,
        addends=_rate_tokens,
        only=question.only,
        hour_addends=_hour_rate_tokens,
    )
    whole = SumQuery(
        place=lambda rows: [rows.team, rows.feature, *value_columns(rows, query)],
        addends=_cache_tokens,
        only=question.only,
    )
    edges = question.buckets.edges
    every = bucket_sums(connection, (edges[0], edges[-1]), whole)
    values = sums_by(every, lambda key: (key[0], value_of(key[3:])))
    shown = largest_values(
        values, "prompt_tokens", _MAX_ROUTES if question.by == "regime" else question.top
    )
    values = merge_unshown(values, shown)
    buckets = value_sums(partial(bucket_sums, connection), edges, replace(query, shown=shown))
    if question.by == "regime":
        regimes = {**question.regimes, OTHER_VALUES: OTHER_VALUES}
        values, buckets = merge_labels(values, regimes), merge_labels(buckets, regimes)
    return values, sums_by(every, lambda key: key[:3]), buckets


def misses(
    connection: Connection,
    period: tuple[int, int],
    only: SpendFilter,
    names: Mapping[str, str],
    *,
    places: Sequence[str] = (),
    limit: int | None = None,
) -> list[MissReasonSums]:
    """Misses by reason, the dearest first, of whole days of UTC.

    Args:
        period: A moment of the first day and one of the last, whose midnight belongs to the day
            before; in seconds since the epoch.
        only: Calls that count; keys are not told apart.
        places: ``team`` and ``feature``, where misses are told apart by them, too.
    """
    rows = rollup_misses.c
    columns = [rows[name] for name in places]
    nanos = cast(func.coalesce(func.sum(rows.nanos), 0), BigInteger).label("nanos")
    tokens = cast(func.sum(rows.tokens), BigInteger).label("tokens")
    attempts = cast(func.sum(rows.attempts), BigInteger).label("attempts")
    days = rows.day.between(period[0] // _DAY_S, (period[1] - 1) // _DAY_S)
    query = (
        select(
            rows.reason, attempts, tokens, nanos, func.max(rows.example).label("example"), *columns
        )
        .where(days, *filter_conditions(rows, only))
        .group_by(*columns, rows.reason)
        .order_by(nanos.desc(), tokens.desc(), *columns, rows.reason)
        .limit(limit)
    )
    return [
        MissReasonSums(
            **row,
            fix=FIXES.get(row["reason"], ""),
            team_name=names.get(row.get("team", ""), row.get("team", "")),
        )
        for row in connection.execute(query).mappings()
    ]


def compare_prompts(readers: Readers, call_id: str) -> ComparedPrompts:
    """Compares the prompt of a call that missed with that of the last hit before it; blocks.

    The hit is one of its feature and model.
    """
    calls, prompts = schema.calls.c, schema.prompts.c
    text = func.substr(prompts.text, 1, _MAX_PROMPT_CHARS)
    with read_transaction(readers.engine) as connection:
        missed = connection.execute(select(text).where(prompts.call_id == call_id)).scalar()
        place = select(calls.team, calls.feature, calls.model, calls.started).where(
            calls.call_id == call_id, calls.final == 1
        )
        row = connection.execute(place).first()
        if missed is None or row is None:
            return ComparedPrompts(keeps_prompts=missed is not None)
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
    if hit is None:
        return ComparedPrompts(keeps_prompts=True)
    return ComparedPrompts(
        keeps_prompts=True, hit_call_id=hit[0], difference=prompt_difference(missed, hit[1])
    )


def _features(
    sums_by_feature: Sums, states: FeatureStates, names: Mapping[str, str]
) -> list[FeatureCache]:
    rows = [
        FeatureCache(
            team=team,
            team_name=names.get(team, team),
            feature=feature,
            mode=(states.of(LayoutScope(team, feature)).mode or states.mode).value,
            sums=_cache_sums(sums),
        )
        for (_, team, feature), sums in sums_by_feature.items()
    ]
    rows.sort(key=lambda row: (-row.sums.missed_nanos, -row.sums.prompt_tokens, row.team))
    return rows[:_MAX_FEATURES]


def _marks(readers: Readers, question: CacheQuestion, names: Mapping[str, str]) -> CacheMarks:
    totals = readers.marks.totals(question.only, _MAX_FEATURES)
    return CacheMarks(
        staked_nanos=totals.staked,
        earned_nanos=totals.earned,
        net_nanos=totals.earned - totals.staked,
        lost_nanos=totals.lost,
        max_loss_nanos=question.max_loss_nanos,
        max_team_loss_nanos=MAX_TEAM_LOSS_NANOS,
        features=[_feature_marks(account, names) for account in totals.largest],
    )


def _feature_marks(account: StoredMarkAccount, names: Mapping[str, str]) -> FeatureMarks:
    scope = account.scope
    return FeatureMarks(
        team=scope.team,
        team_name=names.get(scope.team, scope.team),
        feature=scope.feature,
        family=scope.family,
        calls=account.calls,
        staked_nanos=account.staked,
        earned_nanos=account.earned,
        net_nanos=account.earned - account.staked,
        lost_nanos=account.lost,
    )


def _cache_sums(sums: Mapping[str, int]) -> CacheSums:
    names = (field.name for field in fields(CacheSums) if field.name != "hit_rate")
    return CacheSums(**{name: sums.get(name, 0) for name in names}, hit_rate=_hit_rate(sums))


def _hit_rate(sums: Mapping[str, int]) -> float | None:
    return share(sums.get("read_tokens", 0), sums.get("prompt_tokens", 0))


def _series(
    values: Sums, buckets: Sums, size: int, names: Mapping[str, str]
) -> list[HitRateSeries]:
    series = [
        HitRateSeries(
            **series_name(value, names),
            sums=_cache_sums(sums),
            hit_rates=[_hit_rate(buckets.get((n, value), {})) for n in range(size)],
        )
        for (_, value), sums in values.items()
    ]
    return sorted(series, key=lambda row: (row.is_others, -row.sums.prompt_tokens, row.value))


def _floors(
    floors: Sequence[CacheFloor], only: SpendFilter, names: Mapping[str, str]
) -> list[CacheFloor]:
    """Floors that bind calls of these teams; objectives have teams by their names."""
    teams = only.counted_teams
    seen = None if teams is None else {EVERY, *(names.get(floor, floor) for floor in teams)}
    return [floor for floor in floors if seen is None or floor.team in seen]


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
