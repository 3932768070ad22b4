"""Policies that people set on pages, beside those of the file."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from proxy.configuration import Snapshot, unknown_models
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.settings.stored_policies import StoredPolicies, StoredPolicy
from proxy.store.store import Store
from slo.policies.file import Policies
from slo.policies.toml_text import read_policy, table_text
from slo.toml.nodes import parse_toml
from slo.toml.problems import InvalidFile

_log = logging.getLogger("thriftgate.policies")
_UNREAD: Final = (-1, 0)

#: Kinds of policies that people set on pages.
STORED_KINDS: Final = ("ceilings", "objectives", "sinks", "reports")
#: Of these the kinds that hold in a gateway without a policies file.
_WITHOUT_FILE: Final = ("sinks", "reports")


class PolicyOverlay:
    """The stored policies as this process knows them.

    Where the database is away, those that were read last stay in force.

    Args:
        kinds: Those that can be in force.
    """

    def __init__(self, stored: StoredPolicies, kinds: Sequence[str] = STORED_KINDS) -> None:
        self._stored = stored
        self._kinds = kinds
        self._known: Sequence[StoredPolicy] = ()
        self._revision = _UNREAD

    def revision(self) -> tuple[int, int]:
        """A value that differs after each change; blocks."""
        with suppress(StoreError):  # the ledger says that the database is away
            self._revision = self._stored.revision()
        return self._revision

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the stored policies after those of the file, which win; blocks."""
        try:
            self._known = self._stored.all()
        except StoreError as error:
            _log.warning("Policies set on pages stay as they were: %s", error)
        policies = snapshot.policies
        changed = {
            kind: (*getattr(policies, kind), *self._valid_policies(kind, snapshot))
            for kind in self._kinds
        }
        policies = msgspec.structs.replace(policies, **changed)
        return msgspec.structs.replace(snapshot, policies=policies)

    def _valid_policies(self, kind: str, snapshot: Snapshot) -> list[Any]:
        """The stored policies of a kind that can be in force."""
        in_file = policy_names(snapshot.policies, kind)
        added = []
        for stored in self._known:
            if stored.kind == kind and stored.name in in_file:
                _log.warning(
                    "The policies file has %s in its %s, which replaces the page's",
                    stored.name,
                    kind,
                )
            elif stored.kind == kind:
                try:
                    added.append(checked_policy(kind, stored.fields, snapshot))
                except InvalidFile as error:
                    _log.warning("%s of %s is left out: %s", stored.name, kind, error)
        return added


def checked_policy(kind: str, fields: Mapping[str, object], snapshot: Snapshot) -> Any:  # noqa: ANN401 - by kind
    """The policy with these fields, checked against the catalog.

    Raises:
        InvalidFile: With every problem found.
    """
    policy = read_policy(kind, fields, kind)
    top = parse_toml(table_text(kind, fields), kind)
    if unknown := list(unknown_models(top, snapshot.catalog)):
        raise InvalidFile(unknown)
    return policy


def policy_names(policies: Policies, kind: str) -> frozenset[str]:
    """Names of the policies of a kind."""
    return frozenset(policy.name for policy in getattr(policies, kind))


def settable_kinds(settings: Settings) -> Sequence[str]:
    """The kinds of policies that can be set; others need a policies file, which may be empty."""
    return _WITHOUT_FILE if settings.policies is None else STORED_KINDS


def stored_policy_overlay(settings: Settings, store: Store) -> PolicyOverlay:
    """The overlay of a gateway."""
    return PolicyOverlay(store.policies, settable_kinds(settings))
