"""The whole policies file; each kind of table has a module beside this one."""

from collections.abc import Iterator

import msgspec

from slo import ladder_levels
from slo.budget import Budget
from slo.ceiling import Ceiling
from slo.objective import Objective
from slo.policies import budgets, ceilings, objectives, sinks
from slo.policies.sinks import Sink
from slo.policies.table import (
    InvalidPolicies,
    LocatedValue,
    PolicyMistake,
    TableReader,
    read_entries,
)


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, ceilings, objectives and sinks, in the order of the file."""

    budgets: tuple[Budget, ...] = ()
    objectives: tuple[Objective, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    sinks: tuple[Sink, ...] = ()


def read(top: LocatedValue) -> Policies:
    """The promises of a file.

    Args:
        top: The whole text, a table.

    Raises:
        InvalidPolicies: With every mistake found.
    """
    mistakes: list[PolicyMistake] = []
    table = TableReader(top, "", ("budgets", "objectives", "ceilings", "sinks"), mistakes)
    found = Policies(
        budgets=read_entries(table, "budgets", budgets.KEYS, budgets.budget, mistakes),
        objectives=read_entries(
            table, "objectives", objectives.KEYS, objectives.objective, mistakes
        ),
        ceilings=read_entries(table, "ceilings", ceilings.KEYS, ceilings.ceiling, mistakes),
        sinks=read_entries(table, "sinks", sinks.KEYS, sinks.sink, mistakes),
    )
    if mistakes:
        raise InvalidPolicies(mistakes)
    return found


def models(top: LocatedValue) -> Iterator[tuple[str, LocatedValue]]:
    """The models that ladders and ceilings name, each with its entry: ``objectives.chat.ladder``.

    Args:
        top: A file that was read without a mistake.
    """
    for where, place in _names(top, "objectives", "ladder"):
        if ladder_levels.is_model(place.value):
            yield where, place
    yield from _names(top, "ceilings", "cheaper")


def _names(top: LocatedValue, kind: str, key: str) -> Iterator[tuple[str, LocatedValue]]:
    """All values that the entries of a kind hold in an array."""
    for entry in top.value[kind].value if kind in top.value else ():
        if key in entry.value:
            where = f"{kind}.{entry.value['name'].value}.{key}"
            yield from ((where, place) for place in entry.value[key].value)
