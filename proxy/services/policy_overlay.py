"""Policies that people set on pages, beside those of the file."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.configuration import PageProblem, Snapshot, unknown_models
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.settings.stored_policies import StoredPolicies, StoredPolicy
from proxy.store.store import Store
from slo.policies.file import Policies
from slo.policies.toml_text import read_policy, table_text
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem

_log = logging.getLogger("thriftgate.policies")
_UNREAD: Final = (-1, 0)

#: Kinds of policies that people set on pages.
STORED_KINDS: Final = ("ceilings", "objectives", "sinks", "reports")
#: Of these the kinds that hold in a gateway without a policies file.
_WITHOUT_FILE: Final = ("sinks", "reports")
#: Fields that name an environment variable.
_VARIABLE_FIELDS: Final = ("url_env", "secret_env")
#: Beginnings of the variables that policies of pages may name beside those of the file's.
VARIABLE_PREFIXES: Final = ("ALERTS_", "REPORTS_")


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
        policies, problems = snapshot.policies, dict(snapshot.page_problems)
        changed = {
            kind: (*getattr(policies, kind), *self._valid_policies(kind, snapshot, problems))
            for kind in self._kinds
        }
        policies = msgspec.structs.replace(policies, **changed)
        return msgspec.structs.replace(snapshot, policies=policies, page_problems=problems)

    def _valid_policies(
        self, kind: str, snapshot: Snapshot, problems: dict[tuple[str, str], PageProblem]
    ) -> list[Any]:
        """The stored policies of a kind that can be in force; notes the problems of others."""
        in_file = policy_names(snapshot.policies, kind)
        added = []
        for stored in (one for one in self._known if one.kind == kind):
            try:
                if stored.name not in in_file:
                    policy = checked_policy(
                        kind, stored.fields, snapshot.catalog, snapshot.policies
                    )
                    added.append(policy)
                    continue
                reason = "the policies file has one of this name"
            except InvalidFile as error:
                fields = [(one.where.rpartition(".")[2], one.what) for one in error.problems]
                reason = ", ".join(f"{field} {what}" for field, what in fields)
            problems[kind, stored.name] = PageProblem(reason)
            _log.warning("%s of %s set on a page is left out: %s", stored.name, kind, reason)
        return added


def checked_policy(
    kind: str, fields: Mapping[str, object], catalog: Catalog, in_file: Policies
) -> Any:  # noqa: ANN401 - by kind
    """The policy with these fields, checked against the catalog and what pages may name.

    Args:
        in_file: The policies of the file.

    Raises:
        InvalidFile: With every problem found.
    """
    policy = read_policy(kind, fields, kind)
    top = parse_toml(table_text(kind, fields), kind)
    problems = [*unknown_models(top, catalog), *_refused_variables(top, kind, catalog, in_file)]
    if problems:
        raise InvalidFile(problems)
    return policy


def _refused_variables(
    top: Node, kind: str, catalog: Catalog, in_file: Policies
) -> Iterator[Problem]:
    """A problem for each variable that a policy of pages must not name: its value is sent out."""
    provider_keys = {upstream.key_env for upstream in catalog.upstreams.values()}
    allowed = {name for sink in in_file.sinks for name in (sink.url_env, sink.secret_env)}
    allowed |= {name for report in in_file.reports for name in (report.url_env, report.secret_env)}
    (table,) = top.value[kind].value
    for node in (table.value[field] for field in _VARIABLE_FIELDS if field in table.value):
        name = node.value
        if name in provider_keys:
            yield node.problem(f"names {name}, the key of a provider", "name another variable")
        elif name not in allowed and not name.startswith(VARIABLE_PREFIXES):
            what = f"names {name}, which pages may not name"
            yield node.problem(what, "take ALERTS_… or REPORTS_…, or one of the policies file")


def policy_names(policies: Policies, kind: str) -> frozenset[str]:
    """Names of the policies of a kind."""
    return frozenset(policy.name for policy in getattr(policies, kind))


def settable_kinds(settings: Settings) -> Sequence[str]:
    """The kinds of policies that can be set; others need a policies file, which may be empty."""
    return _WITHOUT_FILE if settings.policies is None else STORED_KINDS


def stored_policy_overlay(settings: Settings, store: Store) -> PolicyOverlay:
    """The overlay of a gateway."""
    return PolicyOverlay(store.policies, settable_kinds(settings))
