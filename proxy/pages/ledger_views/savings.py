"""Savings of a period and those not taken yet, read and added up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import quote

import msgspec

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
from proxy.prefix.explain.reasons import FIXES
from proxy.prefix.layouts.layout import Layout
from proxy.records.feature_mode import LayoutScope, PlanningMode, model_family
from proxy.records.receipt import answering_model
from proxy.store.sql.dashboard_reads import PickledOnce, Readers
from proxy.store.sql.layout_rows import Proposal, ProposalState
from proxy.store.sql.savings import Comparison
from proxy.store.sql.savings_sums import MissTotals, ReroutedUsage
from slo.price import call_pricing
from slo.usage import Usage

_DAY_S: Final = 86_400.0
#: Days that a saving in a month is for, and that control arms are compared over.
MONTH_DAYS: Final = 30
_MAX_PROPOSALS: Final = 1_000
_MAX_FEATURES: Final = 500
_FIXABLE_REASONS: Final = [
    reason for reason, fix in FIXES.items() if not fix.startswith("Nothing to fix")
]
_CALLS_PER_PROPOSAL_SAVING: Final = 1_000
_NOTHING: Final = SavingsSums()

Features = Mapping[tuple[str, str], SavingsSums]
Measurement = PickledOnce[tuple[float, tuple[Comparison, ...]]]
"""When the arms of all features were compared, in seconds since the epoch, and the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsQuestion:
    """A question for savings.

    Attributes:
        period: Days that are asked for.
        only: Calls that count.
        next: Savings not taken yet, the largest.
        layouts_only: True to leave misses out of those.
        catalog: The catalog in force, for prices.
        measurement: The last one; None while there is none.
        now: Seconds since the epoch.
    """

    period: ReportPeriod
    only: SpendFilter
    next: int
    layouts_only: bool
    catalog: PickledOnce[Catalog]
    measurement: Measurement | None
    now: float


def savings_view(readers: Readers, asked: SavingsQuestion) -> SavingsView:
    """Savings of a period; blocks."""
    period, catalog = asked.period, asked.catalog.value
    start, end = period.bounds
    names = readers.team_names()
    read = readers.savings.sums_by_feature(start, end, asked.only)
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
    scale = MONTH_DAYS / max((min(end, asked.now) - start) / _DAY_S, 1.0)
    untaken = _next_layouts(readers, _calls_by_family(read.calls, catalog), scale, names)
    if asked.next and not asked.layouts_only:
        untaken += _next_misses(readers, asked, scale, names)
    untaken = [each for each in untaken if each.month_nanos > 0]
    untaken.sort(key=lambda each: (-each.month_nanos, each.team, each.feature))
    at, compared = (None, ()) if asked.measurement is None else asked.measurement.value
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
        measured=None if at is None else _measured_savings(asked, compared, names),
        measured_at=at,
        next=untaken[: asked.next],
        unpriced_attempts=total.unpriced,
        unknown_cached_tokens=total.unknown_cached_tokens,
        unknown_routing_calls=unknown,
    )


def compare_arms(readers: Readers, since: float) -> tuple[Comparison, ...]:
    """Compares treated calls with control arms, of all features since a moment; blocks."""
    return tuple(readers.arms.compare(since))


def _measured_savings(
    asked: SavingsQuestion, found: Sequence[Comparison], names: Mapping[str, str]
) -> list[MeasuredSaving]:
    """Those of the comparisons that are asked for."""
    teams, features = asked.only.counted_teams, asked.only.values.get("feature")
    return [
        measured_saving(each, names.get(each.team, each.team))
        for each in found
        if (teams is None or each.team in teams) and (features is None or each.feature in features)
    ]


def _next_layouts(
    readers: Readers, calls: Mapping[LayoutScope, int], scale: float, names: Mapping[str, str]
) -> list[NextSaving]:
    """Layouts that wait for a decision.

    Args:
        readers: Readers of the database.
        calls: Calls of the period by feature and family.
        scale: A month as a part of the period.
        names: Names of teams.
    """
    standings = readers.layouts.standings()
    found: list[NextSaving] = []
    for place, proposals in readers.layouts.newest_proposals(_MAX_PROPOSALS).items():
        newest = max(proposals, key=lambda each: each.version)
        if place not in calls or newest.state is not ProposalState.PROPOSED:
            continue
        mode = standings.of(place).mode or standings.mode
        found.append(_next_layout(place, newest, calls[place] * scale, mode, names))
    return found


def _next_misses(
    readers: Readers, asked: SavingsQuestion, scale: float, names: Mapping[str, str]
) -> list[NextSaving]:
    """The dearest misses that something can be done about, of as many as are asked for."""
    found = readers.savings.misses(
        *asked.period.bounds, asked.only, limit=asked.next, reasons=_FIXABLE_REASONS
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


def measured_saving(found: Comparison, team_name: str) -> MeasuredSaving:
    """A feature's comparison with its control arm, as a view shows it."""
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
