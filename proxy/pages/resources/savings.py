"""Savings of a period as a waterfall, and those not taken yet: ``/api/v1/savings``."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field

from dashboards.access import Action, Viewer
from dashboards.pages import HOME
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.costs import NO_VALUE, share
from dashboards.views.savings import (
    FeatureSavings,
    MeasuredSaving,
    NextSaving,
    SavingsSums,
    SavingsView,
    waterfall,
)
from proxy.catalog.catalog import Catalog
from proxy.pages.resources.queries import PlaceQuery, store_answer
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.prefix.explain.reasons import FIXES
from proxy.prefix.layouts.layout import Layout
from proxy.records.feature_mode import LayoutScope, PlanningMode, model_family
from proxy.records.receipt import answering_model
from proxy.store.sql.layout_rows import Proposal, ProposalState
from proxy.store.sql.savings import Comparison, Savings
from proxy.store.sql.savings_sums import MissTotals, ReroutedUsage, SavingsReader
from proxy.store.store import Store
from slo.price import call_pricing
from slo.usage import Usage

_DAY_S: Final = 86_400.0
_MONTH_DAYS: Final = 30
#: Seconds for which a measurement against the control arm is shown before it is made again.
_MEASUREMENT_LIFETIME_S: Final = 3_600.0
#: Part of a page's patience that waits for such a measurement.
_MEASUREMENT_SHARE: Final = 0.1
_MAX_PROPOSALS: Final = 1_000
_MAX_FEATURES: Final = 500
MAX_NEXT: Final = 20
_FIXABLE_REASONS: Final = [
    reason for reason, fix in FIXES.items() if not fix.startswith("Nothing to fix")
]
_CALLS_PER_PROPOSAL_SAVING: Final = 1_000
_NOTHING: Final = SavingsSums()

Features = Mapping[tuple[str, str], SavingsSums]


class SavingsQuery(PlaceQuery):
    """A question for savings."""

    next: int = Field(3, ge=0, le=MAX_NEXT, description="Savings not taken yet, the largest.")
    layouts_only: bool = Field(default=False, description="Of those only layouts, no misses.")


class SavingsResource:
    """Savings, as pages and the API read them.

    Args:
        store: The store.
        ask: Asks it, few questions at once.
        catalog: The catalog in force.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        catalog: Callable[[], Catalog],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._catalog = catalog
        self._now = now
        self._measured: tuple[float, tuple[Comparison, ...]] | None = None

    async def savings(self, viewer: Viewer, query: SavingsQuery) -> SavingsView:
        """Savings of a period, of the teams that a viewer may see.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        now = self._now()
        period = query.period(now)
        catalog = self._catalog()
        only = query.spend_filter(viewer, catalog.providers)
        view = store_answer(
            await self._ask("savings", lambda: self._read(period, only, catalog, query))
        )
        await self._refresh_measurement()
        return self._with_measurement(view, only)

    async def measurement_of(
        self, viewer: Viewer, team: str, team_name: str, feature: str
    ) -> Sequence[MeasuredSaving] | None:
        """The control arm's word on one feature: one saving, or none; None while it is measured.

        Raises:
            CallerError: They may not see the team's costs.
        """
        check_allowed(viewer, Action.SEE_COSTS, team)
        await self._refresh_measurement()
        if self._measured is None:
            return None
        found = (each for each in self._measured[1] if (each.team, each.feature) == (team, feature))
        return [_measured_saving(each, team_name) for each in found]

    def router(self) -> APIRouter:
        """The route of the API."""
        routes = APIRouter(tags=["savings"])

        @routes.get("/savings")
        async def savings(viewer: SignedIn, query: Annotated[SavingsQuery, Query()]) -> SavingsView:
            """Savings of a period as a signed waterfall, and the largest not taken yet."""
            return await self.savings(viewer, query)

        return routes

    def _read(
        self, period: ReportPeriod, only: SpendFilter, catalog: Catalog, query: SavingsQuery
    ) -> SavingsView:
        """Reads and adds up; blocks."""
        start, end = period.bounds
        names = {team.id: team.name for team in self._store.teams.all()}
        read = self._store.dashboard.read(SavingsReader.sums_by_feature, start, end, only)
        features, unknown = read.features, 0
        for each in read.rerouted:
            nanos = _routing_nanos(each, catalog, end)
            unknown += each.calls if nanos is None else 0
            place = each.team, each.feature
            sums = features.get(place, _NOTHING)
            routed = sums.routing_nanos + (nanos or 0)
            features[place] = msgspec.structs.replace(sums, routing_nanos=routed)
        total = _NOTHING
        for sums in features.values():
            total = total.plus(sums)
        saved = total.unmodified_nanos - total.cost_nanos
        scale = _MONTH_DAYS / max((min(end, self._now()) - start) / _DAY_S, 1.0)
        untaken = self._next_layouts(_calls_by_family(read.calls, catalog), scale, names)
        if query.next and not query.layouts_only:
            untaken += self._next_misses(period, only, query.next, scale, names)
        untaken = [each for each in untaken if each.month_nanos > 0]
        untaken.sort(key=lambda each: (-each.month_nanos, each.team, each.feature))
        return SavingsView(
            first=period.first,
            last=period.end - timedelta(days=1),
            tz=period.zone,
            unmodified_nanos=total.unmodified_nanos,
            steps=waterfall(total),
            paid_nanos=total.cost_nanos,
            saved_nanos=saved,
            saved_share=share(saved, total.unmodified_nanos),
            features=_feature_rows(features, names),
            measured=None,
            measured_at=None,
            next=untaken[: query.next],
            unpriced_attempts=total.unpriced,
            unknown_cached_tokens=total.unknown_cached_tokens,
            unknown_routing_calls=unknown,
        )

    async def _refresh_measurement(self) -> None:
        """Measures again where the last result is old, and waits for a moment."""
        if self._measured is None or self._now() - self._measured[0] > _MEASUREMENT_LIFETIME_S:
            await self._ask("measured savings", self._measure, _MEASUREMENT_SHARE)

    def _measure(self) -> None:
        """Compares the arms of all features over thirty days; blocks, for long on a large ledger.

        It reads receipts, so it is done seldom; pages show the last result meanwhile.
        """
        now = self._now()
        found = self._store.dashboard.read(Savings.compare, now - _MONTH_DAYS * _DAY_S)
        self._measured = now, tuple(found)

    def _with_measurement(self, view: SavingsView, only: SpendFilter) -> SavingsView:
        if self._measured is None:
            return view
        at, found = self._measured
        names = {each.team: each.team_name for each in view.features}
        teams, features = only.counted_teams, only.values.get("feature")
        measured = [
            _measured_saving(each, names.get(each.team, each.team))
            for each in found
            if (teams is None or each.team in teams)
            and (features is None or each.feature in features)
        ]
        return replace(view, measured=measured, measured_at=at)

    def _next_layouts(
        self, calls: Mapping[LayoutScope, int], scale: float, names: Mapping[str, str]
    ) -> list[NextSaving]:
        """Layouts that wait for a decision.

        Args:
            calls: Calls of the period by feature and family.
            scale: A month as a part of the period.
            names: Names of teams.
        """
        standings = self._store.layouts.standings()
        found: list[NextSaving] = []
        for place, proposals in self._store.layouts.newest_proposals(_MAX_PROPOSALS).items():
            newest = max(proposals, key=lambda each: each.version)
            if place not in calls or newest.state is not ProposalState.PROPOSED:
                continue
            mode = standings.of(place).mode or standings.mode
            found.append(_next_layout(place, newest, calls[place] * scale, mode, names))
        return found

    def _next_misses(
        self,
        period: ReportPeriod,
        only: SpendFilter,
        limit: int,
        scale: float,
        names: Mapping[str, str],
    ) -> list[NextSaving]:
        """The dearest misses that something can be done about, of so many."""
        read = self._store.dashboard.read
        found = read(
            SavingsReader.misses, *period.bounds, only, limit=limit, reasons=_FIXABLE_REASONS
        )
        return [_next_miss(each, scale, names) for each in found]


def _calls_by_family(
    calls: Mapping[tuple[str, str, str, str], int], catalog: Catalog
) -> Mapping[LayoutScope, int]:
    """Calls of each feature by the family of the model that answered, and of all together."""
    found: Counter[LayoutScope] = Counter()
    for (team, feature, requested, route), count in calls.items():
        name = answering_model(route, requested)
        model = catalog.find(name)
        routes = () if model is None else model.routes
        upstream_name = next((each.model for each in routes if each.name == route), "") or name
        scope = LayoutScope(team, feature, model_family(upstream_name))
        for each in {scope, scope.all_families}:
            found[each] += count
    return found


def _routing_nanos(found: ReroutedUsage, catalog: Catalog, at: float) -> int | None:
    """List cost on the model asked for, less that of the one that answered; None if unknown.

    Prices are those valid at a moment, of the model's first route at standard terms; uplifts for
    long prompts are left out, because the sums tell no single prompt's length.
    """
    model = catalog.find(found.requested)
    tariff = model.routes[0].tariff if model is not None and model.routes else None
    pricing = None if tariff is None else call_pricing(Usage(), tariff, at)
    cost = None if pricing is None else pricing.cost(found.usage)
    return None if cost is None else cost.list_nanos - found.list_nanos


def _feature_rows(features: Features, names: Mapping[str, str]) -> list[FeatureSavings]:
    rows = [
        FeatureSavings(
            team=team,
            team_name=names.get(team, team),
            feature=feature,
            calls=sums.calls,
            unmodified_nanos=sums.unmodified_nanos,
            steps=list(sums.steps.values()),
            paid_nanos=sums.cost_nanos,
        )
        for (team, feature), sums in features.items()
    ]
    rows.sort(key=lambda row: (row.paid_nanos - row.unmodified_nanos, row.team, row.feature))
    return rows[:_MAX_FEATURES]


def _measured_saving(found: Comparison, team_name: str) -> MeasuredSaving:
    verdict = found.verdict
    saving = verdict.saving
    return MeasuredSaving(
        team=found.team,
        team_name=team_name,
        feature=found.feature,
        finding=verdict.finding.value,
        share=None if saving is None else saving.value,
        low=None if saving is None else saving.low,
        high=None if saving is None else saving.high,
        treated_conversations=found.treated.conversations,
        control_conversations=found.control.conversations,
        missing_conversations=found.missing_conversations,
        why=verdict.why,
    )


def _next_layout(
    place: LayoutScope,
    proposal: Proposal,
    month_calls: float,
    mode: PlanningMode,
    names: Mapping[str, str],
) -> NextSaving:
    """A layout that waits for a decision."""
    layout = msgspec.json.decode(proposal.moves, type=Layout)
    per_call = sum(move.saving for move in layout.moves) / _CALLS_PER_PROPOSAL_SAVING
    is_observed = mode is PlanningMode.OBSERVE
    apply = "Set its planning mode to apply or auto" if is_observed else "Approve the layout"
    return NextSaving(
        kind="observe" if is_observed else "layout",
        team=place.team,
        team_name=names.get(place.team, place.team),
        feature=place.feature,
        family=place.family,
        month_nanos=round(per_call * month_calls),
        title="Moving text that varies behind text that stays the same",
        action=f"{apply}, version {proposal.version}.",
        link=_layout_link(place.team, place.feature),
    )


def _next_miss(found: MissTotals, scale: float, names: Mapping[str, str]) -> NextSaving:
    """A reason for misses that something can be done about."""
    return NextSaving(
        kind="miss",
        team=found.team,
        team_name=names.get(found.team, found.team),
        feature=found.feature,
        month_nanos=round(found.nanos * scale),
        title=f"Cache misses: {found.reason}",
        action=FIXES[found.reason],
        link=f"{HOME}/cache?{_cache_query(found)}",
    )


def _cache_query(found: MissTotals) -> str:
    feature = found.feature or NO_VALUE
    return f"team={quote(found.team, safe='')}&feature={quote(feature, safe='')}"


def _layout_link(team: str, feature: str) -> str:
    return f"{HOME}/layouts/{quote(team, safe='')}/{quote(feature, safe='')}"
