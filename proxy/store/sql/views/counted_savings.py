"""Reads savings from the rollups, adjusts them for suspensions and control arms, and sums them.

Every page, report, command and mail reads this, so all show the same figure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection

from dashboards.report_periods import months_between
from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from dashboards.savings_headline import (
    MeasuredShare,
    SavingsHeadline,
    SavingsPart,
    SavingsSums,
    UncountedSaving,
    count_planning,
    savings_headline,
)
from proxy.catalog.catalog import Catalog
from proxy.prefix.guard import ArmComparison, ComparisonFinding
from proxy.records.compaction_settings import SettingsSnapshot
from proxy.records.feature_mode import FeatureStates, LayoutScope, model_family
from proxy.records.receipt import answering_model
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.control_arms import ArmMeasurement
from proxy.store.sql.rollups.spend_sums import estimated_cost
from proxy.store.sql.views.readers import PickledOnce, Readers
from proxy.store.sql.views.savings_sums import (
    ReroutedUsage,
    SavingsPlace,
    first_quarter,
    sums_by_place,
)
from slo.price import call_pricing
from slo.usage import Usage

_NOTHING: Final = SavingsSums()

Measurement = PickledOnce[ArmMeasurement]
"""The comparison of all arms that counts, as it goes with questions."""


class RunningCost(NamedTuple):
    """The cost of running the gateway, a month in US dollars, which it has had until a moment."""

    usd_month: Decimal
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsScope:
    """Calls whose savings are asked for.

    Attributes:
        measurement: Comparison of arms that counts; None where there is none yet.
        running: Cost of running the gateway; None where it is unknown, or for a part of all calls.
    """

    period: ReportPeriod
    catalog: PickledOnce[Catalog]
    only: SpendFilter = ALL_CALLS
    measurement: Measurement | None = None
    running: RunningCost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSavings:
    """Savings of a period as they count.

    Attributes:
        places: Sums by team, feature, model asked for and route.
        unknown_cached_tokens: Tokens read from caches of which the saving is unknown.
        unknown_routing_calls: Calls of a model without a known price that another one answered.
        estimated_nanos: The part of the cost whose usage the gateway counted.
    """

    places: Mapping[SavingsPlace, SavingsSums]
    headline: SavingsHeadline
    unknown_cached_tokens: int
    unknown_routing_calls: int
    estimated_nanos: int | None

    def features(self) -> dict[tuple[str, str], SavingsSums]:
        """Sums by team and feature."""
        sums: dict[tuple[str, str], SavingsSums] = {}
        for (team, feature, _, _), one in self.places.items():
            sums[team, feature] = sums.get((team, feature), _NOTHING).plus(one)
        return sums


def read_headline(readers: Readers, scope: SavingsScope) -> SavingsHeadline:
    """The headline of what counts; blocks."""
    return counted_savings(readers, scope).headline


def counted_savings(readers: Readers, scope: SavingsScope) -> CountedSavings:
    """Savings of a period as they count; blocks."""
    catalog, period = scope.catalog.value, scope.period.bounds
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        sums, every_rerouted = sums_by_place(connection, period, scope.only)
        estimated = estimated_cost(connection, period, scope.only)
        running = (
            None if scope.running is None else _running_nanos(connection, scope.running, scope)
        )
    judge = _Judge(
        states=readers.layouts.states(),
        compactions=readers.compactions.all_settings(),
        verdicts=_verdicts(scope.measurement),
        catalog=catalog,
    )
    places = {place: judge.count(place, one) for place, one in sums.items()}
    unknown = 0
    for rerouted in every_rerouted:
        nanos = _routing_nanos(rerouted, catalog, period[1])
        unknown += rerouted.calls if nanos is None else 0
        name = "fallback_nanos" if rerouted.is_fallback else "routing_nanos"
        gain = msgspec.structs.replace(_NOTHING, **{name: nanos or 0})
        places[rerouted.place] = places[rerouted.place].plus(gain)
    total = _NOTHING
    for one in places.values():
        total = total.plus(one)
    return CountedSavings(
        places=places,
        headline=savings_headline(
            total,
            judge.uncounted_savings(readers.team_names()),
            None if scope.measurement is None else scope.measurement.value.at,
            running,
        ),
        unknown_cached_tokens=total.unknown_cached_tokens,
        unknown_routing_calls=unknown,
        estimated_nanos=estimated,
    )


def _running_nanos(connection: Connection, running: RunningCost, scope: SavingsScope) -> int:
    """The cost of running the gateway in a period, from the ledger's first call on."""
    start, end = scope.period.bounds
    until = min(end, running.until)
    first = first_quarter(connection, (0, end), ALL_CALLS)
    since = until if first is None else max(start, first)
    months = months_between(since, until, scope.period.zone) if since < until else 0.0
    return round(running.usd_month * 10**9 * Decimal(months))


