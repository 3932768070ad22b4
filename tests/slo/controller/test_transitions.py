from msgspec.structs import replace

from slo.controller.state import Standing, State
from slo.controller.transitions import Move, moves

BEFORE = Standing(state=State.DEGRADED, level=1, since=100.0, share=0.05, until=220.0)


def test_a_move_says_from_where_to_where_when_and_why():
    after = replace(BEFORE, level=2, since=220.0, reason="Of 60 calls 9 were bad.")

    assert moves(BEFORE, after) == Move(
        before=State.DEGRADED,
        after=State.DEGRADED,
        level_before=1,
        level=2,
        at=220.0,
        reason="Of 60 calls 9 were bad.",
    )


def test_a_change_of_state_alone_is_a_move():
    move = moves(BEFORE, replace(BEFORE, state=State.FROZEN))

    assert move is not None
    assert (move.before, move.after, move.level) == (State.DEGRADED, State.FROZEN, 1)


def test_a_change_of_the_share_is_none():
    assert moves(BEFORE, BEFORE) is None
    assert moves(BEFORE, replace(BEFORE, share=0.1)) is None
