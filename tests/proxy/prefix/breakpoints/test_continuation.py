import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.continuation import (
    JUDGED_AFTER_S,
    MIN_AGES_S,
    MIN_RUN_CONVERSATIONS,
    ContinuationModel,
    Prior,
    SingleCallRun,
)

NOTHING = Prior(0.5, 2.0)
#: Seconds after which a first call is judged.
OVER = 1_800.0


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


def after(run: SingleCallRun, count: int, start: float = 0.0, gap: float = 100.0) -> float:
    """When the last of so many conversations of one call each is judged."""
    for at in range(count):
        run.record_first_call(start + at * gap)
    return start + (count - 1) * gap + OVER


def test_a_long_run_of_conversations_that_ended_at_once_is_believed_once_it_is_over():
    run = SingleCallRun()
    over = after(run, MIN_RUN_CONVERSATIONS)

    assert not run.is_certain(over - 1.0)
    assert run.is_certain(over)


def test_a_conversation_that_went_on_ends_the_run_and_the_next_has_to_be_twice_as_long():
    run = SingleCallRun()
    over = after(run, MIN_RUN_CONVERSATIONS)
    run.record_second_call(over, 30.0)

    assert not run.is_certain(over)
    assert not run.is_certain(after(run, 2 * MIN_RUN_CONVERSATIONS - 1, over))
    assert run.is_certain(after(run, 2 * MIN_RUN_CONVERSATIONS, over + 100_000.0))


def test_conversations_that_go_on_slowly_are_not_taken_for_lone_ones():
    run = SingleCallRun()
    for at in range(50):
        run.record_first_call(at * 10.0)
    for at in range(50):
        run.record_second_call(1_000.0 + at * 10.0, 1_000.0)

    assert not run.is_certain(10_000.0)


def test_what_is_remembered_is_bounded():
    run = SingleCallRun()
    for at in range(10_000):
        run.record_first_call(at * 0.01)

    assert len(run._young) == 64
