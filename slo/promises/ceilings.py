"""The cost ceilings of a file of promises.

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

from slo.budget import EVERY, Unpriced
from slo.ceiling import Ceiling, Step
from slo.decimals import plain
from slo.promises.table import DOLLARS, NANOS, Table, advice, dollars, spoken
from slo.reservations import MOST

_MOST_MODELS = 10
_EXAMPLE = '"0.05"'
#: What a table of a ceiling may say.
KEYS = ("name", "team", "feature", "limit", "on_exceed", "cheaper", "unpriced")


def ceiling(table: Table) -> Ceiling:
    """The ceiling of a table, with stand-ins where it has mistakes."""
    steps = _steps(table)
    return Ceiling(
        name=table.name("suggestions"),
        team=_team(table),
        feature=_feature(table),
        limit=_limit(table),
        on_exceed=steps,
        cheaper=_cheaper(table, steps),
        unpriced=table.chosen("unpriced", Unpriced, Unpriced.OWN) or Unpriced.OWN,
    )


def _team(table: Table) -> str:
    team = table.text("team", EVERY)
    if team == "":
        table.wrong("team", "is empty, and every call has a team", 'write a name, or "*"')
    return EVERY if team is None else team


def _feature(table: Table) -> str:
    feature = table.text("feature", EVERY)
    return EVERY if feature is None else feature


def _limit(table: Table) -> int:
    """In nano-dollars; 1 where it is wrong."""
    if "limit" not in table.entries:
        table.wrong("limit", "is missing", f"write limit = {_EXAMPLE} for five cents a call")
        return 1
    value = table.entries["limit"].value
    exact = dollars(value)
    if exact is None:
        meant = plain(value)
        example = f'"{meant}"' if DOLLARS.fullmatch(meant) else _EXAMPLE
        mend = f"write dollars of at most 9 decimals as a string: {example}"
        table.wrong("limit", f"is {spoken(value)}", mend)
    elif not 1 <= exact <= MOST:
        most = f"{MOST // NANOS:,} dollars"
        table.wrong("limit", f"is {spoken(value)}", f"write more than 0, and at most {most}")
    return exact or 1


def _steps(table: Table) -> tuple[Step, ...]:
    """What is to be done, in order."""
    if "on_exceed" not in table.entries:
        return tuple(Step)
    known = list(Step)
    steps: list[Step] = []
    for place in table.array("on_exceed"):
        said = place.value
        if not isinstance(said, str) or said not in known:
            mend = advice(said, known) if isinstance(said, str) else f'write "{known[0]}"'
            table.wrong("on_exceed", f"holds {spoken(said)}", mend)
        elif said in steps:
            table.wrong("on_exceed", f"holds {said} twice", "take one out")
        else:
            steps.append(Step(said))
    if Step.REFUSE in steps[:-1]:
        table.wrong("on_exceed", "goes on after refuse", "let refuse be the last")
    return tuple(steps)


def _cheaper(table: Table, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The models to go to."""
    if "cheaper" not in table.entries:
        if Step.CHEAPER in steps and "on_exceed" in table.entries:
            mend = 'write cheaper = ["gpt-5.4-mini"], or others'
            table.wrong("cheaper", "is missing, and on_exceed says cheaper", mend)
        return ()
    said = [place.value for place in table.array("cheaper")]
    names = [name for name in said if isinstance(name, str) and 0 < len(name) <= 256]
    if not len(set(names)) == len(said) <= _MOST_MODELS:
        mend = f"write up to {_MOST_MODELS} names of models, each once"
        table.wrong("cheaper", "is no list of models", mend)
    if Step.CHEAPER not in steps:
        mend = 'write "cheaper" in on_exceed too, or leave it out'
        table.wrong("cheaper", "is never used: on_exceed does not say cheaper", mend)
    return tuple(names)
