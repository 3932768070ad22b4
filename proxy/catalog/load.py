"""Loads the catalog: the shipped TOML with the operator's file over it, checked."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from proxy.catalog import layers, numbers, prices
from proxy.catalog.catalog import Catalog
from proxy.catalog.engine_layer import (
    EngineEntry,
    check_names,
    engine_layer,
    engine_names,
    expand_engines,
    replica_upstream,
)
from proxy.catalog.entries import (
    FAMILY_FIELDS,
    MODEL_FIELDS,
    RETENTIONS,
    ROUTE_FIELDS,
    TOP_FIELDS,
    Model,
    Route,
    Upstream,
)
from proxy.catalog.families import Family, UnlistedModels, fine_tunes, inherit_from_family
from proxy.catalog.layers import Table
from proxy.catalog.model_aliases import read_aliases
from proxy.catalog.predecessors import Predecessors, find_predecessors
from proxy.catalog.upstreams import upstream
from slo.price import NO_DISCOUNT, Tariff
from slo.toml.fields import keys, read_fields
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader, checked_choice, checked_value

#: Fields of a route that are read without its surroundings.
_PLAIN = tuple(
    field
    for field in ROUTE_FIELDS
    if field.key not in {"upstream", "price", "discount", "prompt_cache_retention"}
)

#: Upstreams by name, each with where it says the discount of its routes.
_Places = Mapping[str, tuple[Upstream, Node | None]]


class _Known(NamedTuple):
    """Names that entries may refer to, upstreams, models, engines, and that of the shipped file.

    Models without a price take that of their predecessor, once these are known.
    """

    places: _Places
    models: Collection[str]
    engines: Mapping[str, EngineEntry]
    shipped: str
    predecessors: Predecessors = Predecessors()


#: Name of the shipped file in problems.
SHIPPED_NAME: Final = "models.toml"
#: Where problems of models and aliases that people set on pages are said to be.
STORED_SOURCE: Final = "pages"
#: Tables of what people set on pages; upstreams and the rest stand in files alone.
_STORED_TABLES: Final = ("models", "teams")
_NOWHERE = Upstream(name="", kind="openai", base_url="")


def load(
    shipped: str,
    user: str | None,
    *,
    names: tuple[str, str] = (SHIPPED_NAME, "catalog.toml"),
    engines: Sequence[EngineEntry] = (),
    stored: str = "",
) -> Catalog:
    """Read the catalog from these texts.

    Args:
        shipped: That of the catalog that comes with Thriftgate.
        user: That of the user's own, whose entries go over the shipped ones; None for none.
        names: Names of the two in problems.
        engines: Engines whose replicas are upstreams, and whose models are routed to them; the
            user's entries go over these, too.
        stored: Models and aliases set on pages, as a file; the user's entries go over these.

    Raises:
        InvalidFile: With every problem found, if any is more than a warning.
    """
    problems: list[Problem] = []
    files = [TableReader(parse_shipped(shipped, names[0]), keys(TOP_FIELDS), problems)]
    files += _files_above(stored, user, names[1], problems)
    stated = {node.value["id"].value for node in files[0].elements("models")}
    files[1:1] = _engine_files(engines, stated, problems)
    places = _places(files, engines)
    upstreams = {name: upstream for name, (upstream, _) in places.items()}
    nodes = layers.models(files)
    context = _Known(places, nodes, {engine.profile: engine for engine in engines}, names[0])
    listed, predecessors = _listed_models(nodes, context, problems)
    default, unlisted = _default(files, upstreams), _default_upstream(files, upstreams)
    families = _families(files, listed, upstreams)
    aliases = read_aliases(files, listed)
    warnings = tuple(dict.fromkeys(problems))
    if not all(problem.warning for problem in warnings):
        raise InvalidFile(warnings)
    own = tuple(name for name in listed if name not in stated)
    whole = listed | {name: _complete_from_families(listed[name], families) for name in own}
    return Catalog(
        models=whole,
        upstreams=upstreams,
        default=Route(name=default, upstream=upstreams[default]),
        passing=_unlisted_models(families, whole, upstreams, unlisted, predecessors),
        team_aliases=aliases,
        assumed=tuple(name for name, model in whole.items() if model != listed[name]),
        own=own,
        warnings=warnings,
    )


def _listed_models(
    nodes: Table, context: _Known, problems: list[Problem]
) -> tuple[dict[str, Model], Predecessors]:
    """The models by name, and the predecessors whose prices those without any are given."""
    listed = {name: _model(name, node, context, problems) for name, node in nodes.items()}
    predecessors = find_predecessors(listed.values())
    context = context._replace(predecessors=predecessors)
    listed |= {
        name: _model(name, nodes[name], context, [])  # their problems are known already
        for name, model in listed.items()
        if any(route.tariff is None for route in model.routes)
    }
    return listed, predecessors


def _unlisted_models(
    families: tuple[Family, ...],
    models: Mapping[str, Model],
    upstreams: Mapping[str, Upstream],
    default: str,
    predecessors: Predecessors,
) -> UnlistedModels:
    """The rules for models that are not listed in the catalog."""
    return UnlistedModels(
        families=families,
        tuned=fine_tunes(families, models),
        upstreams=upstreams,
        default=upstreams.get(default),
        predecessors=predecessors,
    )


def _files_above(
    stored: str, user: str | None, user_name: str, problems: list[Problem]
) -> Iterator[TableReader]:
    """The files over the shipped one: what people set on pages, and the user's own."""
    if stored:
        yield TableReader(parse_toml(stored, STORED_SOURCE), _STORED_TABLES, problems)
    if user is not None:
        yield TableReader(parse_toml(user, user_name), keys(TOP_FIELDS), problems)


