"""The whole file of promises; each kind of table has a module beside this one."""

import msgspec

from slo.budget import Budget
from slo.ceiling import Ceiling
from slo.objective import Objective
from slo.promises import budgets, ceilings, objectives, sinks
from slo.promises.sinks import Sink
from slo.promises.table import BadPromises, Mistake, Place, Table, entries


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What teams are promised, in the order it was written."""

    budgets: tuple[Budget, ...] = ()
    objectives: tuple[Objective, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    sinks: tuple[Sink, ...] = ()


def read(top: Place) -> Promises:
    """The promises of a file.

    Args:
        top: The whole text, a table.

    Raises:
        BadPromises: With every mistake found.
    """
    mistakes: list[Mistake] = []
    table = Table(top, "", ("budgets", "objectives", "ceilings", "sinks"), mistakes)
    found = Promises(
        budgets=entries(table, "budgets", budgets.KEYS, budgets.budget, mistakes),
        objectives=entries(table, "objectives", objectives.KEYS, objectives.objective, mistakes),
        ceilings=entries(table, "ceilings", ceilings.KEYS, ceilings.ceiling, mistakes),
        sinks=entries(table, "sinks", sinks.KEYS, sinks.sink, mistakes),
    )
    if mistakes:
        raise BadPromises(mistakes)
    return found
