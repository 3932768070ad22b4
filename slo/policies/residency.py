"""The residency rules of a policies file: where calls may be processed."""

from collections.abc import Iterable
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import FEATURE, TEAM, name_field
from slo.toml.fields import Field, read_fields
from slo.toml.table_reader import TableReader, checked_value

_MAX_REGIONS = 50
_FIX = 'write regions = ["eu"]'


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """Binds calls to regions, of which at least one."""

    name: str
    team: str = EVERY
    feature: str = EVERY
    regions: frozenset[str]

    def binds(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def residency(table: TableReader) -> Residency:
    """The rule of a table, with stand-ins where it has problems."""
    return Residency(**read_fields(table, FIELDS))


def bound_regions(
    rules: Iterable[Residency], team: str, feature: str
) -> tuple[frozenset[str] | None, str]:
    """The regions that all rules together allow, and the names of the rules; None for anywhere."""
    binding_rules = [rule for rule in rules if rule.binds(team, feature)]
    if not binding_rules:
        return None, ""
    regions = frozenset.intersection(*(rule.regions for rule in binding_rules))
    return regions, ", ".join(rule.name for rule in binding_rules)


def _regions(table: TableReader, field: Field) -> frozenset[str]:
    nodes = table.elements(field.key)
    regions = {checked_value(node, str, table.problems, _FIX) for node in nodes}
    if not 0 < len(nodes) <= _MAX_REGIONS:
        table.add_problem(field.key, f"lists {len(nodes)}", f"{_FIX}, up to {_MAX_REGIONS}")
    if "" in regions:
        table.add_problem(field.key, "has one without a name", _FIX)
    return frozenset(region for region in regions if region)


FIELDS: Final = (
    name_field("acme-in-europe"),
    TEAM,
    FEATURE,
    Field(
        "regions",
        _regions,
        frozenset(),
        "regions of upstreams in the [catalog](../proxy/catalog/README.md), or of engines",
        missing=_FIX,
    ),
)
