"""The ledger's part of the first page: costs, savings, and the layouts to decide on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.access import Action, Viewer
from dashboards.views.costs import CostsView
from dashboards.views.savings import SavingsView
from proxy.pages.ledger_views.costs import CostsQuestion, costs_view
from proxy.pages.ledger_views.features import (
    FeatureLayout,
    FeaturesQuestion,
    FeatureView,
    LayoutVersion,
    features_view,
)
from proxy.pages.ledger_views.savings import SavingsQuestion, savings_view
from proxy.store.sql.dashboard_reads import Readers

_MAX_PROPOSALS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuestion:
    """The questions of the first page, by the person who opens it."""

    viewer: Viewer
    costs: CostsQuestion
    savings: SavingsQuestion
    features: FeaturesQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutProposal:
    """A layout that nobody decided on, as the first page shows it.

    Attributes:
        month_nanos: Estimated saving in thirty days, in nano-dollars; None where it is not among
            the largest.
    """

    feature: FeatureView
    layout: FeatureLayout
    version: LayoutVersion
    may_approve: bool
    month_nanos: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewView:
    """Figures of the first page; all are None where the database does not answer just now.

    Attributes:
        costs: Costs by feature.
        savings: Savings, and layouts that are not applied yet.
        proposals: The layouts that should save most in a month; those of unknown saving come last,
            in order of their saving per 1,000 calls.
    """

    costs: CostsView | None = None
    savings: SavingsView | None = None
    proposals: Sequence[LayoutProposal] | None = None


def overview_view(readers: Readers, asked: OverviewQuestion) -> OverviewView:
    """Figures of the first page; blocks."""
    savings = savings_view(readers, asked.savings)
    proposals = list(_proposals(asked.viewer, features_view(readers, asked.features), savings))
    proposals.sort(key=lambda each: (-(each.month_nanos or 0), -(each.version.saving_nanos or 0)))
    return OverviewView(
        costs=costs_view(readers, asked.costs),
        savings=savings,
        proposals=proposals[:_MAX_PROPOSALS],
    )


def _proposals(
    viewer: Viewer, features: Sequence[FeatureView], savings: SavingsView
) -> Iterator[LayoutProposal]:
    """The layouts that nobody decided on."""
    months = {(each.team, each.feature, each.family): each.month_nanos for each in savings.next}
    for feature in features:
        for layout in feature.layouts:
            if layout.versions and layout.versions[0].state == "proposed":
                yield LayoutProposal(
                    feature=feature,
                    layout=layout,
                    version=layout.versions[0],
                    may_approve=viewer.may(Action.CHANGE_TEAM_SETTINGS, feature.team),
                    month_nanos=months.get((feature.team, feature.feature, layout.family)),
                )