@lru_cache(maxsize=1)
def parse_shipped(text: str, name: str = SHIPPED_NAME) -> Node:
    """The tree of the shipped catalog: parsed once, as it is the same at each reload."""
    return parse_toml(text, name)


def _families(
    files: list[TableReader], models: Mapping[str, Model], upstreams: Mapping[str, Upstream]
) -> tuple[Family, ...]:
    """The families of all files, the last file's first."""
    families: list[Family] = []
    for file in reversed(files):
        for node in file.elements("families"):
            table = TableReader(node, keys(FAMILY_FIELDS), file.problems)
            names, like = table.text("names", "gpt-*"), table.choice("like", models)
            upstream = upstreams.get(table.choice("upstream", upstreams))
            if not names or upstream is None:
                fix = 'write { names = "gpt-*", upstream = "openai" }'
                file.problems.append(node.problem("has no names or no upstream", fix))
                continue
            route = models[like].routes[0] if like else None
            families.append(Family(names=names, upstream=upstream, like=route))
    return tuple(families)


def _default_upstream(files: list[TableReader], upstreams: Collection[str]) -> str:
    """The upstream of names that no family has, by the last file that names one; "" for none."""
    choices = [file.choice("default_upstream", upstreams) for file in files]
    return next((name for name in reversed(choices) if name), "")


def _complete_from_families(model: Model, families: tuple[Family, ...]) -> Model:
    """The model with what its family says where its entry does not."""
    routes = tuple(
        inherit_from_family(route, {model.id, route.model} - {""}, families)
        for route in model.routes
    )
    return replace(model, routes=routes)


def _default(files: list[TableReader], upstreams: Collection[str]) -> str:
    """The upstream of calls that name no model, by the last file that names one."""
    choices = [file.choice("default", upstreams) for file in files if "default" in file.nodes]
    if not choices:
        top = files[-1]
        top.problems.append(top.node.problem("has no default", 'write default = "openai"'))
    return choices[-1] if choices else ""


def _engine_files(
    engines: Sequence[EngineEntry], stated: Collection[str], problems: list[Problem]
) -> list[TableReader]:
    """The engines as a file, where there are any."""
    check_names(engines, stated, problems)
    return [engine_layer(engines, problems)] if engines else []


def _places(files: list[TableReader], engines: Sequence[EngineEntry]) -> _Places:
    """The upstreams of all files; a replica of an engine knows its profile."""
    problems = files[0].problems
    profiles = {
        replica_upstream(engine.profile, number): engine.profile
        for engine in engines
        for number in range(len(engine.base_urls))
    }
    return {
        name: (
            replace(upstream(name, node, problems), engine=profiles.get(name, "")),
            node.value.get("discount"),
        )
        for name, node in layers.upstreams(files).items()
    }


