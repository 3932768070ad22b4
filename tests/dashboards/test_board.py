from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from dashboards.board import AdminBoard
from tests.fakes.board import (
    FakeBoard,
    a_counter,
    a_moved,
    a_notice,
    a_pin,
    a_promise,
    a_stay,
    told,
)

ROWS = (a_counter, a_moved, a_notice, a_pin, a_promise, a_stay, told)


@pytest.mark.parametrize("made", ROWS)
def test_rows_are_values(made):
    row: Any = made()

    assert row == made()
    with pytest.raises(FrozenInstanceError):
        setattr(row, fields(row)[0].name, "another")


def test_an_objective_that_nothing_happened_to_needs_no_more_than_its_promise():
    promise = a_promise(state="healthy", level=0, since=None, why="", burn=None)

    assert (promise.since, promise.burn, promise.pin) == (None, None, None)


def test_a_board_is_whatever_answers_all_of_it():
    board: AdminBoard = FakeBoard()

    assert isinstance(board, FakeBoard)
