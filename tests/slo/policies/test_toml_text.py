"""Policies written as TOML read as the same policies again."""

import pytest

from slo.budgets.budget import Budget
from slo.policies.file import read
from slo.policies.toml_text import budget_toml
from slo.toml.nodes import parse_toml

PLAIN = """[[budgets]]
name = "day"
scope = "team"
unit = "usd"
window = "day"
limit = "2.5"
"""


def budget_of(text: str) -> Budget:
    (budget,) = read(parse_toml(text, "policies.toml")).budgets
    return budget


@pytest.mark.parametrize(
    "more",
    [
        "",
        'of = "acme"\nhold = "worst"\non_loss = "open"\nunpriced = "refuse"\nalerts = []\n',
        "hard = false\nalerts = [60, 90]\n",
    ],
)
def test_a_budget_reads_as_itself_again(more: str) -> None:
    budget = budget_of(PLAIN + more)

    assert budget_of(budget_toml(budget)) == budget


@pytest.mark.parametrize("unit", ["tokens", "requests"])
def test_a_count_is_written_as_a_number(unit: str) -> None:
    text = PLAIN.replace('"usd"', f'"{unit}"').replace('"2.5"', "2500")

    assert budget_toml(budget_of(text)) == text


def test_usual_values_are_left_out() -> None:
    assert budget_toml(budget_of(PLAIN)) == PLAIN