def _model(name: str, node: Node, context: _Known, problems: list[Problem]) -> Model:
    table = TableReader(node, keys((*MODEL_FIELDS, *ROUTE_FIELDS)), problems)
    own = {key: field for key, field in table.nodes.items() if key in keys(ROUTE_FIELDS)}
    nodes = table.elements("routes")
    if "routes" in table.nodes and "upstream" in table.nodes:
        fix = "keep one: upstream for a single route, routes for several"
        problems.append(node.problem("has both upstream and routes", fix))
    elif "routes" in table.nodes and not nodes:
        problems.append(table.nodes["routes"].problem("is empty", 'write [{ upstream = "…" }]'))
    whole = [_inherit_fields(own, route, problems) for route in nodes] or [replace(node, value=own)]
    routes = [
        _route(name, route, context, problems)
        for node in whole
        for route in expand_engines(node, context.engines)
    ]
    return Model(
        id=name,
        routes=_name_routes(routes, node, problems),
        created=table.get("created", int) or 0,
        retires=table.get("retires", date),
        fallbacks=_other_models(table, "fallbacks", name, context.models),
        when_too_long=_other_models(table, "when_too_long", name, context.models),
    )


def _other_models(
    table: TableReader, key: str, name: str, allowed: Collection[str]
) -> tuple[str, ...]:
    """Names of other models of the catalog."""
    places = table.elements(key)
    names = [checked_choice(place, allowed, table.problems) for place in places]
    for place, other in zip(places, names, strict=True):
        if other == name:
            table.problems.append(place.problem("is the model itself", "name another"))
    return tuple(other for other in names if other not in {"", name})


def _inherit_fields(own: Table, route: Node, problems: list[Problem]) -> Node:
    """A route's fields over those of its model, which hold for all routes."""
    fields = checked_value(route, dict, problems) or {}
    return replace(route, value={**own, **fields})


def _route(name: str, node: Node, context: _Known, problems: list[Problem]) -> Route:
    table = TableReader(node, keys(ROUTE_FIELDS), problems)
    chosen = table.choice("upstream", [*context.places, *engine_names(context.engines)])
    upstream, discount = context.places.get(chosen, (_NOWHERE, None))
    if "upstream" not in table.nodes:
        problems.append(node.problem("has no upstream", 'write upstream = "openai" or another'))
    values = read_fields(table, _PLAIN)
    if values["regime"] == "block-chain" and not values["block"]:
        problems.append(node.problem("has a block-chain without block", "write block = 16"))
    off = table.nodes.get("discount", discount)
    route = Route(
        name=f"{upstream.name}/{name}",
        upstream=upstream,
        tariff=_tariff(table, off),
        prompt_cache_retention=_retention(table, upstream, context),
        has_own_price="price" in table.nodes and table.nodes["price"].file != context.shipped,
        **values,
    )
    return route if "price" in table.nodes else _at_assumed_price(route, name, context, off)


def _at_assumed_price(route: Route, name: str, context: _Known, discount: Node | None) -> Route:
    """The route at its predecessor's price, less its own discount; unchanged where it has none."""
    priced = context.predecessors.with_assumed_price(
        route, dict.fromkeys((route.model or name, name))
    )
    if priced.tariff is None:
        return route
    part = numbers.discount(discount, []) if discount else NO_DISCOUNT
    return replace(priced, tariff=msgspec.structs.replace(priced.tariff, discount=part))


def _tariff(table: TableReader, discount: Node | None) -> Tariff | None:
    """The route's prices; None if it has none, or says ``price = "unknown"``."""
    part = numbers.discount(discount, table.problems) if discount else NO_DISCOUNT
    node = table.nodes.get("price")
    if node is None or node.value == "unknown":
        return None
    if not isinstance(node.value, dict):
        fix = 'write a table, { input = "2.50", output = "10" }, or "unknown"'
        table.problems.append(node.problem("is no price", fix))
        return None
    return prices.tariff(node, part, table.problems)


def _retention(table: TableReader, upstream: Upstream, context: _Known) -> str:
    """The retention that calls have by default; the shipped ones are not Azure's, whose differ.

    Source: Azure OpenAI, prompt caching (2026-08): in_memory up to gpt-5.4.
    """
    node = table.nodes.get("prompt_cache_retention")
    if node is not None and node.file == context.shipped and upstream.provider == "azure":
        return ""
    return table.choice("prompt_cache_retention", RETENTIONS)


def _name_routes(routes: list[Route], node: Node, problems: list[Problem]) -> tuple[Route, ...]:
    """The routes with names of their own, also where several go to one upstream."""
    shared = Counter(route.name for route in routes)
    named = tuple(
        replace(route, name=f"{route.name}#{route.model}")
        if route.model and shared[route.name] > 1
        else route
        for route in routes
    )
    counts = Counter(route.name for route in named if route.upstream.name)
    problems.extend(
        node.problem(f"has the route {name} twice", "remove one")
        for name, times in counts.items()
        if times > 1
    )
    return named
