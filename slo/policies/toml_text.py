"""Policies as the text of a policies file, and one policy read from its fields."""

from collections.abc import Mapping
from difflib import ndiff
from typing import Any

from slo.budgets.budget import EVERY, Budget, BudgetUnit, HoldPolicy, OnStoreLoss, UnpricedPolicy
from slo.objectives.toml_writer import dollars_text
from slo.policies.file import read
from slo.toml.nodes import parse_toml
from slo.toml.values import toml_line

_USUAL_ALERTS = (50, 80, 95)


def budget_toml(budget: Budget) -> str:
    """The table of a budget, without what goes without saying."""
    is_usd = budget.unit is BudgetUnit.USD
    usual_loss = OnStoreLoss.CLOSED if budget.hard else OnStoreLoss.OPEN
    fields = {
        "name": budget.name,
        "scope": budget.scope,
        "of": None if budget.of == EVERY else budget.of,
        "unit": budget.unit,
        "window": budget.window,
        "limit": dollars_text(budget.limit) if is_usd else budget.limit,
        "hard": None if budget.hard else False,
        "hold": None if budget.hold is HoldPolicy.P95 else budget.hold,
        "on_loss": None if budget.on_loss is usual_loss else budget.on_loss,
        "unpriced": None if budget.unpriced is UnpricedPolicy.OWN else budget.unpriced,
        "alerts": None if budget.alerts == _USUAL_ALERTS else budget.alerts,
    }
    return table_text("budgets", fields)


def read_policy(array: str, fields: Mapping[str, object], source: str) -> Any:  # noqa: ANN401 - by kind
    """The policy whose table has these fields, by all rules of the file.

    Args:
        source: Where problems are said to be.

    Raises:
        InvalidFile: With every problem found.
    """
    (policy,) = getattr(read(parse_toml(table_text(array, fields), source)), array)
    return policy


def toml_difference(before: str, after: str) -> list[tuple[str, str]]:
    """The lines of two texts, each with its mark: - for one that goes, + for a new one."""
    lines = ndiff(before.splitlines(), after.splitlines())
    return [(line[0].strip(), line[2:]) for line in lines if not line.startswith("?")]


def table_text(array: str, fields: Mapping[str, object]) -> str:
    """A table of an array; fields of None are left out."""
    lines = [toml_line(key, value) for key, value in fields.items() if value is not None]
    return "\n".join([f"[[{array}]]", *lines, ""])
