"""Hit rates and reasons for misses, read and added up, and the prompts around one miss."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from dashboards.prompt_differences import PromptDifference, prompt_difference
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.time_buckets import TimeBuckets
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
from dashboards.views.costs import NO_VALUE, OTHERS, share, value_label
from proxy.prefix.explain.reasons import FIXES
from proxy.records.feature_mode import FeatureStates, LayoutScope
from proxy.records.mark_account import StoredMarkAccount
from proxy.records.team_stake import MAX_TEAM_LOSS_NANOS
from proxy.store.sql.rollups.bucket_sums import Sums
from proxy.store.sql.rollups.value_sums import OTHER_VALUES, merge_labels
from proxy.store.sql.views.cache_sums import CacheFigures, CacheSplit
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.savings_sums import MissTotals
from slo.budget import EVERY

#: Routes whose regimes are told apart, those with most prompt tokens.
_MAX_ROUTES: Final = 1_000
_MAX_FEATURES: Final = 500
_MAX_FEATURE_REASONS: Final = 200
_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheQuestion:
    """A question for caches' health.

    Attributes:
        by: The dimension of the series.
        top: Values kept apart, by prompt tokens.
        period: Days that are asked for.
        buckets: Their buckets.
        only: Calls that count.
        providers: The provider of each upstream.
        regimes: The rules that the cache of each route follows.
        floors: The floors of all objectives.
        max_loss_nanos: Amount that a feature's marks may lose.
    """

    by: CacheDimension
    top: int
    period: ReportPeriod
    buckets: TimeBuckets
    only: SpendFilter
    providers: Mapping[str, str]
    regimes: Mapping[str, str]
    floors: Sequence[CacheFloor]
    max_loss_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPrompts:
    """The prompt of a call that missed beside that of the last hit before it.

    Attributes:
        keeps_prompts: True if the prompt of the call that missed is kept.
        hit_call_id: Id of the call that hit; None where none is known.
        difference: The first place at which they differ; None where one of them is not kept.
    """

    keeps_prompts: bool
    hit_call_id: str | None
    difference: PromptDifference | None


def cache_health_view(readers: Readers, asked: CacheQuestion) -> CacheHealthView:
    """Hit rates and misses of a period; blocks."""
    period, buckets, only = asked.period, asked.buckets, asked.only
    start, end = period.bounds
    found = readers.cache.sums(buckets.edges, _split(asked), only)
    if asked.by == "regime":
        found = _by_regime(found, asked.regimes)
    names = readers.team_names()
    size, rates = len(buckets.starts), _by_value(found.buckets)
    misses = readers.savings.misses(start, end, only, limit=_MAX_FEATURE_REASONS)
    reasons = readers.savings.misses_by_reason(start, end, only)
    return CacheHealthView(
        first=period.first,
        last=period.end - timedelta(days=1),
        tz=period.zone,
        by=asked.by,
        unit=buckets.unit,
        starts=buckets.starts,
        end=buckets.edges[-1],
        total=_cache_sums(_total(found.values.values())),
        hit_rates=_hit_rates(_sums_by_bucket(found.buckets), size),
        series=_series(found.values, rates, size, names if asked.by == "team" else {}),
        floors=_floors(asked.floors, only, names),
        reasons=[_reason(each, names) for each in reasons],
        feature_reasons=[_reason(each, names) for each in misses],
        features=_features(found.features, readers.layouts.standings(), names),
        marks=_marks(readers, asked, names),
    )


def compare_prompts(readers: Readers, call_id: str) -> ComparedPrompts:
    """Compares the prompt of a call that missed with that of the last hit before it; blocks."""
    pair = readers.cache.prompts_around_miss(call_id)
    both = pair.missed is not None and pair.hit is not None
    return ComparedPrompts(
        keeps_prompts=pair.missed is not None,
        hit_call_id=pair.hit_call_id,
        difference=prompt_difference(pair.missed or "", pair.hit or "") if both else None,
    )


def _features(found: Sums, states: FeatureStates, names: Mapping[str, str]) -> list[FeatureCache]:
    rows = [
        FeatureCache(
            team=team,
            team_name=names.get(team, team),
            feature=feature,
            mode=(states.of(LayoutScope(team, feature)).mode or states.mode).value,
            sums=_cache_sums(sums),
        )
        for (_, team, feature), sums in found.items()
    ]
    rows.sort(key=lambda row: (-row.sums.missed_nanos, -row.sums.prompt_tokens, row.team))
    return rows[:_MAX_FEATURES]


def _marks(readers: Readers, asked: CacheQuestion, names: Mapping[str, str]) -> CacheMarks:
    found = readers.marks.totals(asked.only, _MAX_FEATURES)
    return CacheMarks(
        staked_nanos=found.staked,
        earned_nanos=found.earned,
        net_nanos=found.earned - found.staked,
        lost_nanos=found.lost,
        max_loss_nanos=asked.max_loss_nanos,
        max_team_loss_nanos=MAX_TEAM_LOSS_NANOS,
        features=[_feature_marks(account, names) for account in found.largest],
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


def _split(asked: CacheQuestion) -> CacheSplit:
    """The split of the prompts that are read; regimes are merged from routes afterwards."""
    if asked.by == "regime":
        return CacheSplit(part="route", labels={}, limit=_MAX_ROUTES)
    if asked.by != "provider":
        return CacheSplit(part=asked.by, labels={}, limit=asked.top)
    labels = {name: whose for name, whose in asked.providers.items() if whose and whose != name}
    return CacheSplit(part="upstream", labels=labels, limit=asked.top)


def _by_regime(found: CacheFigures, regimes: Mapping[str, str]) -> CacheFigures:
    """Figures of routes by the rules of their caches; "" where the catalog names none."""
    regimes = {**regimes, OTHER_VALUES: OTHER_VALUES}
    return replace(
        found,
        values=merge_labels(found.values, regimes),
        buckets=merge_labels(found.buckets, regimes),
    )


def _sums_by_bucket(found: Sums) -> dict[int, dict[str, int]]:
    """Sums of each bucket, whatever the value."""
    buckets: dict[int, list[Mapping[str, int]]] = defaultdict(list)
    for (bucket, _), sums in found.items():
        buckets[bucket].append(sums)
    return {bucket: _total(some) for bucket, some in buckets.items()}


def _by_value(found: Sums) -> dict[str, dict[int, Mapping[str, int]]]:
    """Sums by value and bucket."""
    series: dict[str, dict[int, Mapping[str, int]]] = defaultdict(dict)
    for (bucket, value), sums in found.items():
        series[value][bucket] = sums
    return series


def _total(every: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for sums in every:
        for name, number in sums.items():
            total[name] += number
    return total


def _cache_sums(sums: Mapping[str, int]) -> CacheSums:
    prompt, read = sums.get("prompt_tokens", 0), sums.get("read_tokens", 0)
    names = ("calls", "written_tokens", "expected_tokens", "missed_attempts", "missed_tokens",
             "missed_nanos")  # fmt: skip
    return CacheSums(
        prompt_tokens=prompt,
        read_tokens=read,
        hit_rate=share(read, prompt),
        **{name: sums.get(name, 0) for name in names},
    )


def _hit_rates(buckets: Mapping[int, Mapping[str, int]], size: int) -> list[float | None]:
    found = (buckets.get(n, _NOTHING) for n in range(size))
    return [share(each.get("read_tokens", 0), each.get("prompt_tokens", 0)) for each in found]


def _series(
    whole: Sums,
    rates: Mapping[str, Mapping[int, Mapping[str, int]]],
    size: int,
    names: Mapping[str, str],
) -> list[HitRateSeries]:
    made = [
        HitRateSeries(
            value=OTHERS if value == OTHER_VALUES else value or NO_VALUE,
            name=OTHERS if value == OTHER_VALUES else value_label(value, names),
            is_others=value == OTHER_VALUES,
            sums=_cache_sums(sums),
            hit_rates=_hit_rates(rates.get(value, {}), size),
        )
        for (_, value), sums in whole.items()
    ]
    return sorted(made, key=lambda each: (each.is_others, -each.sums.prompt_tokens, each.value))


def _floors(
    floors: Sequence[CacheFloor], only: SpendFilter, names: Mapping[str, str]
) -> list[CacheFloor]:
    """Floors that bind calls of these teams; objectives have teams by their names."""
    teams = only.counted_teams
    seen = None if teams is None else {EVERY, *(names.get(each, each) for each in teams)}
    return [each for each in floors if seen is None or each.team in seen]


def _reason(found: MissTotals, names: Mapping[str, str]) -> MissReasonSums:
    return MissReasonSums(
        reason=found.reason,
        attempts=found.attempts,
        tokens=found.tokens,
        nanos=found.nanos,
        fix=FIXES.get(found.reason, ""),
        example=found.example,
        team=found.team,
        team_name=names.get(found.team, found.team),
        feature=found.feature,
    )
