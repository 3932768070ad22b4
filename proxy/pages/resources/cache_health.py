"""Hit rates, reasons for misses, and the evidence for one: ``/api/v1/cache``."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from dashboards.access import Action, Viewer
from dashboards.prompt_differences import prompt_difference
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.time_buckets import BucketUnit, TimeBuckets
from dashboards.views.cache_health import (
    CacheDimension,
    CacheFloor,
    CacheHealthView,
    CacheSums,
    FeatureCache,
    HitRateSeries,
    MissEvidenceView,
    MissReasonSums,
)
from dashboards.views.costs import NO_VALUE, OTHERS, share
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.pages.resources.queries import PlaceQuery, buckets_of, store_answer, value_label
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.prefix.explain.reasons import FIXES
from proxy.records.feature_mode import LayoutScope
from proxy.records.receipt import Receipt
from proxy.store.sql.bucket_sums import Sums
from proxy.store.sql.cache_sums import CacheFigures, CacheReader, CacheSplit
from proxy.store.sql.savings_sums import MissTotals, SavingsReader
from proxy.store.sql.value_sums import OTHER_VALUES, merge_labels
from proxy.store.store import Store
from slo.budget import EVERY
from slo.objective import Metric, Objective

_MAX_SERIES: Final = 50
#: Routes whose regimes are told apart, those with most prompt tokens.
_MAX_ROUTES: Final = 1_000
_MAX_FEATURES: Final = 500
_MAX_FEATURE_REASONS: Final = 200
_NOTHING: Final[Mapping[str, int]] = {}


class CacheQuery(PlaceQuery):
    """A question for caches' health."""

    by: CacheDimension = Field("feature", description="The dimension of the series.")
    unit: BucketUnit | None = Field(None, description="Length of a bucket; one that suits.")
    top: int = Field(8, ge=1, le=_MAX_SERIES, description="Values kept apart, by prompt tokens.")


