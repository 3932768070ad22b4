"""Engines' replicas as entries of the catalog: an upstream for each, a model with all as routes.

They stand between the shipped catalog and the user's file, which may override any field.
``upstream = "engine:NAME"`` of a route means all replicas of a profile.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader

#: Prefix of the name by which a route refers to all replicas of a profile.
ENGINE_PREFIX: Final = "engine:"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """An engine profile, as far as the catalog goes by it.

    Attributes:
        file: The file that it stands in, for problems.
        served_name: The name that its engine knows the model by.
        base_urls: Where each replica answers.
        upstream: Fields of each replica's upstream, as ``upstreams.FIELDS`` has them.
        route: Fields of its routes, as ``ROUTE_FIELDS`` has them.
    """

    profile: str
    file: str
    line: int
    served_name: str
    base_urls: tuple[str, ...]
    upstream: Mapping[str, Any] = field(default_factory=dict)
    route: Mapping[str, Any] = field(default_factory=dict)


def replica_upstream(profile: str, replica: int) -> str:
    """The name of the upstream that is a replica of a profile."""
    return f"{profile}:{replica}"


def engine_layer(entries: Sequence[EngineEntry], problems: list[Problem]) -> TableReader:
    """Upstreams and models of engines, as a file that says them would."""
    file = entries[0].file if entries else ""
    upstreams = {
        replica_upstream(entry.profile, number): _table(
            entry, base_url=url, bills_abandoned=False, **entry.upstream
        )
        for entry in entries
        for number, url in enumerate(entry.base_urls)
    }
    by_model: dict[str, list[EngineEntry]] = {}
    for entry in entries:
        by_model.setdefault(entry.served_name, []).append(entry)
    models = [_model(name, sharing) for name, sharing in by_model.items()]
    top = {
        "upstreams": Node(value=upstreams, file=file, line=1, name="upstreams"),
        "models": Node(value=models, file=file, line=1, name="models"),
    }
    return TableReader(Node(value=top, file=file, line=1, name=""), top, problems)


def engine_names(entries: Iterable[str]) -> list[str]:
    """The names by which routes refer to engines."""
    return [ENGINE_PREFIX + profile for profile in entries]


def expand_engines(route: Node, entries: Mapping[str, EngineEntry]) -> list[Node]:
    """The route, or one for each replica where it names an engine."""
    table: Mapping[str, Node] = route.value
    node = table.get("upstream")
    if node is None or not isinstance(node.value, str) or not node.value.startswith(ENGINE_PREFIX):
        return [route]
    name = node.value.removeprefix(ENGINE_PREFIX)
    entry = entries.get(name)
    if entry is None:
        return [route]
    fields = {**_table(entry, model=entry.served_name, **entry.route).value, **table}
    upstreams = (replica_upstream(name, number) for number in range(len(entry.base_urls)))
    return [
        replace(route, value={**fields, "upstream": replace(node, value=upstream)})
        for upstream in upstreams
    ]


def check_names(
    entries: Iterable[EngineEntry], shipped: Collection[str], problems: list[Problem]
) -> None:
    """Note engines whose model has the name of one that is shipped, with its prices."""
    for entry in entries:
        if entry.served_name in shipped:
            where = Node(value=None, file=entry.file, line=entry.line, name=_place(entry))
            what = f'serves "{entry.served_name}", which the shipped catalog has already'
            problems.append(where.problem(what, "write another served_name"))


def _model(name: str, sharing: Sequence[EngineEntry]) -> Node:
    """The model that the engines serve; all their replicas are its routes."""
    first = sharing[0]
    routes = [_table(entry, upstream=ENGINE_PREFIX + entry.profile) for entry in sharing]
    table = _table(first, id=name)
    routes_node = replace(table, value=routes)
    return replace(table, value={**table.value, "routes": routes_node})


def _table(entry: EngineEntry, **fields: Any) -> Node:  # noqa: ANN401 - whatever a field takes
    """A table with these fields, without those that say nothing."""
    place = _place(entry)

    def node(value: Any, name: str) -> Node:  # noqa: ANN401
        if isinstance(value, tuple):
            value = [node(element, name) for element in value]
        return Node(value=value, file=entry.file, line=entry.line, name=name)

    fields = {
        key: node(value, f"{place}.{key}")
        for key, value in fields.items()
        if value is not None and value not in ("", ()) and (value is False or value != 0)
    }
    return node(fields, place)


def _place(entry: EngineEntry) -> str:
    return f"engines.{entry.profile}"