def layout_scope(place: SavingsPlace, catalog: Catalog) -> LayoutScope:
    """The feature, and the family of the model that answered, which layouts are for."""
    team, feature, requested, route = place
    name = answering_model(route, requested)
    model = catalog.find(name)
    routes = () if model is None else model.routes
    upstream_name = (
        next((candidate.model for candidate in routes if candidate.name == route), "") or name
    )
    return LayoutScope(team, feature, model_family(upstream_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Judges which savings count, and remembers those that do not."""

    states: FeatureStates
    compactions: SettingsSnapshot
    verdicts: Mapping[tuple[str, str], ArmComparison]
    catalog: Catalog
    uncounted: Counter[tuple[str, str, SavingsPart, str]] = field(default_factory=Counter)

    def count(self, place: SavingsPlace, sums: SavingsSums) -> SavingsSums:
        """The sums of a place with what counts of them."""
        team, feature, _, _ = place
        verdict = self.verdicts.get((team, feature))
        why = self.states.of(layout_scope(place, self.catalog)).suspended
        if why:
            why = f"planning is suspended: {why}"
        elif verdict is not None and verdict.finding is ComparisonFinding.WORSE:
            why = f"the control arm refuted it: {verdict.why}"
        if why:
            # What it cost more counts; what it is said to have saved does not.
            self._leave_out((team, feature, "planning", why), sums.planning_nanos)
            counted = msgspec.structs.replace(sums, planning_nanos=min(sums.planning_nanos, 0))
        else:
            counted = count_planning(sums, _measured_share(verdict))
        setting = self.compactions.of(team, feature)
        if setting.stepped is None:
            return counted
        why = f"compaction was reduced: {setting.why}"
        self._leave_out((team, feature, "compaction", why), sums.compaction_nanos)
        return msgspec.structs.replace(counted, compaction_nanos=min(sums.compaction_nanos, 0))

    def _leave_out(self, part: tuple[str, str, SavingsPart, str], nanos: int) -> None:
        if nanos > 0:
            self.uncounted[part] += nanos

    def uncounted_savings(self, names: Mapping[str, str]) -> list[UncountedSaving]:
        """The savings that do not count."""
        return [
            UncountedSaving(
                team=team,
                team_name=names.get(team, team),
                feature=feature,
                part=part,
                nanos=nanos,
                why=why,
            )
            for (team, feature, part, why), nanos in self.uncounted.items()
        ]


def _verdicts(measurement: Measurement | None) -> dict[tuple[str, str], ArmComparison]:
    comparisons = () if measurement is None else measurement.value.comparisons
    return {(comparison.team, comparison.feature): comparison.verdict for comparison in comparisons}


def _measured_share(verdict: ArmComparison | None) -> MeasuredShare | None:
    if verdict is None or verdict.saving is None or verdict.finding is ComparisonFinding.EARLY:
        return None
    return MeasuredShare(verdict.saving.value, verdict.saving.low, verdict.saving.high)


def _routing_nanos(rerouted: ReroutedUsage, catalog: Catalog, moment: float) -> int | None:
    """List cost on the model asked for, less that of the one that answered; None if unknown.

    Prices are those valid at a moment, of the model's first route at standard terms; uplifts for
    long prompts are left out, because the sums tell no single prompt's length.
    """
    model = catalog.find(rerouted.place[2])
    tariff = model.routes[0].tariff if model is not None and model.routes else None
    pricing = None if tariff is None else call_pricing(Usage(), tariff, moment)
    cost = None if pricing is None else pricing.cost(rerouted.usage)
    return None if cost is None else cost.list_nanos - rerouted.list_nanos
