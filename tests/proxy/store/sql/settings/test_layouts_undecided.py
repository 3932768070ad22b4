"""Layouts that wait for a decision, and what they promise."""

import msgspec
import pytest
from sqlalchemy import Engine

from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.store.sql.settings.layouts import Layouts, undecided_layouts

NOW = 1_790_000_000.0
PLACE = LayoutScope("team_1", "support", "claude")


@pytest.fixture
def layouts(engine: Engine) -> Layouts:
    return Layouts(engine)


def list_promises(layouts: Layouts) -> list[tuple[int, int]]:
    """Version and nano-dollars of each layout that waits for a decision."""
    return [
        (undecided_layout.version, undecided_layout.nanos)
        for undecided_layout in undecided_layouts(layouts)
    ]


def layout_that_saves(nanos: int, calls: int = 0) -> str:
    move = LayoutMove(
        before=None,
        after=None,
        slot=PromptSlot.VARIABLE,
        label="Current time",
        calls=calls,
        saving=nanos,
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


def list_states(layouts: Layouts) -> list[str]:
    """State of each version, the oldest first."""
    return [proposal.state.value for proposal in layouts.proposals(PLACE)]


def test_layout_that_later_calls_speak_against_waits_no_more_but_stays_in_history(
    layouts: Layouts,
) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500, calls=3), NOW)

    layouts.withdraw(PLACE, 25, NOW + 1)

    assert list_promises(layouts) == []
    assert list_states(layouts) == ["withdrawn"]


def test_layout_stays_proposed_for_a_process_that_saw_fewer_calls(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500, calls=30), NOW)

    layouts.withdraw(PLACE, 25, NOW + 1)

    assert list_promises(layouts) == [(1, 500)]


def test_figures_of_a_layout_that_another_replaced_are_withdrawn(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500), NOW)
    layouts.propose(PLACE, "d2", layout_that_saves(200), NOW + 1)

    layouts.withdraw(PLACE, 25, NOW + 1, keep="d2")

    assert list_states(layouts) == ["withdrawn", "proposed"]


def test_withdrawn_layout_is_proposed_under_its_version_once_it_pays_again(
    layouts: Layouts,
) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500), NOW)
    layouts.withdraw(PLACE, 25, NOW + 1)

    layouts.propose(PLACE, "d1", layout_that_saves(300), NOW + 2)

    assert list_promises(layouts) == [(1, 300)]
    assert layouts.proposals(PLACE)[0].decided_at == 0


def test_decided_layout_is_not_withdrawn(layouts: Layouts) -> None:
    layouts.propose(PLACE, "d1", layout_that_saves(500), NOW)
    layouts.approve(PLACE, 1, "ann", NOW + 1)

    layouts.withdraw(PLACE, 25, NOW + 60)

    assert list_states(layouts) == ["approved"]
