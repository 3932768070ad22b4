import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.continuation import (
    JUDGED_AFTER_S,
    MIN_AGES_S,
    ContinuationModel,
    Prior,
)

NOTHING = Prior(0.5, 2.0)


def followed(times: int, every: float, gap: float) -> ContinuationModel:
    """So many events at equal distances, each followed after the gap."""
    hazard = ContinuationModel()
    for at in range(times):
        hazard.record_event(at * every)
        hazard.record_continuation(at * every + gap, gap)
    return hazard


def test_before_anything_was_seen_the_prior_holds():
    assert ContinuationModel().share(Prior(0.3)) == pytest.approx(0.3)


def test_what_began_just_now_is_not_judged():
    hazard = ContinuationModel()
    for _ in range(1_000):
        hazard.record_event(10.0)

    assert hazard.share(NOTHING) == 0.5


def test_what_was_not_followed_for_two_minutes_counts_against():
    hazard = ContinuationModel()
    for _ in range(10):
        hazard.record_event(10.0)
    hazard.record_event(10.0 + 2 * JUDGED_AFTER_S)

    assert hazard.share(NOTHING) < 0.1


def test_what_is_followed_counts_for_at_once():
    assert followed(50, every=10.0, gap=5.0).share(NOTHING) > 0.95


def test_a_late_follower_puts_the_early_judgement_right():
    assert followed(50, every=1_000.0, gap=500.0).share(NOTHING) > 0.95


def test_a_habit_that_changed_is_forgotten():
    hazard = followed(500, every=10.0, gap=5.0)
    for at in range(1_000):
        hazard.record_event(10_000.0 + at * 10.0)

    assert hazard.share(NOTHING) < 0.05


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, min_value=-1e9, max_value=1e12),
            st.none() | st.floats(allow_nan=False),
        ),
        max_size=50,
    )
)
def test_whatever_it_is_told_it_answers_a_share(told):
    hazard = ContinuationModel()
    for now, gap in told:
        if gap is None:
            hazard.record_event(now)
        else:
            hazard.record_continuation(now, gap)

    assert 0.0 <= hazard.share(NOTHING) <= 1.0


def test_young_events_count_as_far_as_their_followers_would_have_come():
    hazard = ContinuationModel()
    for _ in range(10):
        hazard.record_event(0.0)
    hazard.record_continuation(60.0, 60.0)
    soon = [min(1.0, age / 30) for age in MIN_AGES_S]

    assert hazard.share(NOTHING) > 2 * hazard.share(NOTHING, soon)
