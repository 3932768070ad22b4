"""Models, prices and aliases that people set on pages over the catalog's files; disabled routes."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.catalog.page_entries import alias_text, model_text, plain_value
from proxy.configuration import (
    CatalogSource,
    DisabledRoute,
    PageProblem,
    Snapshot,
    upstreams_with_keys,
)
from proxy.store.errors import StoreError
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES, StoredPolicies, StoredPolicy
from slo.toml.nodes import parse_toml
from slo.toml.problems import InvalidFile

_log = logging.getLogger("thriftgate.catalog")

#: Kinds of entries of the catalog that people set on pages.
CATALOG_KINDS: Final = ("models", "model_aliases")
_ALIAS: Final = "model_aliases"
#: Fields that say where calls of a model go, which the file replaces as one.
_ROUTING: Final = frozenset({"routes", "upstream", "model"})
#: Kind and name of an entry.
_Place: TypeAlias = tuple[str, str]


class CatalogOverlay:
    """The stored entries of the catalog as this process knows them.

    Where the database is away, those that were read last stay in force. Their revision is that of
    the policies, which stand in the same table.
    """

    def __init__(self, stored: StoredPolicies) -> None:
        self._stored = stored
        self._known: Sequence[StoredPolicy] = ()

    def revision(self) -> None:
        """Nothing: the overlay of policies has it."""

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the stored entries below those of the operator's file; blocks."""
        with suppress(StoreError):  # the overlay of policies says so
            self._known = [one for one in self._stored.all() if one.kind in CATALOG_KINDS]
        if snapshot.source is None or not self._known:
            return snapshot
        entries, problems = list(self._known), _file_conflicts(self._known, snapshot.source)
        catalog = snapshot.catalog
        while entries:
            try:
                catalog = snapshot.source.load(catalog_text(entries))
                break
            except InvalidFile as invalid:
                _log.warning("Entries of the catalog set on pages are left out: %s", invalid)
                faulty = _faulty_entries(entries, invalid)
                problems |= faulty
                entries = [one for one in entries if (one.kind, one.name) not in faulty]
        return msgspec.structs.replace(
            snapshot,
            catalog=catalog,
            upstreams_with_keys=upstreams_with_keys(catalog),
            page_problems={**snapshot.page_problems, **problems},
        )


class DisabledRoutesOverlay:
    """Routes and models that people have disabled; they are enabled by themselves at their end.

    Where the database is away, those that were read last stay disabled. Changes are noticed by the
    revision of the policies, which stand in the same table.
    """

    def __init__(self, stored: StoredPolicies, now: Callable[[], float]) -> None:
        self._stored = stored
        self._now = now
        self._known: Sequence[DisabledRoute] = ()

    def revision(self) -> tuple[str, ...]:
        """Those that are disabled now: another value once the time of one is over."""
        return tuple(one.key for one in self._routes_in_force())

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot whose catalog has no calls sent there; blocks."""
        with suppress(StoreError):  # the overlay of policies says so
            self._known = [
                disabled_route(one) for one in self._stored.all() if one.kind == DISABLED_ROUTES
            ]
        current = self._routes_in_force()
        catalog = disable_routes(snapshot.catalog, current)
        return msgspec.structs.replace(snapshot, catalog=catalog, disabled_routes=current)

    def _routes_in_force(self) -> Sequence[DisabledRoute]:
        now = self._now()
        return [one for one in self._known if one.until is None or one.until > now]


def disabled_route(stored: StoredPolicy) -> DisabledRoute:
    """A disabled route or model, as it is kept."""
    kind, _, name = stored.name.partition(" ")
    until, why = stored.fields["until"], stored.fields["why"]
    return DisabledRoute(
        kind=kind, name=name, until=until, why=why, who=stored.changed_by, since=stored.changed_at
    )


def disable_routes(catalog: Catalog, disabled: Iterable[DisabledRoute]) -> Catalog:
    """The catalog whose routes say that these are disabled."""
    keys = {one.key for one in disabled}
    if not keys:
        return catalog

    def with_states(model: Model) -> Model:
        is_whole = f"model {model.id}" in keys
        states = [is_whole or f"route {route.name}" in keys for route in model.routes]
        if not any(states):
            return model
        pairs = zip(model.routes, states, strict=True)
        return replace(
            model, routes=tuple(replace(route, is_disabled=state) for route, state in pairs)
        )

    return replace(
        catalog, models={name: with_states(model) for name, model in catalog.models.items()}
    )


def catalog_text(entries: Sequence[StoredPolicy]) -> str:
    """The entries as a catalog file would say them."""
    models = [model_text(entry.fields) for entry in entries if entry.kind != _ALIAS]
    aliases = alias_text(entry.fields for entry in entries if entry.kind == _ALIAS)
    return "\n".join([*models, aliases])


def entry_text(kind: str, fields: Mapping[str, Any]) -> str:
    """One entry as a catalog file would say it."""
    return alias_text([fields]) if kind == _ALIAS else model_text(fields)


def stated_fields(file: Mapping[str, Any], kind: str, fields: Mapping[str, Any]) -> set[str]:
    """Of the fields of an entry those that a catalog file says, too, and so decides.

    Args:
        file: The file as JSON has it.
    """
    if kind == _ALIAS:
        aliases = file.get("teams", {}).get(fields["team"], {}).get("model_aliases", {})
        return {"the alias"} if fields["alias"] in aliases else set()
    own = {key for one in file.get("models", ()) if one.get("id") == fields["name"] for key in one}
    stated = own & fields.keys() - {"name"}
    return stated | {"routes"} if own & _ROUTING and fields.keys() & _ROUTING else stated


def _file_conflicts(
    entries: Sequence[StoredPolicy], source: CatalogSource
) -> dict[_Place, PageProblem]:
    """The entries that the operator's file says otherwise, in part or as a whole."""
    file = plain_value(parse_toml(source.user or "", source.file))
    conflicts = {}
    for entry in entries:
        if stated := stated_fields(file, entry.kind, entry.fields):
            reason = f"the catalog file says {', '.join(sorted(stated))}"
            is_whole = entry.kind == _ALIAS or stated >= entry.fields.keys() - {"name"}
            conflicts[entry.kind, entry.name] = PageProblem(reason, is_whole)
    return conflicts


def _faulty_entries(
    entries: Sequence[StoredPolicy], invalid: InvalidFile
) -> dict[_Place, PageProblem]:
    """The entries that problems are about; all, where they are about none of them."""
    faulty: dict[_Place, PageProblem] = {}
    problems = [problem for problem in invalid.problems if not problem.warning]
    for problem in problems:
        about = [one for one in entries if f"{problem.where}.".startswith(f"{_path(one)}.")]
        for entry in sorted(about, key=lambda one: len(_path(one)))[-1:]:
            field = problem.where.removeprefix(_path(entry)).lstrip(".") or "it"
            faulty[entry.kind, entry.name] = PageProblem(f"{field} {problem.what}; {problem.fix}")
    reason = f"the catalog cannot be read with what pages set: {problems[0]}"
    return faulty or {(one.kind, one.name): PageProblem(reason) for one in entries}


def _path(entry: StoredPolicy) -> str:
    """The place of an entry in problems."""
    fields = entry.fields
    if entry.kind == _ALIAS:
        return f"teams.{fields['team']}.model_aliases.{fields['alias']}"
    return f"models.{entry.name}"
