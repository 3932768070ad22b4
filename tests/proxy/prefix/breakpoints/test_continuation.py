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


def model_of_events(times: int, every: float, gap: float) -> ContinuationModel:
    """So many events at equal distances, each followed after the gap."""
    hazard = ContinuationModel()
    for at in range(times):
        hazard.record_event(at * every)
        hazard.record_continuation(at * every + gap, gap)
    return hazard


def test_continuation_share_before_any_event_is_the_prior():
    assert ContinuationModel().share(Prior(0.3)) == pytest.approx(0.3)


def test_events_of_just_now_do_not_lower_the_continuation_share():
    hazard = ContinuationModel()
    for _ in range(1_000):
        hazard.record_event(10.0)

    assert hazard.share(NOTHING) == 0.5


def test_events_not_followed_for_two_minutes_lower_the_continuation_share():
    hazard = ContinuationModel()
    for _ in range(10):
        hazard.record_event(10.0)
    hazard.record_event(10.0 + 2 * JUDGED_AFTER_S)

    assert hazard.share(NOTHING) < 0.1


def test_followed_events_raise_the_continuation_share_at_once():
    assert model_of_events(50, every=10.0, gap=5.0).share(NOTHING) > 0.95


def test_a_late_follower_corrects_the_continuation_share():
    assert model_of_events(50, every=1_000.0, gap=500.0).share(NOTHING) > 0.95


def test_continuation_share_forgets_an_old_habit():
    hazard = model_of_events(500, every=10.0, gap=5.0)
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
def test_continuation_share_stays_between_zero_and_one_for_any_events(told):
    hazard = ContinuationModel()
    for now, gap in told:
        if gap is None:
            hazard.record_event(now)
        else:
            hazard.record_continuation(now, gap)

    assert 0.0 <= hazard.share(NOTHING) <= 1.0


def test_young_events_count_by_the_share_of_followers_that_came_by_their_age():
    hazard = ContinuationModel()
    for _ in range(10):
        hazard.record_event(0.0)
    hazard.record_continuation(60.0, 60.0)
    soon = [min(1.0, age / 30) for age in MIN_AGES_S]

    assert hazard.share(NOTHING) > 2 * hazard.share(NOTHING, soon)


def after(run: SingleCallRun, count: int, start: float = 0.0, gap: float = 100.0) -> float:
    """Return when the last of so many conversations of one call each is judged."""
    for at in range(count):
        run.record_first_call(start + at * gap)
    return start + (count - 1) * gap + OVER


def test_single_call_conversations_are_certain_after_a_long_run_that_is_over():
    run = SingleCallRun()
    over = after(run, MIN_RUN_CONVERSATIONS)

    assert not run.is_certain(over - 1.0)
    assert run.is_certain(over)


def test_a_second_call_ends_the_single_call_run_and_doubles_the_next_one():
    run = SingleCallRun()
    over = after(run, MIN_RUN_CONVERSATIONS)
    run.record_second_call(over, 30.0)

    assert not run.is_certain(over)
    assert not run.is_certain(after(run, 2 * MIN_RUN_CONVERSATIONS - 1, over))
    assert run.is_certain(after(run, 2 * MIN_RUN_CONVERSATIONS, over + 100_000.0))


def test_slow_conversations_are_not_taken_for_single_call_ones():
    run = SingleCallRun()
    for at in range(50):
        run.record_first_call(at * 10.0)
    for at in range(50):
        run.record_second_call(1_000.0 + at * 10.0, 1_000.0)

    assert not run.is_certain(10_000.0)


def test_pending_first_calls_of_a_single_call_run_are_bounded():
    run = SingleCallRun()
    for at in range(10_000):
        run.record_first_call(at * 0.01)

    assert len(run._young) == 64
