"""The whole policies file; each kind of table has a module beside this one."""

from collections.abc import Iterator

import msgspec

from slo import ladder_levels
from slo.budget import Budget
from slo.ceiling import Ceiling
from slo.objective import Objective
from slo.policies import budgets, ceilings, objectives, reports, sinks
from slo.policies import residency as residency_rules
from slo.policies.entries import read_entries
from slo.policies.reports import ScheduledReport
from slo.policies.residency import Residency
from slo.policies.sinks import Sink
from slo.toml.nodes import Node
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, ceilings, objectives, residency rules, sinks and reports, in the file's order."""

    budgets: tuple[Budget, ...] = ()
    objectives: tuple[Objective, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    sinks: tuple[Sink, ...] = ()
    residency: tuple[Residency, ...] = ()
    reports: tuple[ScheduledReport, ...] = ()


def read(top: Node) -> Policies:
    """The policies of a file.

    Args:
        top: The whole text, a table.

    Raises:
        InvalidFile: With every problem found.
    """
    problems: list[Problem] = []
    known = ("budgets", "objectives", "ceilings", "sinks", "residency", "reports")
    table = TableReader(top, known, problems)
    found = Policies(
        budgets=read_entries(table, "budgets", budgets.KEYS, budgets.budget),
        objectives=read_entries(table, "objectives", objectives.KEYS, objectives.objective),
        ceilings=read_entries(table, "ceilings", ceilings.KEYS, ceilings.ceiling),
        sinks=read_entries(table, "sinks", sinks.KEYS, sinks.sink),
        residency=read_entries(table, "residency", residency_rules.KEYS, residency_rules.residency),
        reports=read_entries(table, "reports", reports.KEYS, reports.report),
    )
    if problems:
        raise InvalidFile(problems)
    return found


def models(top: Node) -> Iterator[Node]:
    """The models that ladders and ceilings name.

    Args:
        top: A file that was read without a problem.
    """
    for node in _names(top, "objectives", "ladder"):
        if ladder_levels.is_model(node.value):
            yield node
    yield from _names(top, "ceilings", "cheaper")


def _names(top: Node, kind: str, key: str) -> Iterator[Node]:
    """All values that the entries of a kind hold in an array."""
    for entry in top.value[kind].value if kind in top.value else ():
        if key in entry.value:
            yield from entry.value[key].value
