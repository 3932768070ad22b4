"""The bounds of what replicas share. That both kinds keep them is tested with the port."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.redis.objective_state import (
    MAX_CELLS,
    MAX_CLOCK_SKEW_S,
    MAX_KEYS,
    RETENTION_S,
    accepts_slot,
    check_name,
    nonzero_increments,
    retains_slot,
    slot,
    slots_to_read,
)
from slo.budgets.tally import SLOT_S

TIMES = st.floats(0, 1e10)


@pytest.mark.parametrize(
    ("now", "number"), [(0.0, 0), (9.999, 0), (10.0, 1), (1_790_000_009.5, 179_000_000)]
)
def test_a_slot_has_its_beginning_and_not_its_end(now, number):
    assert slot(now) == number


@given(TIMES)
def test_the_slot_of_now_is_counted_in_and_told(now):
    assert accepts_slot(slot(now), now)
    assert retains_slot(slot(now), now)


@given(TIMES, st.integers(0, 10**9))
def test_counts_are_read_back_by_objective(now, number):
    assert retains_slot(number, now) or not accepts_slot(number, now)


@pytest.mark.parametrize(
    ("ago", "taken", "kept"),
    [
        (-MAX_CLOCK_SKEW_S - SLOT_S, False, False),
        (-MAX_CLOCK_SKEW_S, True, True),
        (MAX_CLOCK_SKEW_S, True, True),
        (MAX_CLOCK_SKEW_S + SLOT_S, False, True),
        (RETENTION_S, False, True),
        (RETENTION_S + SLOT_S, False, False),
    ],
)
def test_a_slot_is_reported_for_longer_than_it_is_counted_in(ago, taken, kept):
    now = 1_790_000_000.0
    number = slot(now - ago)

    assert accepts_slot(number, now) is taken
    assert retains_slot(number, now) is kept


def test_at_most_so_many_slots_are_ever_kept():
    now = 1_790_000_000.0
    retained = [
        number for number in range(slot(now) - 2000, slot(now) + 2000) if retains_slot(number, now)
    ]

    assert len(retained) == (RETENTION_S + MAX_CLOCK_SKEW_S) / SLOT_S + 1


def test_increments_of_nothing_are_left_out():
    assert nonzero_increments({("a", 1): (0, 0), ("b", 1): (0, 1)}) == {("b", 1): (0, 1)}


def test_the_most_that_is_read_at_once_is_a_number_of_counts_whatever_their_shape():
    keys = [f"{number}" for number in range(MAX_KEYS)]

    assert slots_to_read(keys, 1, MAX_CELLS // MAX_KEYS) == range(1, MAX_CELLS // MAX_KEYS + 1)
    assert len(slots_to_read(["a"], 1, MAX_CELLS)) == MAX_CELLS
    with pytest.raises(ValueError, match="20001 counts are more than 20000"):
        slots_to_read(["a"], 0, MAX_CELLS)
    with pytest.raises(ValueError, match="1001 keys are more than 1000"):
        slots_to_read([*keys, "one more"], 1, 1)


@given(st.text(max_size=300))
def test_a_name_has_some_bytes_and_not_many(name):
    long = len(name.encode()) > 256
    if name and not long:
        check_name(name)
    else:
        with pytest.raises(ValueError, match="a name has 1 to 256 bytes"):
            check_name(name)
