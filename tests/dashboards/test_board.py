from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from dashboards.board import AdminBoard, BudgetRefusals, fullest_budget
from slo.budgets.budget import BudgetUnit
from tests.fakes.board import (
    NOW,
    FakeBoard,
    a_counter,
    a_pin,
    a_reroute,
    a_rerouted_call,
    an_objective,
    an_open_alert,
)

ROWS = (a_counter, a_rerouted_call, an_open_alert, a_pin, an_objective, a_reroute)


@pytest.mark.parametrize("made", ROWS)
def test_rows_are_values(made):
    row: Any = made()

    assert row == made()
    with pytest.raises(FrozenInstanceError):
        setattr(row, fields(row)[0].name, "another")


def test_an_objective_that_nothing_happened_to_needs_no_more_than_its_promise():
    promise = an_objective(state="healthy", level=0, since=None, why="", burn=None)

    assert (promise.since, promise.burn, promise.pin) == (None, None, None)


def test_a_board_is_whatever_answers_all_of_it():
    board: AdminBoard = FakeBoard()

    assert isinstance(board, FakeBoard)


def test_fullest_budget_is_the_one_in_dollars_with_the_largest_share_spent():
    half = a_counter(budget="half", limit=10, spent=5)
    most = a_counter(budget="most", limit=10, spent=9)
    unknown = a_counter(budget="unknown", spent=None)
    calls = a_counter(budget="calls", unit=BudgetUnit.REQUESTS, limit=10, spent=10)

    assert fullest_budget([half, most, unknown, calls]) == most
    assert fullest_budget([unknown, calls]) is None


def test_a_budget_that_refuses_calls_comes_before_fuller_ones():
    refusals = BudgetRefusals(count=3, first=NOW - 60, last=NOW, calls={})
    refusing = a_counter(budget="refusing", limit=10, spent=5, refusals=refusals)

    assert fullest_budget([a_counter(budget="full", limit=10, spent=10), refusing]) == refusing
