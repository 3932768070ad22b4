import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.controller.canary_share import level_for
from slo.controller.pins import MAX_REASON_CHARS, apply_pin, freeze_state, remove_pin, thaw_state
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState

NOW = 1_000_000.0
RULES = ControllerRules(target=0.95, fallback_levels=2)
HEALTHY = ControllerSnapshot(since=NOW - 500)
DEGRADED = ControllerSnapshot(
    state=ControllerState.DEGRADED, level=2, since=NOW - 50, relapses=1, share=0.05, until=NOW + 190
)
RECOVERING = ControllerSnapshot(
    state=ControllerState.RECOVERING, level=1, since=NOW - 90, share=0.22, step_since=NOW - 30
)


def test_a_pin_sends_every_conversation_to_its_level():
    snapshot = apply_pin(DEGRADED, 1, NOW + 600, NOW, "a test of the small model")

    assert snapshot == ControllerSnapshot(
        state=ControllerState.PINNED,
        level=1,
        since=NOW,
        reason="Pinned to fallback level 1: a test of the small model",
        relapses=1,
        share=0.0,
        until=NOW + 600,
        previous_state=ControllerState.DEGRADED,
        previous_level=2,
        previous_share=0.05,
        previous_until=NOW + 190,
    )
    assert {level_for(snapshot, draw, RULES) for draw in (0.0, 0.5, 0.99)} == {1}


def test_a_pin_is_to_a_level_and_above_the_highest_to_that():
    with pytest.raises(ValueError, match="no level -1"):
        apply_pin(HEALTHY, -1, NOW + 600, NOW, "")
    assert level_for(apply_pin(HEALTHY, 9, NOW + 600, NOW, ""), 0.5, RULES) == 2


@given(st.text())
def test_reason_of_a_pin_can_stand_in_a_header_whatever_its_text(why):
    for reason in (
        apply_pin(HEALTHY, 1, NOW, NOW, why).reason,
        freeze_state(HEALTHY, NOW, why).reason,
    ):
        assert reason.isascii()
        assert reason.isprintable()
        assert len(reason) <= MAX_REASON_CHARS + 20


def test_a_pin_or_freeze_without_a_reason_says_so_much():
    assert apply_pin(HEALTHY, 1, NOW, NOW, "").reason == "Pinned to fallback level 1."
    assert freeze_state(HEALTHY, NOW, " ").reason == "Frozen."


@pytest.mark.parametrize("before", [HEALTHY, DEGRADED, RECOVERING])
@pytest.mark.parametrize("levels", [(0,), (2,), (1, 0), (2, 1)])
def test_a_released_objective_is_where_it_was_before_the_pin(before, levels):
    snapshot = before
    for level in levels:
        snapshot = apply_pin(snapshot, level, NOW + 600, NOW, "")

    after = remove_pin(snapshot, NOW + 9, RULES)

    for field in ("state", "level", "share", "until", "relapses"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.since, after.step_since) == (NOW + 9, NOW + 9)
    assert after.reason == f"The pin to fallback level {levels[-1]} has ended."
    assert (
        after.previous_state,
        after.previous_level,
        after.previous_share,
        after.previous_until,
    ) == (None, 0, 1.0, None)


def test_an_objective_frozen_before_its_pin_is_as_before_the_freeze():
    snapshot = apply_pin(freeze_state(RECOVERING, NOW, ""), 2, NOW + 600, NOW, "")

    after = remove_pin(snapshot, NOW + 9, RULES)

    assert (after.state, after.level, after.share) == (ControllerState.RECOVERING, 1, 0.22)


@pytest.mark.parametrize(
    ("levels", "where"), [(1, (ControllerState.DEGRADED, 1)), (0, (ControllerState.HEALTHY, 0))]
)
def test_a_pin_released_on_a_shorter_ladder_leaves_its_last_level(levels, where):
    snapshot = apply_pin(DEGRADED, 0, NOW + 600, NOW, "")

    after = remove_pin(snapshot, NOW + 9, ControllerRules(target=0.95, fallback_levels=levels))

    assert (after.state, after.level) == where


def test_a_pin_that_an_older_version_stored_ends_healthy():
    old = ControllerSnapshot(
        state=ControllerState.PINNED,
        level=2,
        since=NOW,
        until=NOW + 9,
        previous_state=ControllerState.DEGRADED,
    )

    assert remove_pin(old, NOW + 9, RULES).state is ControllerState.HEALTHY


@pytest.mark.parametrize("before", [HEALTHY, DEGRADED, RECOVERING])
def test_a_frozen_objective_keeps_its_level_and_share_and_resumes_afterwards(before):
    snapshot = freeze_state(before, NOW, "the store is lost")
    again = thaw_state(snapshot, NOW + 60)

    assert (snapshot.state, snapshot.previous_state, snapshot.since) == (
        ControllerState.FROZEN,
        before.state,
        NOW,
    )
    assert (snapshot.level, snapshot.share, snapshot.until) == (
        before.level,
        before.share,
        before.until,
    )
    assert snapshot.reason == "Frozen: the store is lost"
    assert (again.state, again.previous_state, again.since) == (before.state, None, NOW + 60)
    assert (again.level, again.share, again.until) == (
        before.level,
        before.share,
        before.until,
    )
    assert again.step_since == NOW + 60


def test_frozen_state_without_a_previous_state_thaws_healthy():
    assert (
        thaw_state(ControllerSnapshot(state=ControllerState.FROZEN, since=NOW), NOW).state
        is ControllerState.HEALTHY
    )


def test_an_objective_without_pin_or_freeze_stays_the_same():
    pin = apply_pin(HEALTHY, 1, NOW + 60, NOW, "")
    ice = freeze_state(HEALTHY, NOW, "")

    assert remove_pin(DEGRADED, NOW, RULES) is DEGRADED
    assert thaw_state(DEGRADED, NOW) is DEGRADED
    assert freeze_state(pin, NOW, "the store is lost") is pin
    assert freeze_state(ice, NOW + 5, "the clock jumped") is ice
