import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.controller.canary_share import level_for
from slo.controller.pins import LONGEST, frozen, pinned, thawed, unpinned
from slo.controller.state import Rules, Standing, State

NOW = 1_000_000.0
RULES = Rules(target=0.95, rungs=2)
HEALTHY = Standing(since=NOW - 500)
DEGRADED = Standing(
    state=State.DEGRADED, level=2, since=NOW - 50, relapses=1, share=0.05, until=NOW + 190
)
RECOVERING = Standing(
    state=State.RECOVERING, level=1, since=NOW - 90, share=0.22, step_since=NOW - 30
)


def test_a_pin_sends_every_conversation_to_its_level():
    standing = pinned(DEGRADED, 1, NOW + 600, NOW, "a test of the small model")

    assert standing == Standing(
        state=State.PINNED,
        level=1,
        since=NOW,
        reason="Pinned to rung 1: a test of the small model",
        relapses=1,
        share=0.0,
        until=NOW + 600,
        was=State.DEGRADED,
        was_level=2,
        was_share=0.05,
        was_until=NOW + 190,
    )
    assert {level_for(standing, draw, RULES) for draw in (0.0, 0.5, 0.99)} == {1}


def test_a_pin_is_to_a_level_and_above_the_highest_to_that():
    with pytest.raises(ValueError, match="no level -1"):
        pinned(HEALTHY, -1, NOW + 600, NOW, "")
    assert level_for(pinned(HEALTHY, 9, NOW + 600, NOW, ""), 0.5, RULES) == 2


@given(st.text())
def test_a_reason_can_stand_in_a_header_whatever_somebody_wrote(why):
    for reason in (pinned(HEALTHY, 1, NOW, NOW, why).reason, frozen(HEALTHY, NOW, why).reason):
        assert reason.isascii()
        assert reason.isprintable()
        assert len(reason) <= LONGEST + 20


def test_a_pin_or_freeze_without_a_reason_says_so_much():
    assert pinned(HEALTHY, 1, NOW, NOW, "").reason == "Pinned to rung 1."
    assert frozen(HEALTHY, NOW, " ").reason == "Frozen."


@pytest.mark.parametrize("standing", [HEALTHY, DEGRADED, RECOVERING])
@pytest.mark.parametrize("levels", [(0,), (2,), (1, 0), (2, 1)])
def test_what_is_released_is_where_it_was_before_the_pin(standing, levels):
    held = standing
    for level in levels:
        held = pinned(held, level, NOW + 600, NOW, "")

    after = unpinned(held, NOW + 9, RULES)

    for field in ("state", "level", "share", "until", "relapses"):
        assert getattr(after, field) == getattr(standing, field)
    assert (after.since, after.step_since) == (NOW + 9, NOW + 9)
    assert after.reason == f"The pin to rung {levels[-1]} has ended."
    assert (after.was, after.was_level, after.was_share, after.was_until) == (None, 0, 1.0, None)


def test_what_was_frozen_before_it_was_pinned_is_as_before_the_freeze():
    held = pinned(frozen(RECOVERING, NOW, ""), 2, NOW + 600, NOW, "")

    after = unpinned(held, NOW + 9, RULES)

    assert (after.state, after.level, after.share) == (State.RECOVERING, 1, 0.22)


@pytest.mark.parametrize(("rungs", "where"), [(1, (State.DEGRADED, 1)), (0, (State.HEALTHY, 0))])
def test_what_is_released_on_a_shorter_ladder_is_on_its_last_level(rungs, where):
    held = pinned(DEGRADED, 0, NOW + 600, NOW, "")

    after = unpinned(held, NOW + 9, Rules(target=0.95, rungs=rungs))

    assert (after.state, after.level) == where


def test_a_pin_that_an_older_version_stored_ends_healthy():
    old = Standing(state=State.PINNED, level=2, since=NOW, until=NOW + 9, was=State.DEGRADED)

    assert unpinned(old, NOW + 9, RULES).state is State.HEALTHY


@pytest.mark.parametrize("standing", [HEALTHY, DEGRADED, RECOVERING])
def test_what_freezes_keeps_its_level_and_share_and_is_itself_again_afterwards(standing):
    held = frozen(standing, NOW, "the store is lost")
    again = thawed(held, NOW + 60)

    assert (held.state, held.was, held.since) == (State.FROZEN, standing.state, NOW)
    assert (held.level, held.share, held.until) == (standing.level, standing.share, standing.until)
    assert held.reason == "Frozen: the store is lost"
    assert (again.state, again.was, again.since) == (standing.state, None, NOW + 60)
    assert (again.level, again.share, again.until) == (
        standing.level,
        standing.share,
        standing.until,
    )
    assert again.step_since == NOW + 60


def test_a_frozen_standing_of_which_nobody_knows_what_it_was_thaws_healthy():
    assert thawed(Standing(state=State.FROZEN, since=NOW), NOW).state is State.HEALTHY


def test_what_has_no_pin_or_is_not_frozen_stays_the_same():
    pin = pinned(HEALTHY, 1, NOW + 60, NOW, "")
    ice = frozen(HEALTHY, NOW, "")

    assert unpinned(DEGRADED, NOW, RULES) is DEGRADED
    assert thawed(DEGRADED, NOW) is DEGRADED
    assert frozen(pin, NOW, "the store is lost") is pin
    assert frozen(ice, NOW + 5, "the clock jumped") is ice