class CacheHealth:
    """Caches' health, as pages and the API read it.

    Args:
        store: The store.
        ask: Asks it, few questions at once.
        catalog: Returns the catalog in force.
        objectives: Returns the objectives in force.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        catalog: Callable[[], Catalog],
        objectives: Callable[[], Sequence[Objective]],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._catalog = catalog
        self._objectives = objectives
        self._now = now

    async def cache_health(self, viewer: Viewer, query: CacheQuery) -> CacheHealthView:
        """Hit rates and misses of a period, of the teams that a viewer may see.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        period = query.period(self._now())
        buckets = buckets_of(period, query.unit)
        only = query.spend_filter(viewer, self._catalog().providers)
        return store_answer(
            await self._ask("cache", lambda: self._read(query, period, buckets, only))
        )

    async def evidence(self, viewer: Viewer, call_id: str) -> MissEvidenceView:
        """Evidence for the miss of a call.

        Raises:
            CallerError: They may see no calls, or there is no such call, or it missed nothing.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_CALLS)
        found = store_answer(
            await self._ask("evidence", lambda: self._read_evidence(viewer, call_id))
        )
        if not found:
            raise CallerError(
                "There is no such call of your teams whose cache missed.",
                code="miss_not_found",
                status=404,
            )
        return found[0]

    def router(self) -> APIRouter:
        """The routes of the API."""
        routes = APIRouter(tags=["cache"])

        @routes.get("/cache")
        async def cache(viewer: SignedIn, query: Annotated[CacheQuery, Query()]) -> CacheHealthView:
            """Hit rates over time against their floors, and reasons for misses."""
            return await self.cache_health(viewer, query)

        @routes.get("/cache/misses/{call_id}")
        async def miss(viewer: SignedIn, call_id: str) -> MissEvidenceView:
            """Evidence for the miss of a call, and where its prompt parts from the last hit's."""
            return await self.evidence(viewer, call_id)

        return routes

    def _read(
        self, query: CacheQuery, period: ReportPeriod, buckets: TimeBuckets, only: SpendFilter
    ) -> CacheHealthView:
        """Reads and adds up; blocks."""
        read, (start, end) = self._store.dashboard.read, period.bounds
        catalog = self._catalog()
        found = read(CacheReader.sums, buckets.edges, _split(query, catalog), only)
        if query.by == "regime":
            found = _by_regime(found, catalog)
        names = {team.id: team.name for team in self._store.teams.all()}
        size, rates = len(buckets.starts), _by_value(found.buckets)
        misses = read(SavingsReader.misses, start, end, only, limit=_MAX_FEATURE_REASONS)
        reasons = read(SavingsReader.misses_by_reason, start, end, only)
        return CacheHealthView(
            first=period.first,
            last=period.end - timedelta(days=1),
            tz=period.zone,
            by=query.by,
            unit=buckets.unit,
            starts=buckets.starts,
            end=buckets.edges[-1],
            total=_cache_sums(_total(found.values.values())),
            hit_rates=_hit_rates(_sums_by_bucket(found.buckets), size),
            series=_series(found.values, rates, size, names if query.by == "team" else {}),
            floors=_floors(self._objectives(), only, names),
            reasons=[_reason(each, names) for each in reasons],
            feature_reasons=[_reason(each, names) for each in misses],
            features=self._features(found.features, names),
        )

    def _features(self, found: Sums, names: Mapping[str, str]) -> list[FeatureCache]:
        states = self._store.layouts.standings()
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

    def _read_evidence(self, viewer: Viewer, call_id: str) -> list[MissEvidenceView]:
        """The evidence, in a list of one; [] where there is none for them; blocks."""
        receipts = self._store.ledger.attempts(call_id)
        seen = [each for each in receipts if viewer.teams is None or each.team in viewer.teams]
        missed = [each for each in seen if each.miss]
        if not missed:
            return []
        receipt = missed[-1]
        pair = self._store.dashboard.read(CacheReader.prompts_around_miss, call_id)
        both = pair.missed is not None and pair.hit is not None
        return [
            MissEvidenceView(
                call_id=call_id,
                attempt=receipt.attempt,
                reason=receipt.miss,
                detail=receipt.miss_detail,
                fix=FIXES.get(receipt.miss, ""),
                expected_tokens=receipt.expected_read,
                read_tokens=_read_tokens(receipt),
                missed_tokens=receipt.miss_tokens,
                missed_nanos=receipt.miss_nanos,
                hit_call_id=pair.hit_call_id,
                difference=prompt_difference(pair.missed or "", pair.hit or "") if both else None,
                keeps_prompts=pair.missed is not None,
            )
        ]


def _split(query: CacheQuery, catalog: Catalog) -> CacheSplit:
    """The split of the prompts that are read; regimes are merged from routes afterwards."""
    if query.by == "regime":
        return CacheSplit(part="route", labels={}, limit=_MAX_ROUTES)
    if query.by != "provider":
        return CacheSplit(part=query.by, labels={}, limit=query.top)
    providers = catalog.providers
    labels = {name: whose for name, whose in providers.items() if whose and whose != name}
    return CacheSplit(part="upstream", labels=labels, limit=query.top)


def _by_regime(found: CacheFigures, catalog: Catalog) -> CacheFigures:
    """Figures of routes by the rules of their caches; "" where the catalog names none."""
    regimes = {each.name: each.regime for model in catalog.models.values() for each in model.routes}
    regimes[OTHER_VALUES] = OTHER_VALUES
    return replace(
        found,
        values=merge_labels(found.values, regimes),
        buckets=merge_labels(found.buckets, regimes),
    )


def _read_tokens(receipt: Receipt) -> int | None:
    return None if receipt.usage is None else receipt.usage.cache_read


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
    objectives: Sequence[Objective], only: SpendFilter, names: Mapping[str, str]
) -> list[CacheFloor]:
    """Floors that bind calls of these teams; objectives have teams by their names."""
    teams = only.counted_teams
    seen = None if teams is None else {EVERY, *(names.get(each, each) for each in teams)}
    return [
        CacheFloor(objective=each.name, team=each.team, feature=each.feature, floor=each.target)
        for each in objectives
        if each.metric is Metric.CACHE and (seen is None or each.team in seen)
    ]


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
