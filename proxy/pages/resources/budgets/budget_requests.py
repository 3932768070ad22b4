"""Reads a budget that a person sends, by the same rules as the policies file."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from proxy.errors import CallerError
from slo.budgets.budget import EVERY, Budget, BudgetUnit
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


def requested_budget(name: str, request: BudgetRequest) -> Budget:
    """The budget of a request.

    Raises:
        CallerError: It breaks a rule; says which, and the fix.
    """
    lines = "\n".join(f"{key} = {value}" for key, value in _toml_fields(name, request).items())
    try:
        (budget,) = read(parse_toml(f"[[budgets]]\n{lines}\n", _SOURCE)).budgets
    except InvalidFile as bad:
        named = [(problem.where.rpartition(".")[2], problem) for problem in bad.problems]
        faults = [f"{field} {problem.what}; {problem.fix}." for field, problem in named]
        raise CallerError(" ".join(faults), code="invalid_budget", param=named[0][0]) from None
    return budget


def _toml_fields(name: str, request: BudgetRequest) -> dict[str, str]:
    """The values in TOML, by field; those that are null are left out."""
    fields = {"name": name, **request.model_dump(exclude_none=True)}
    limit = request.limit.strip()
    is_count = request.unit != BudgetUnit.USD and limit.isascii() and limit.isdigit()
    fields["limit"] = int(limit) if is_count else limit
    return {key: toml_value(value) for key, value in fields.items()}
