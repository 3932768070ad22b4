"""Finds features whose policies name a cheaper model, to which nothing sends their calls yet.

Only models of a ladder count: the people who wrote it let the feature have them. Nothing is guessed
from the catalog.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, case

from dashboards.pages import HOME
from dashboards.reports import SpendFilter
from dashboards.views.steps import NextStep
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.store.sql import schema
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.views.fast_path import FastPathRules
from slo.budgets.budget import EVERY
from slo.objectives.ladder_levels import model_levels
from slo.objectives.objective import Objective
from slo.policies.fast_path_switches import split_switches
from slo.price import call_pricing
from slo.usage import Usage

#: Priced calls of a model from which on a cheaper one is a step.
_MIN_CALLS: Final = 20
_CALLS: Final = 1_000
_PRICED: Final = ("calls", "list_nanos", *schema.BUCKETS)


class ModelUse(NamedTuple):
    """Priced calls of a feature that asked for a model, and their list cost."""

    model: str
    calls: int
    list_nanos: int
    usage: Usage


ModelUses = Mapping[tuple[str, str], ModelUse]
"""The use of the model that more than half of a feature's calls ask for, by team and feature."""


def main_models(connection: Connection, period: tuple[int, int], only: SpendFilter) -> ModelUses:
    """The model that most calls of each feature ask for, where that is over half of them."""
    query = SumQuery(
        place=lambda rows: [rows.team, rows.feature, rows.model],
        addends=lambda rows: {
            name: case((rows.list_nanos.is_not(None), rows[name]), else_=0) for name in _PRICED
        },
        only=only,
    )
    calls: dict[tuple[str, str], int] = {}
    most: dict[tuple[str, str], ModelUse] = {}
    for (_, team, feature, model), sums in bucket_sums(connection, period, query).items():
        place, usage = (team, feature), Usage(**{name: sums[name] for name in schema.BUCKETS})
        use = ModelUse(model, sums["calls"], sums["list_nanos"], usage)
        calls[place] = calls.get(place, 0) + use.calls
        most[place] = max(most.get(place, use), use, key=lambda one: one.calls)
    return {place: use for place, use in most.items() if 2 * use.calls > calls[place]}


def cheaper_model_steps(
    uses: ModelUses,
    rules: FastPathRules,
    catalog: Catalog,
    names: Mapping[str, str],
    moment: float,
) -> Iterator[NextStep]:
    """Features for which a model of a ladder costs less, and no small model is asked first.

    Args:
        names: Names of teams by id.
        moment: Time whose prices count, in seconds since the epoch.
    """
    small_first, switched_off = split_switches(rules.small_first)
    for (team, feature), use in uses.items():
        name = names.get(team, team)
        is_on = (name, feature) not in switched_off
        if use.calls < _MIN_CALLS or (
            is_on and any(rule.applies_to(name, feature) for rule in small_first)
        ):
            continue
        costs = {
            level: nanos
            for level in _ladder_models(rules.objectives, name, feature)
            if (nanos := _list_nanos(catalog.find(level), use, rules.keyed_upstreams, moment))
            is not None
        }
        cheapest = min(costs, key=lambda level: costs[level], default="")
        if cheapest and costs[cheapest] < use.list_nanos:
            yield _step((team, name, feature), use, cheapest, use.list_nanos - costs[cheapest])


def _ladder_models(objectives: Sequence[Objective], team: str, feature: str) -> list[str]:
    """The models that ladders of objectives about a team's feature name, each once."""
    levels = (
        level
        for objective in objectives
        if objective.team in {EVERY, team} and objective.feature in {EVERY, feature}
        for level in model_levels(objective)
    )
    return list(dict.fromkeys(levels))


def _list_nanos(
    model: Model | None, use: ModelUse, keyed: Collection[str] | None, moment: float
) -> int | None:
    """The list cost of calls on a model's first route that can answer; None if unknown.

    Terms are standard ones, and prices those of a prompt of mean size.
    """
    routes = () if model is None else model.routes
    usable = (
        route
        for route in routes
        if not route.is_disabled and (keyed is None or route.upstream.name in keyed)
    )
    route = next(usable, None)
    if route is None or route.tariff is None:
        return None
    mean = Usage(input=use.usage.prompt_tokens // max(use.calls, 1))
    pricing = call_pricing(mean, route.tariff, moment)
    cost = None if pricing is None else pricing.cost(use.usage)
    return None if cost is None else cost.list_nanos


def _step(place: tuple[str, str, str], use: ModelUse, cheaper: str, saved: int) -> NextStep:
    team, team_name, feature = place
    return NextStep(
        kind="cheaper_model",
        title=f"Try {cheaper} first for {feature or 'calls without a feature'}",
        effect=(
            f"Answers may differ from {use.model}'s: small model first, a table [[small_first]] of"
            " the policies file, sends it only calls that are proved to lose little"
        ),
        basis=(
            f"The same tokens of {use.calls:,} calls at its list price; a ladder of the policies"
            " names it"
        ),
        saved_nanos=saved,
        nanos_per_1k_calls=saved * _CALLS // use.calls,
        bound="at most",
        cost_nanos=use.list_nanos,
        team=team,
        team_name=team_name,
        feature=feature,
        link=f"{HOME}/fast-path",
        action="See the fast path",
    )
