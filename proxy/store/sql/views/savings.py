"""Reads a period's savings, the steps not taken yet, and the overview's figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from dashboards.savings_headline import SavingsHeadline, SavingsSums
from dashboards.views.costs import CostsView
from dashboards.views.latency import HealthView
from dashboards.views.savings import FeatureSavings, MeasuredSaving, SavingsView
from proxy.store.sql.ledger.control_arms import Comparison
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.counted_savings import (
    CountedSavings,
    counted_savings,
)
from proxy.store.sql.views.latency import HealthQuestion, health_view
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.next_steps import StepsQuestion, next_steps

_MAX_FEATURES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsQuestion(StepsQuestion):
    """A question for savings, with the largest steps not taken yet; ``next`` says how many."""

    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuestion:
    """The questions of the first page."""

    costs: CostsQuestion
    savings: SavingsQuestion
    health: HealthQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    """Figures of the first page; those are None that the database does not tell just now."""

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
        estimated_nanos=counted.estimated_nanos,
        next=next_steps(readers, question, counted, names)[: question.next],
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
