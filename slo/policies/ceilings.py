"""The cost ceilings of a policies file."""

from typing import Final

from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.policies.entries import FEATURE, TEAM, UNPRICED, dollars, name_field
from slo.toml.fields import Field, read_fields
from slo.toml.table_reader import TableReader, checked_choice

_MAX_MODELS = 10


def ceiling(table: TableReader) -> Ceiling:
    """The ceiling of a table, with stand-ins where it has problems."""
    ceiling = Ceiling(**read_fields(table, FIELDS))
    is_used = CeilingStep.CHEAPER in ceiling.on_exceed
    if "cheaper" not in table.nodes and is_used and "on_exceed" in table.nodes:
        fix = 'write cheaper = ["gpt-5.4-mini"], or others'
        table.add_problem("cheaper", "is missing, and on_exceed says cheaper", fix)
    if "cheaper" in table.nodes and not is_used:
        fix = 'write "cheaper" in on_exceed too, or leave it out'
        table.add_problem("cheaper", "is never used: on_exceed does not say cheaper", fix)
    return ceiling


def _steps(table: TableReader, field: Field) -> tuple[CeilingStep, ...]:
    steps: list[CeilingStep] = []
    for node in table.elements(field.key):
        step = checked_choice(node, tuple(CeilingStep), table.problems)
        if step in steps:
            table.add_problem(field.key, f"holds {step} twice", "take one out")
        elif step:
            steps.append(CeilingStep(step))
    if CeilingStep.REFUSE in steps[:-1]:
        table.add_problem(field.key, "goes on after refuse", "let refuse be the last")
    return tuple(steps)


def _models(table: TableReader, field: Field) -> tuple[str, ...]:
    values = [node.value for node in table.elements(field.key)]
    names = [name for name in values if isinstance(name, str) and 0 < len(name) <= 256]
    if not len(set(names)) == len(values) <= _MAX_MODELS:
        fix = f"write up to {_MAX_MODELS} names of models, each once"
        table.add_problem(field.key, "is no list of models", fix)
    return tuple(names)


FIELDS: Final = (
    name_field("suggestions"),
    TEAM,
    FEATURE,
    Field(
        "limit",
        dollars,
        1,
        "US dollars a call, a string of at most 9 decimals",
        missing='write limit = "0.05" for five cents a call',
        example="0.05",
    ),
    Field(
        "on_exceed",
        _steps,
        tuple(CeilingStep),
        "`clamp`, `cheaper`, `refuse`, tried in this order; `refuse` last; `[]` only measures",
    ),
    Field("cheaper", _models, (), "up to 10 models, in order; requires the step `cheaper`"),
    UNPRICED,
)
