"""Warnings about policies and models that are valid and probably a mistake.

``thriftgate check`` prints them, ``serve`` logs them at its start, and ``/readyz`` has them.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from slo.budgets.budget import EVERY
from slo.objectives import ladder_levels
from slo.policies.entries import TEAM
from slo.policies.file import Policies, policies_by_kind

if TYPE_CHECKING:
    from proxy.store.sql.access.teams import Teams

#: Models that a note names.
MAX_NAMED: Final = 10


class Accounts(NamedTuple):
    """The names of teams and the ids of keys, which policies may name."""

    teams: Collection[str] = ()
    keys: Collection[str] = ()


def policy_warnings(
    policies: Policies, catalog: Catalog, accounts: Accounts | None, *, now: float = 0.0
) -> list[str]:
    """Policies that cannot have an effect as things are, in sentences; [] for none.

    Args:
        accounts: All teams and keys; None where they cannot be read.
        now: Seconds since the epoch, at which prices are compared.
    """
    return [
        *_upstreams_without_models(catalog),
        *_models_without_price(catalog),
        *_ladders_without_routes(policies, catalog),
        *_dearer_levels(policies, catalog, now),
        *_undescribed_models(policies, catalog),
        *(() if accounts is None else _unknown_teams(policies, catalog, accounts.teams)),
        *(() if accounts is None else _unknown_keys(policies, accounts.keys)),
    ]


def _upstreams_without_models(catalog: Catalog) -> Iterator[str]:
    """Upstreams that no listed model, no family and no default goes to."""
    used = {route.upstream.name for model in catalog.models.values() for route in model.routes}
    used |= {family.upstream.name for family in catalog.passing.families} | default_upstream(
        catalog
    )
    used.add(catalog.default.upstream.name)
    for name in sorted(catalog.upstreams.keys() - used):
        yield (
            f"no model goes to the upstream {name}, only calls that ask for {name}/MODEL;"
            f' write [[models]] with an id and upstream = "{name}" in the catalog'
        )


def _models_without_price(catalog: Catalog) -> Iterator[str]:
    """Models that are sold and have no price on any route."""
    names = [model.id for model in catalog.models.values() if _is_unpriced(model)]
    if names:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield (
            f"no price is known of {', '.join(names[:MAX_NAMED])}{more}: what their calls cost is"
            " unknown, and hard budgets of dollars refuse them; write `price` in the catalog"
        )


def _is_unpriced(model: Model) -> bool:
    sold = any(route.upstream.needs_credentials for route in model.routes)
    return sold and all(route.tariff is None for route in model.routes)


def _ladders_without_routes(policies: Policies, catalog: Catalog) -> Iterator[str]:
    """Ladders that lead to other routes where no model has any."""
    if any(len(model.routes) > 1 for model in catalog.models.values()):
        return
    for objective in policies.objectives:
        if ladder_levels.ELSEWHERE in objective.ladder:
            yield (
                f'objectives.{objective.name}.ladder: no model has a second route, so "elsewhere"'
                " moves no call; give one `routes` in the catalog"
            )


def _undescribed_models(policies: Policies, catalog: Catalog) -> Iterator[str]:
    """Models of ladders and ceilings whose fields do not tell which calls they can take."""
    named = {
        f"objectives.{policy.name}.ladder": ladder_levels.model_levels(policy)
        for policy in policies.objectives
    } | {f"ceilings.{policy.name}.cheaper": policy.cheaper for policy in policies.ceilings}
    for where, names in named.items():
        for name in names:
            model = catalog.find(name)
            for what in _missing_fields(model) if model is not None else ():
                yield f"{where}: the catalog does not state {what}; write it there"


def _missing_fields(model: Model) -> Iterator[str]:
    """The fields that a model lacks, and the effect of that."""
    name, routes = model.id, model.routes
    if all(route.window is None for route in routes):
        yield f"the `window` of {name}, so it takes no calls"
    if all(route.can is None for route in routes):
        yield f"what {name} `can` do, so it takes none with tools, schemas or images"
    if all(route.max_output is None for route in routes):
        yield f"the `max_output` of {name}, so it takes none that limit their output"


def _dearer_levels(policies: Policies, catalog: Catalog, now: float) -> Iterator[str]:
    """Levels of ladders that cost more than the level before, or than most models."""
    prices = {
        name: price for name in catalog.models if (price := _output_price(catalog, name, now))
    }
    for objective in policies.objectives:
        models = [
            name
            for name in ladder_levels.model_levels(objective)
            if _output_price(catalog, name, now)
        ]
        for place, name in enumerate(models):
            price = _output_price(catalog, name, now)
            before = _output_price(catalog, models[place - 1], now) if place else 0
            cheaper = sum(price > other for other in prices.values())
            if place and price > before:
                yield _dearer(objective.name, name, models[place - 1])
            elif not place and 2 * cheaper > len(prices) - 1:
                yield _dearer(
                    objective.name, name, f"{cheaper} of the other {len(prices) - 1} models"
                )


def _dearer(objective: str, model: str, than: str) -> str:
    """A sentence that a level of an objective's ladder costs more than something else."""
    return (
        f"objectives.{objective}.ladder: output of {model} costs more than that of {than}:"
        " calls become dearer where they fall back to it"
    )


def _output_price(catalog: Catalog, name: str, now: float) -> int:
    """Nano-dollars per million output tokens of a model on its first route; 0 where unknown."""
    model = catalog.find(name)
    tariff = model.routes[0].tariff if model is not None else None
    period = tariff.period(now) if tariff is not None else None
    sheet = period.sheets.get("") if period is not None else None
    return (sheet.rates.output or 0) if sheet is not None else 0


def _unknown_keys(policies: Policies, keys: Collection[str]) -> Iterator[str]:
    """Budgets of keys that do not exist."""
    for budget in policies.budgets:
        if budget.scope == "key" and budget.of not in {*keys, EVERY}:
            yield (
                f"budgets.{budget.name}.of: there is no key {budget.of};"
                " `thriftgate key list` shows them"
            )


def _unknown_teams(policies: Policies, catalog: Catalog, teams: Collection[str]) -> Iterator[str]:
    """Policies and model aliases for teams that do not exist."""
    named: list[tuple[str, str]] = [
        *((f"budgets.{b.name}.of", b.of) for b in policies.budgets if b.scope == "team"),
        *((f"teams.{team}.model_aliases", team) for team in catalog.team_aliases),
        *(
            (f"{kind.array}.{entry.name}.team", entry.team)
            for kind, entries in policies_by_kind(policies).items()
            for entry in entries
            if TEAM in kind.fields
        ),
    ]
    for where, team in named:
        if team in {*teams, EVERY, ""}:
            continue
        close = get_close_matches(team, teams, n=1)
        fix = f"did you mean {close[0]}?" if close else "`thriftgate team list` shows them"
        yield f"{where}: there is no team {team}; {fix}"


def default_upstream(catalog: Catalog) -> set[str]:
    """The name of the upstream of models that no family matches; empty where there is none."""
    return {catalog.passing.default.name} if catalog.passing.default is not None else set()


def accounts_of(teams: "Teams") -> Accounts:
    """The teams and keys in the database."""
    stored = teams.all()
    keys = {key.id for team in stored for key in teams.keys(team.id)}
    return Accounts({team.name for team in stored}, keys)
