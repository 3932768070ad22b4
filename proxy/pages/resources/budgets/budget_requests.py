"""A budget as people send it, read by the rules of the policies file."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from proxy.errors import CallerError
from slo.budget import EVERY, Budget, BudgetUnit
from slo.policies.file import read
from slo.toml.nodes import parse_toml
from slo.toml.problems import InvalidFile
from slo.toml.values import toml_value

_MAX_CHARS: Final = 256
#: Where problems of what was sent are said to be.
_SOURCE: Final = "request"

Text = Annotated[str, Field(max_length=_MAX_CHARS)]


class BudgetRequest(BaseModel):
    """A budget to set: fields of ``[[budgets]]`` in the policies file, with the same rules.

    ``limit`` is a text: dollars with up to nine decimals, or a whole number. Where ``hold``,
    ``on_loss``, ``unpriced`` or ``alerts`` is null, its default holds.
    """

    scope: Text
    of: Text = EVERY
    unit: Text
    window: Text
    limit: Text
    hard: bool = True
    hold: Text | None = None
    on_loss: Text | None = None
    unpriced: Text | None = None
    alerts: Annotated[list[int], Field(max_length=100)] | None = None


def requested_budget(name: str, asked: BudgetRequest) -> Budget:
    """The budget of a request.

    Args:
        name: Its name.
        asked: The request.

    Raises:
        CallerError: It breaks a rule; says which, and the fix.
    """
    lines = "\n".join(f"{key} = {value}" for key, value in _toml_fields(name, asked).items())
    try:
        (found,) = read(parse_toml(f"[[budgets]]\n{lines}\n", _SOURCE)).budgets
    except InvalidFile as bad:
        named = [(problem.where.rpartition(".")[2], problem) for problem in bad.problems]
        faults = [f"{field} {problem.what}; {problem.fix}." for field, problem in named]
        raise CallerError(" ".join(faults), code="invalid_budget", param=named[0][0]) from None
    return found


def _toml_fields(name: str, asked: BudgetRequest) -> dict[str, str]:
    limit = asked.limit.strip()
    is_count = asked.unit != BudgetUnit.USD and limit.isascii() and limit.isdigit()
    fields = {
        "name": toml_value(name),
        "scope": toml_value(asked.scope),
        "of": toml_value(asked.of),
        "unit": toml_value(asked.unit),
        "window": toml_value(asked.window),
        "limit": str(int(limit)) if is_count else toml_value(limit),
        "hard": "true" if asked.hard else "false",
    }
    for key, text in (
        ("hold", asked.hold),
        ("on_loss", asked.on_loss),
        ("unpriced", asked.unpriced),
    ):
        if text is not None:
            fields[key] = toml_value(text)
    if asked.alerts is not None:
        fields["alerts"] = toml_value(asked.alerts)
    return fields
