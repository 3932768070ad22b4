"""Notes of ``thriftgate check`` on what is valid and may not do what was meant."""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from compaction.policy import CompactionMode
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.settings import Settings
from slo import ladder_levels
from slo.budget import EVERY
from slo.policies.file import Policies

#: Models that a note names.
_MAX_NAMED: Final = 10


class Accounts(NamedTuple):
    """Those whom policies may name.

    Attributes:
        teams: The names of all teams.
        keys: The ids of all keys.
    """

    teams: Collection[str] = ()
    keys: Collection[str] = ()


def policy_warnings(
    policies: Policies, catalog: Catalog, accounts: Accounts | None, *, now: float = 0.0
) -> list[str]:
    """Policies that cannot have an effect as things are, in sentences; [] for none.

    Args:
        policies: The policies.
        catalog: The catalog.
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


def notes_model_obstacle(settings: Settings, known: Catalog) -> str:
    """Reason that the model for notes cannot take any; "" where it can, or none is named."""
    name = settings.compaction_model
    if not name or known.find(name) is not None:
        return ""
    close = get_close_matches(name, known.models, n=1)
    fix = f"did you mean {close[0]}?" if close else "the catalog lists those there are"
    return f"THRIFTGATE_COMPACTION_MODEL: there is no model {name}; {fix}"


def unserved_mode_warning(settings: Settings, mode: CompactionMode) -> list[str]:
    """A warning that a mode wants notes and no model takes them; [] where one does."""
    if settings.compaction_model or mode is not CompactionMode.FACTS_MODEL:
        return []
    why = "THRIFTGATE_COMPACTION_MODEL is not set here; where the gateway runs it must be"
    return [f"facts+model is as facts without a model that takes notes: {why}"]


def known_keys_obstacle(settings: Settings, policies: Policies) -> str:
    """Reason that known keys are not served during an outage of the database; "" if they are."""
    if not settings.serve_known_keys:
        return ""
    if not settings.known_keys_max_age_s:
        return "the ledger is a SQLite file, which is never away"
    if policies.budgets and not settings.redis_url:
        return (
            "budgets are counted in the process, which knows nothing of them at its start. Set"
            " THRIFTGATE_REDIS_URL, where their counters outlive it"
        )
    return ""


def read_accounts(url: str) -> Accounts | None:
    """The teams and keys in the database at this URL; None where they cannot be read.

    It is neither made nor migrated: a SQLite file that is not there yet has none.

    Raises:
        ValueError: It is neither a SQLite file nor PostgreSQL.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from proxy.store.sql.database import open_database
    from proxy.store.sql.teams import Teams

    where = make_url(url)
    if where.get_backend_name() == "sqlite" and not Path(where.database or "").is_file():
        return Accounts()
    engine = open_database(url)
    try:
        stored = Teams(engine)
        teams = stored.all()
        keys = {key.id for team in teams for key in stored.keys(team.id)}
        return Accounts({team.name for team in teams}, keys)
    except SQLAlchemyError:
        return None
    finally:
        engine.dispose()


def assumptions(known: Catalog) -> Iterator[str]:
    """Notes on what the catalog's families are taken to say of models nobody described."""
    if known.assumed:
        more = (
            f" and {len(known.assumed) - _MAX_NAMED} more"
            if len(known.assumed) > _MAX_NAMED
            else ""
        )
        yield (
            f"cache rules and traits of {', '.join(known.assumed[:_MAX_NAMED])}{more} are assumed"
            " from their families; write `regime` and `traits` in the catalog where that is wrong"
        )
    prices = [f"{name} (as {before})" for name, before in known.assumed_prices.items()]
    if prices:
        more = f" and {len(prices) - _MAX_NAMED} more" if len(prices) > _MAX_NAMED else ""
        yield (
            f"prices of {', '.join(prices[:_MAX_NAMED])}{more} are assumed from their predecessors;"
            " write `price` in the catalog once they are known"
        )
    if known.passing.upstreams:
        names = sorted(
            {each.upstream.name for each in known.passing.families} | _default_upstream(known)
        )
        to = [name for name in names if name in known.passing.upstreams]
        yield (
            f"models outside the catalog pass to {', '.join(to) or 'no upstream by their names'},"
            " at no known price, fine-tunes at their base model's, and the next versions of a"
            " line's newest listed model at its price, marked as assumed;"
            " THRIFTGATE_PASS_UNLISTED_MODELS=false refuses them"
        )


def _default_upstream(known: Catalog) -> set[str]:
    return {known.passing.default.name} if known.passing.default is not None else set()


def _upstreams_without_models(known: Catalog) -> Iterator[str]:
    """Upstreams that no listed model, no family and no default goes to."""
    used = {route.upstream.name for model in known.models.values() for route in model.routes}
    used |= {each.upstream.name for each in known.passing.families} | _default_upstream(known)
    used.add(known.default.upstream.name)
    for name in sorted(known.upstreams.keys() - used):
        yield (
            f"no model goes to the upstream {name}, only calls that ask for {name}/MODEL;"
            f' write [[models]] with an id and upstream = "{name}" in the catalog'
        )


def _models_without_price(known: Catalog) -> Iterator[str]:
    """Models that are sold and have no price on any route."""
    names = [model.id for model in known.models.values() if _is_unpriced(model)]
    if names:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        yield (
            f"no price is known of {', '.join(names[:_MAX_NAMED])}{more}: what their calls cost is"
            " unknown, and hard budgets of dollars refuse them; write `price` in the catalog"
        )


def _is_unpriced(model: Model) -> bool:
    sold = any(route.upstream.needs_credentials for route in model.routes)
    return sold and all(route.tariff is None for route in model.routes)


def _ladders_without_routes(policies: Policies, known: Catalog) -> Iterator[str]:
    """Ladders that lead to other routes where no model has any."""
    if any(len(model.routes) > 1 for model in known.models.values()):
        return
    for each in policies.objectives:
        if ladder_levels.ELSEWHERE in each.ladder:
            yield (
                f'objectives.{each.name}.ladder: no model has a second route, so "elsewhere"'
                " moves no call; give one `routes` in the catalog"
            )


def _undescribed_models(policies: Policies, known: Catalog) -> Iterator[str]:
    """Models of ladders and ceilings whose fields do not tell which calls they can take."""
    found = {
        f"objectives.{each.name}.ladder": ladder_levels.model_levels(each)
        for each in policies.objectives
    } | {f"ceilings.{each.name}.cheaper": each.cheaper for each in policies.ceilings}
    for where, names in found.items():
        for name in names:
            model = known.find(name)
            for what in _missing_fields(model) if model is not None else ():
                yield f"{where}: nobody said {what}; write it in the catalog"


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
        *_team_references(("ceilings", each.name, each.team) for each in policies.ceilings),
        *_team_references(("objectives", each.name, each.team) for each in policies.objectives),
        *((f"teams.{team}.model_aliases", team) for team in catalog.team_aliases),
        *_team_references(("reports", each.name, each.team) for each in policies.reports),
        *_team_references(("residency", each.name, each.team) for each in policies.residency),
    ]
    for where, team in named:
        if team in {*teams, EVERY, ""}:
            continue
        close = get_close_matches(team, teams, n=1)
        fix = f"did you mean {close[0]}?" if close else "`thriftgate team list` shows them"
        yield f"{where}: there is no team {team}; {fix}"


def _team_references(found: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    for table, name, team in found:
        yield f"{table}.{name}.team", team
