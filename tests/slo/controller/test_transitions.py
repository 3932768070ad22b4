from msgspec.structs import replace

from slo.controller.state import ControllerSnapshot, ControllerState
from slo.controller.transitions import StateChange, state_change

BEFORE = ControllerSnapshot(
    state=ControllerState.DEGRADED, level=1, since=100.0, share=0.05, until=220.0
)


def test_a_move_says_from_where_to_where_when_and_why():
    after = replace(BEFORE, level=2, since=220.0, reason="Of 60 calls 9 were bad.")

    assert state_change(BEFORE, after) == StateChange(
        before=ControllerState.DEGRADED,
        after=ControllerState.DEGRADED,
        level_before=1,
        level=2,
        at=220.0,
        reason="Of 60 calls 9 were bad.",
    )


def test_a_change_of_state_alone_is_a_move():
    move = state_change(BEFORE, replace(BEFORE, state=ControllerState.FROZEN))

    assert move is not None
    assert (move.before, move.after, move.level) == (
        ControllerState.DEGRADED,
        ControllerState.FROZEN,
        1,
    )


def test_a_change_of_the_share_is_none():
    assert state_change(BEFORE, BEFORE) is None
    assert state_change(BEFORE, replace(BEFORE, share=0.1)) is None
