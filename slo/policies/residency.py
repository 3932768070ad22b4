"""The residency rules of a policies file: where calls may be processed.

::

[[residency]]
name = "acme-in-europe"
team = "acme"             # "*", the default: every team's calls
feature = "*"             # the default; "": calls that name none
regions = ["eu"]          # regions of upstreams in the catalog
"""

from collections.abc import Iterable

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import entry_name
from slo.toml.table_reader import TableReader, checked_value

#: Keys of a rule's table.
KEYS = ("name", "team", "feature", "regions")
_MAX_REGIONS = 50
_FIX = 'write regions = ["eu"]'


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """Binds calls to regions.

    Attributes:
        name: Unique among rules.
        team: Name of the team whose calls it binds; ``EVERY`` for all.
        feature: The same of their feature.
        regions: Regions where they may be processed; at least one.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    regions: frozenset[str]

    def binds(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def residency(table: TableReader) -> Residency:
    """The rule of a table, with stand-ins where it has problems."""
    team, feature = table.text("team", EVERY), table.text("feature", EVERY)
    if team == "":
        table.add_problem("team", "is empty, and every call has a team", 'write a name, or "*"')
    return Residency(
        name=entry_name(table, "acme-in-europe"),
        team=EVERY if team is None else team,
        feature=EVERY if feature is None else feature,
        regions=_regions(table),
    )


def bound_regions(
    rules: Iterable[Residency], team: str, feature: str
) -> tuple[frozenset[str] | None, str]:
    """The regions that all rules together allow, and the names of the rules; None for anywhere."""
    binding_rules = [rule for rule in rules if rule.binds(team, feature)]
    if not binding_rules:
        return None, ""
    regions = frozenset.intersection(*(rule.regions for rule in binding_rules))
    return regions, ", ".join(rule.name for rule in binding_rules)


def _regions(table: TableReader) -> frozenset[str]:
    if "regions" not in table.nodes:
        table.add_problem("regions", "is missing", _FIX)
    nodes = table.elements("regions")
    regions = {checked_value(node, str, table.problems, _FIX) for node in nodes}
    if "regions" in table.nodes and not 0 < len(nodes) <= _MAX_REGIONS:
        table.add_problem("regions", f"lists {len(nodes)}", f"{_FIX}, up to {_MAX_REGIONS}")
    if "" in regions:
        table.add_problem("regions", "has one without a name", _FIX)
    return frozenset(region for region in regions if region)
