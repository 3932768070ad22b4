"""Reads a period's savings, those not taken yet, and the overview's figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final
from urllib.parse import quote

from dashboards.access import Action, Viewer
from dashboards.pages import HOME
from dashboards.savings_headline import SavingsHeadline, SavingsSums
from dashboards.views.costs import CostsView
from dashboards.views.latency import HealthView
from dashboards.views.savings import FeatureSavings, MeasuredSaving, NextSaving, SavingsView
from proxy.catalog.catalog import Catalog
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.control_arms import Comparison
from proxy.store.sql.settings.layouts import UndecidedLayout, undecided_layouts
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.counted_savings import (
    CountedSavings,
    SavingsScope,
    counted_savings,
    layout_scope,
)
from proxy.store.sql.views.latency import HealthQuestion, health_view
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.savings_sums import first_quarter

_DAY_S: Final = 86_400.0
#: Days that a saving in a month is for.
MONTH_DAYS: Final = 30
#: Days of calls from which a month is extrapolated.
_MIN_DAYS: Final = 1.0
_MAX_FEATURES: Final = 500
_CALLS_PER_PROPOSAL_SAVING: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsQuestion:
    """A question for savings.

    Attributes:
        next: Savings not taken yet, the largest.
    """

    viewer: Viewer
    scope: SavingsScope
    next: int
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuestion:
    """The questions of the first page."""

    costs: CostsQuestion
    savings: SavingsQuestion
    health: HealthQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    """Figures of the first page; all are None where the database does not answer just now."""

    costs: CostsView | None = None
    savings: SavingsView | None = None
    health: HealthView | None = None


def overview_view(readers: Readers, question: OverviewQuestion) -> OverviewView:
    """Figures of the first page; blocks."""
    return OverviewView(
        costs=costs_view(readers, question.costs),
        savings=savings_view(readers, question.savings),
        health=health_view(readers, question.health),
    )


def savings_view(readers: Readers, question: SavingsQuestion) -> SavingsView:
    """Savings of a period; blocks."""
    period, measurement = question.scope.period, question.scope.measurement
    counted = counted_savings(readers, question.scope)
    names = readers.team_names()
    headline = counted.headline
    return SavingsView(
        **{field.name: getattr(headline, field.name) for field in fields(SavingsHeadline)},
        first=period.first,
        last=period.end - timedelta(days=1),
        tz=period.zone,
        features=_feature_rows(counted, names),
        measured=None
        if measurement is None
        else _measured_savings(question, measurement.value.comparisons, names),
        next=_next_savings(readers, question, counted, names)[: question.next],
        unknown_cached_tokens=counted.unknown_cached_tokens,
        unknown_routing_calls=counted.unknown_routing_calls,
    )


def _measured_savings(
    question: SavingsQuestion, compared: Sequence[Comparison], names: Mapping[str, str]
) -> list[MeasuredSaving]:
    """Those of the comparisons that are asked for."""
    only = question.scope.only
    teams, features = only.counted_teams, only.values.get("feature")
    return [
        measured_saving(comparison, names.get(comparison.team, comparison.team))
        for comparison in compared
        if (teams is None or comparison.team in teams)
        and (features is None or comparison.feature in features)
    ]


def _next_savings(
    readers: Readers, question: SavingsQuestion, counted: CountedSavings, names: Mapping[str, str]
) -> list[NextSaving]:
    """Layouts that wait for a decision and would save on the period's calls, most money first."""
    calls = _calls_by_scope(counted, question.scope.catalog.value)
    waiting = [
        layout
        for layout in undecided_layouts(readers.layouts)
        if layout.nanos > 0 and calls[layout.place]
    ]
    waiting.sort(key=lambda layout: (-layout.nanos * calls[layout.place], layout.place))
    days = _known_days(readers, question) if waiting else 0.0
    return [_next_saving(layout, calls[layout.place], days, names, question) for layout in waiting]


def _known_days(readers: Readers, question: SavingsQuestion) -> float:
    """Days from the first call of the period to its end or to now; 0 without a call."""
    scope = question.scope
    period = scope.period.bounds
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        first = first_quarter(connection, period, scope.only)
    return 0.0 if first is None else (min(period[1], question.now) - first) / _DAY_S


def _next_saving(
    layout: UndecidedLayout,
    calls: int,
    days: float,
    names: Mapping[str, str],
    question: SavingsQuestion,
) -> NextSaving:
    """A layout that waits for a decision, and what it saves a month by the calls of some days."""
    place = layout.place
    feature = quote(place.feature or "-", safe="")
    saved = layout.nanos * calls / _CALLS_PER_PROPOSAL_SAVING
    return NextSaving(
        team=place.team,
        team_name=names.get(place.team, place.team),
        feature=place.feature,
        family=place.family,
        version=layout.version,
        moves=layout.moves,
        nanos_per_1k_calls=layout.nanos,
        seen_calls=layout.calls,
        is_early=layout.is_early,
        month_nanos=round(saved * MONTH_DAYS / days) if days >= _MIN_DAYS else None,
        known_days=days,
        link=f"{HOME}/layouts/{quote(place.team, safe='')}/{feature}",
        may_apply=question.viewer.may(Action.CHANGE_TEAM_SETTINGS, place.team),
        is_observed=layout.mode is PlanningMode.OBSERVE,
    )


def _calls_by_scope(counted: CountedSavings, catalog: Catalog) -> Counter[LayoutScope]:
    """Calls of each feature by the family of the model that answered, and of all together."""
    calls: Counter[LayoutScope] = Counter()
    for place, sums in counted.places.items():
        scope = layout_scope(place, catalog)
        for family_scope in {scope, scope.all_families}:
            calls[family_scope] += sums.calls
    return calls


def _feature_rows(counted: CountedSavings, names: Mapping[str, str]) -> list[FeatureSavings]:
    rows = [
        _feature_row(team, feature, sums, names)
        for (team, feature), sums in counted.features().items()
    ]
    rows.sort(key=lambda row: (-row.saved_nanos, row.team, row.feature))
    return rows[:_MAX_FEATURES]


def _feature_row(
    team: str, feature: str, sums: SavingsSums, names: Mapping[str, str]
) -> FeatureSavings:
    return FeatureSavings(
        team=team,
        team_name=names.get(team, team),
        feature=feature,
        calls=sums.calls,
        unmodified_nanos=sums.unmodified_nanos,
        steps=list(sums.steps.values()),
        direct_nanos=sums.direct_nanos,
        saved_nanos=sums.saved_nanos,
        paid_nanos=sums.cost_nanos,
    )


def measured_saving(comparison: Comparison, team_name: str) -> MeasuredSaving:
    """A feature's comparison with its control arm, as a view shows it."""
    verdict = comparison.verdict
    saving = verdict.saving
    return MeasuredSaving(
        team=comparison.team,
        team_name=team_name,
        feature=comparison.feature,
        finding=verdict.finding.value,
        share=None if saving is None else saving.value,
        low=None if saving is None else saving.low,
        high=None if saving is None else saving.high,
        treated_conversations=comparison.treated.conversations,
        control_conversations=comparison.control.conversations,
        missing_conversations=comparison.missing_conversations,
        why=verdict.why,
    )
