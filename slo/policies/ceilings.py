"""The cost ceilings of a policies file.

::

[[ceilings]]
name = "suggestions"
team = "*"                               # the default: every team's calls
feature = "suggestions"                  # "*", the default; "": calls that name none
limit = "0.01"                           # dollars a call, as a "string", never rounded
on_exceed = ["clamp", "cheaper", "refuse"]  # the default, in this order; [] only measures
cheaper = ["gpt-5.4-mini"]               # models to go to, in this order
unpriced = "own"                         # the default; or refuse, allow: as of budgets
"""

from slo.budgets.budget import EVERY, UnpricedPolicy
from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.budgets.reservations import MAX_AMOUNT
from slo.decimals import (
    DOLLARS_PATTERN,
    NANOS_PER_DOLLAR,
    nanos_of_dollars,
    normalize_decimal,
)
from slo.policies.entries import entry_name
from slo.toml.table_reader import TableReader, checked_choice, describe_value

_MAX_MODELS = 10
_EXAMPLE = '"0.05"'
#: Keys of a ceiling's table.
KEYS = ("name", "team", "feature", "limit", "on_exceed", "cheaper", "unpriced")


def ceiling(table: TableReader) -> Ceiling:
    """The ceiling of a table, with stand-ins where it has problems."""
    steps = _steps(table)
    return Ceiling(
        name=entry_name(table, "suggestions"),
        team=_team(table),
        feature=_feature(table),
        limit=_limit(table),
        on_exceed=steps,
        cheaper=_cheaper(table, steps),
        unpriced=table.member("unpriced", UnpricedPolicy, UnpricedPolicy.OWN) or UnpricedPolicy.OWN,
    )


def _team(table: TableReader) -> str:
    team = table.text("team", EVERY)
    if team == "":
        table.add_problem("team", "is empty, and every call has a team", 'write a name, or "*"')
    return EVERY if team is None else team


def _feature(table: TableReader) -> str:
    feature = table.text("feature", EVERY)
    return EVERY if feature is None else feature


def _limit(table: TableReader) -> int:
    """In nano-dollars; 1 where it is wrong."""
    if "limit" not in table.nodes:
        table.add_problem("limit", "is missing", f"write limit = {_EXAMPLE} for five cents a call")
        return 1
    value = table.nodes["limit"].value
    exact = nanos_of_dollars(value)
    if exact is None:
        decimal = normalize_decimal(value)
        example = f'"{decimal}"' if DOLLARS_PATTERN.fullmatch(decimal) else _EXAMPLE
        fix = f"write dollars of at most 9 decimals as a string: {example}"
        table.add_problem("limit", f"is {describe_value(value)}", fix)
    elif not 1 <= exact <= MAX_AMOUNT:
        maximum = f"{MAX_AMOUNT // NANOS_PER_DOLLAR:,} dollars"
        table.add_problem(
            "limit", f"is {describe_value(value)}", f"write more than 0, and at most {maximum}"
        )
    return exact or 1


def _steps(table: TableReader) -> tuple[CeilingStep, ...]:
    """The steps to take, in order."""
    if "on_exceed" not in table.nodes:
        return tuple(CeilingStep)
    names = [str(step) for step in CeilingStep]
    steps: list[CeilingStep] = []
    for node in table.elements("on_exceed"):
        step = checked_choice(node, names, table.problems)
        if step in steps:
            table.add_problem("on_exceed", f"holds {step} twice", "take one out")
        elif step:
            steps.append(CeilingStep(step))
    if CeilingStep.REFUSE in steps[:-1]:
        table.add_problem("on_exceed", "goes on after refuse", "let refuse be the last")
    return tuple(steps)


def _cheaper(table: TableReader, steps: tuple[CeilingStep, ...]) -> tuple[str, ...]:
    """The models to go to."""
    if "cheaper" not in table.nodes:
        if CeilingStep.CHEAPER in steps and "on_exceed" in table.nodes:
            fix = 'write cheaper = ["gpt-5.4-mini"], or others'
            table.add_problem("cheaper", "is missing, and on_exceed says cheaper", fix)
        return ()
    values = [node.value for node in table.elements("cheaper")]
    names = [name for name in values if isinstance(name, str) and 0 < len(name) <= 256]
    if not len(set(names)) == len(values) <= _MAX_MODELS:
        fix = f"write up to {_MAX_MODELS} names of models, each once"
        table.add_problem("cheaper", "is no list of models", fix)
    if CeilingStep.CHEAPER not in steps:
        fix = 'write "cheaper" in on_exceed too, or leave it out'
        table.add_problem("cheaper", "is never used: on_exceed does not say cheaper", fix)
    return tuple(names)
