import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.tally import GoodBadCounts, Tally, slot_of

MAX_SLOTS_AHEAD = 6
SLOT_S = 10.0

NOW = 1_000_000.0
ADDED = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.floats(NOW, NOW + 500),
    )
)


def test_the_share_is_that_of_bad_calls_and_none_of_nothing():
    assert GoodBadCounts(3, 1).share == 0.25
    assert GoodBadCounts(3, 1).n == 4
    assert GoodBadCounts().share == 0.0


def test_counts_are_those_of_the_slot_that_is_now_and_of_those_before_it():
    tally = Tally()
    tally.add("a", 1, 0, NOW - 60)
    tally.add("a", 2, 0, NOW - 50)
    tally.add("a", 0, 4, NOW)
    tally.add("a", 0, 8, NOW + 9.9)
    tally.add("a", 16, 0, NOW + SLOT_S)

    assert tally.counts("a", NOW + 5, 60) == GoodBadCounts(2, 12)
    assert tally.counts("a", NOW + 5, 55) == GoodBadCounts(2, 12)
    assert tally.counts("a", NOW + 5, 10) == GoodBadCounts(0, 12)
    assert tally.counts("a", NOW + 5, 61) == GoodBadCounts(3, 12)
    assert tally.counts("b", NOW, 60) == GoodBadCounts()


def test_counts_back_are_those_of_one_slot_of_two_and_so_on():
    tally = Tally()
    tally.add("a", 1, 0, NOW - 30)
    tally.add("a", 2, 3, NOW - 10)

    one, two = GoodBadCounts(2, 3), GoodBadCounts(3, 3)
    assert tally.trailing_counts("a", NOW, 50) == (GoodBadCounts(), one, one, two, two)
    assert tally.trailing_counts("a", NOW + 10, 25) == (GoodBadCounts(), GoodBadCounts(), one)
    assert tally.trailing_counts("a", NOW + 99, 20) == (GoodBadCounts(), GoodBadCounts())
    assert tally.trailing_counts("b", NOW, 50) == ()


@given(ADDED, st.integers(1, 60))
def test_counts_back_are_the_counts_of_as_many_seconds(added, slots):
    tally = Tally()
    tally.add("a", 0, 0, NOW)
    for key, good, bad, time in added:
        tally.add(key, good, bad, time)

    trailing = tally.trailing_counts("a", NOW + 300, slots * SLOT_S)
    assert len(trailing) == slots
    assert all(
        counts == tally.counts("a", NOW + 300, number * SLOT_S)
        for number, counts in enumerate(trailing, 1)
    )


@given(ADDED, st.floats(0, 600), st.floats(1, 600))
def test_counts_are_the_sum_of_what_fell_into_their_slots(added, after, seconds):
    tally = Tally()
    for key, good, bad, time in sorted(added, key=lambda entry: entry[3]):
        tally.add(key, good, bad, time)

    last = slot_of(NOW + after)
    within = [
        (good, bad)
        for key, good, bad, time in added
        if key == "a" and last - slot_of(time) < -(-seconds // SLOT_S) and slot_of(time) <= last
    ]
    expected = GoodBadCounts(sum(good for good, _ in within), sum(bad for _, bad in within))
    assert tally.counts("a", NOW + after, seconds) == expected


@given(ADDED, ADDED)
def test_a_tally_that_merged_what_others_drained_counts_as_if_it_had_seen_it_all(ones, more):
    processes, whole, merged = (Tally(), Tally()), Tally(), Tally()
    for process, added in zip(processes, (ones, more), strict=True):
        for key, good, bad, time in added:
            process.add(key, good, bad, time)
            whole.add(key, good, bad, time)
        merged.merge(process.drain())

    for key in ("a", "b"):
        assert merged.counts(key, NOW + 500, 510) == whole.counts(key, NOW + 500, 510)


def test_increments_are_drained_once_and_merges_are_none():
    tally = Tally()
    tally.add("a", 1, 0, NOW)
    tally.add("a", 1, 2, NOW + 1)
    tally.merge({("b", slot_of(NOW)): (5, 5)})

    assert tally.drain() == {("a", slot_of(NOW)): (2, 2)}
    assert tally.drain() == {}
    assert tally.counts("b", NOW, 60) == GoodBadCounts(5, 5)


def test_the_key_that_was_longest_not_added_to_is_forgotten_for_another():
    tally = Tally(max_keys=2)
    for key in ("a", "b", "a", "c"):
        tally.add(key, 1, 0, NOW)

    assert len(tally) == 2
    assert [tally.counts(key, NOW, 60).n for key in "abc"] == [2, 0, 1]


def test_a_key_has_no_more_slots_than_are_kept():
    tally = Tally(retention_s=100)
    for number in range(1000):
        tally.add("a", 1, 0, NOW + number * SLOT_S)

    assert len(tally._rows["a"]) <= 11
    assert tally.counts("a", NOW + 999 * SLOT_S, 100) == GoodBadCounts(10, 0)


def test_a_key_that_is_merged_into_without_end_has_bounded_slots():
    tally = Tally(retention_s=100)
    for number in range(1000):
        tally.merge({("a", slot_of(NOW) + number): (1, 0)})

    assert len(tally._rows["a"]) <= 2 * 10 + MAX_SLOTS_AHEAD
    assert tally.counts("a", NOW + 999 * SLOT_S, 100) == GoodBadCounts(10, 0)


def test_increments_that_are_never_drained_are_bounded():
    tally = Tally(max_keys=2)
    for number in range(10):
        tally.add("a", 1, 0, NOW + number * SLOT_S)

    assert sorted(slot for _, slot in tally.drain()) == [slot_of(NOW) + n for n in range(6, 10)]


def test_increments_older_than_the_kept_span_are_forgotten():
    tally = Tally(retention_s=100)
    tally.add("a", 1, 0, NOW)
    tally.add("b", 1, 0, NOW + 50)

    tally.forget(NOW + 90)
    assert len(tally) == 2
    tally.forget(NOW + 100)
    assert len(tally) == 1
    assert list(tally._fresh) == [("b", slot_of(NOW + 50))]
    tally.forget(NOW + 1000)
    assert len(tally) == 0
    assert tally.drain() == {}


@pytest.mark.parametrize("leap", [30.0, 60.0, 70.0, 86_400.0])
def test_after_a_clock_went_back_it_counts_what_is_added_and_drops_what_lies_ahead(leap):
    tally = Tally(retention_s=100)
    tally.add("a", 100, 0, NOW)

    for number in range(20):
        tally.add("a", 0, 1, NOW - leap + number)
    assert tally.counts("a", NOW - leap + 19, 20) == GoodBadCounts(0, 20)

    tally = Tally(retention_s=100)
    tally.add("a", 100, 0, NOW)
    tally.forget(NOW - leap)
    assert len(tally) == (leap <= 60.0)


def test_ten_minutes_of_10000_keys_are_counted_by_default():
    tally = Tally()
    for second in range(0, 1_300, 10):
        tally.add("a", 1, 0, NOW + second)

    assert len(tally._rows["a"]) == 60
    assert tally._most == 10_000
