"""The whole file of promises; each kind of table has a module beside this one."""

from collections.abc import Iterator

import msgspec

from slo import rungs
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


def models(top: Place) -> Iterator[tuple[str, Place]]:
    """The models that ladders and ceilings name, each with its entry: ``objectives.chat.ladder``.

    Args:
        top: A file that was read without a mistake.
    """
    for where, place in _names(top, "objectives", "ladder"):
        if rungs.is_model(place.value):
            yield where, place
    yield from _names(top, "ceilings", "cheaper")


def _names(top: Place, kind: str, key: str) -> Iterator[tuple[str, Place]]:
    """What an array of each entry of a kind holds."""
    for entry in top.value[kind].value if kind in top.value else ():
        if key in entry.value:
            where = f"{kind}.{entry.value['name'].value}.{key}"
            yield from ((where, place) for place in entry.value[key].value)
