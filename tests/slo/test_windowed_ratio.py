from hypothesis import given
from hypothesis import strategies as st

from slo.windowed_ratio import SLOTS, WindowedRatio

STEPS = st.lists(st.tuples(st.floats(min_value=0, max_value=40), st.integers(0, 9)), max_size=60)


def test_old_counts_are_forgotten_a_tenth_of_the_span_at_a_time():
    share = WindowedRatio(10.0)
    share.add(10, 1, 100.0)
    share.add(20, 2, 101.0)

    share.expire(109.9)
    assert (share.whole, share.part) == (30, 3)
    share.expire(110.0)
    assert (share.whole, share.part) == (20, 2)
    share.expire(111.0)
    assert (share.whole, share.part) == (0, 0)


def test_after_a_long_pause_nothing_is_left():
    share = WindowedRatio(10.0)
    share.add(10, 1, 100.0)

    share.add(1, 1, 100_000.0)

    assert (share.whole, share.part) == (1, 1)


def test_forgotten_counts_are_gone():
    share = WindowedRatio(10.0)
    share.add(10, 1, 100.0)

    share.reset()

    assert (share.whole, share.part) == (0, 0)


def test_where_the_clock_goes_back_a_little_nothing_is_lost_and_it_catches_up():
    share = WindowedRatio(10.0)
    share.add(10, 1, 100.0)
    share.add(10, 1, 95.0)

    assert (share.whole, share.part) == (20, 2)
    share.expire(109.0)
    assert share.whole == 20
    share.expire(110.0)
    assert share.whole == 0


def test_where_the_clock_goes_back_by_more_than_the_span_counting_begins_anew():
    share = WindowedRatio(10.0)
    share.add(10, 1, 100.0)

    share.add(1, 0, 10.0)

    assert (share.whole, share.part) == (1, 0)
    share.expire(20.0)
    assert share.whole == 0


@given(STEPS)
def test_a_windowed_ratio_equals_a_list_less_up_to_a_tenth_of_its_span(steps):
    share, history, now = WindowedRatio(float(SLOTS)), [], 0.0
    for passed, whole in steps:
        now += passed
        share.add(whole, 1, now)
        history.append((now, whole))

        recent = [amount for time, amount in history if time >= int(now) - SLOTS + 1]
        assert share.whole == sum(recent)
        assert share.part == len(recent)


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=1e6), st.integers(0, 9)), max_size=60))
def test_a_windowed_ratio_stays_within_what_was_added_whatever_the_clock_does(steps):
    share = WindowedRatio(10.0)
    for count, (now, whole) in enumerate(steps, 1):
        share.add(whole, 1, now)

        assert whole <= share.whole <= 9 * count
        assert 1 <= share.part <= count
