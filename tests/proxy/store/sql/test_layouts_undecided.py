"""Layouts that wait for a decision, and what they promise."""

import msgspec
import pytest
from sqlalchemy import Engine

from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.store.sql.layouts import Layouts, undecided_layouts

NOW = 1_790_000_000.0
PLACE = LayoutScope("team_1", "support", "claude")


@pytest.fixture
def layouts(engine: Engine) -> Layouts:
    return Layouts(engine)


def list_promises(layouts: Layouts) -> list[tuple[int, int]]:
    """Version and nano-dollars of each layout that waits for a decision."""
    return [(each.version, each.nanos) for each in undecided_layouts(layouts)]


def layout_that_saves(nanos: int) -> str:
    move = LayoutMove(
        before=None, after=None, slot=PromptSlot.VARIABLE, label="Current time", saving=nanos
    )
    return msgspec.json.encode(Layout(moves=(move,))).decode()


def test_savings_reckoned_before_an_approval_are_not_promised_again(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500), NOW)
    layouts.propose(PLACE, "d2", layout_that_saves(700), NOW + 1)
    assert list_promises(layouts) == [(2, 700)]

    layouts.approve(PLACE, 1, "ann", NOW + 2)
    # By a process that has not heard of it yet.
    layouts.propose(PLACE, "d3", layout_that_saves(600), NOW + 4)
    assert list_promises(layouts) == []

    layouts.propose(PLACE, "d2", layout_that_saves(200), NOW + 60)
    assert list_promises(layouts) == [(2, 200)]


def test_layout_that_was_proposed_last_is_promised(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500), NOW)
    layouts.propose(PLACE, "d2", layout_that_saves(700), NOW + 1)
    layouts.propose(PLACE, "d1", layout_that_saves(400), NOW + 2)

    assert list_promises(layouts) == [(1, 400)]
