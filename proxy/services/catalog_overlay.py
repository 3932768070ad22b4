"""Models, prices and aliases that people set on pages, over the catalog's files."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from proxy.catalog.load import STORED_SOURCE
from proxy.catalog.page_entries import alias_text, model_text
from proxy.configuration import CatalogSource, Snapshot, upstreams_with_keys
from proxy.store.errors import StoreError
from proxy.store.sql.settings.stored_policies import StoredPolicies, StoredPolicy
from slo.toml.problems import InvalidFile

_log = logging.getLogger("thriftgate.catalog")

#: Kinds of entries of the catalog that people set on pages.
CATALOG_KINDS: Final = ("models", "model_aliases")
_ALIAS: Final = "model_aliases"


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
        entries = list(self._known)
        while entries:
            try:
                catalog = snapshot.source.load(catalog_text(entries))
            except InvalidFile as invalid:
                entries = _without_faulty(entries, invalid)
                continue
            with_keys = upstreams_with_keys(catalog)
            return msgspec.structs.replace(snapshot, catalog=catalog, upstreams_with_keys=with_keys)
        return snapshot


def catalog_text(entries: Sequence[StoredPolicy]) -> str:
    """The entries as a catalog file would say them."""
    models = [model_text(entry.fields) for entry in entries if entry.kind != _ALIAS]
    aliases = alias_text(entry.fields for entry in entries if entry.kind == _ALIAS)
    return "\n".join([*models, aliases])


def entry_text(kind: str, fields: Mapping[str, Any]) -> str:
    """One entry as a catalog file would say it."""
    return alias_text([fields]) if kind == _ALIAS else model_text(fields)


def check_entries(source: CatalogSource, entries: Sequence[StoredPolicy]) -> None:
    """Checks that a catalog with these entries holds.

    Raises:
        InvalidFile: With every problem found.
    """
    source.load(catalog_text(entries))


def _without_faulty(entries: Sequence[StoredPolicy], invalid: InvalidFile) -> list[StoredPolicy]:
    """The entries that no problem is about; none where problems are about none of them."""
    _log.warning("Entries of the catalog set on pages are left out: %s", invalid)
    problems = [one for one in invalid.problems if not one.warning and one.file == STORED_SOURCE]
    sound = [entry for entry in entries if not any(_is_about(one.where, entry) for one in problems)]
    return sound if len(sound) < len(entries) else []


def _is_about(where: str, entry: StoredPolicy) -> bool:
    """True if a place in the text is in an entry."""
    if entry.kind == _ALIAS:
        return where.startswith("teams.") and entry.fields["alias"] in where
    return f"{where}.".startswith(f"models.{entry.name}.")
