from hypothesis import given
from hypothesis import strategies as st

from proxy.store.sql.ids import call_ids, id_floor, id_time

call_id = call_ids()

TIMES = st.floats(min_value=0, max_value=2**37)


@given(earlier=TIMES, later=TIMES)
def test_ids_sort_as_the_milliseconds_they_were_made_in(earlier: float, later: float) -> None:
    if int(earlier * 1000) < int(later * 1000):
        assert call_id(earlier) < call_id(later)


@given(TIMES)
def test_the_floor_of_a_time_lies_below_its_ids_and_above_all_earlier_ones(at: float) -> None:
    assert id_floor(at) < call_id(at)
    if at >= 0.001:
        assert call_id(at - 0.001) < id_floor(at) or int((at - 0.001) * 1000) == int(at * 1000)


def test_an_id_is_a_uuid_of_version_7_behind_a_word() -> None:
    word, _, digits = call_id(1_790_000_000.0).partition("_")

    assert word == "call"
    assert len(digits) == 32
    assert digits[12] == "7"
    assert digits[16] in "89ab"
    assert int(digits[:12], 16) == 1_790_000_000_000


def test_an_id_tells_when_its_call_arrived() -> None:
    assert id_time(call_id(1_790_000_000.25)) == 1_790_000_000.25
    assert id_time(id_floor(5.0)) == 5.0


def test_ids_of_one_moment_differ() -> None:
    assert len({call_id(5.0) for _ in range(1000)}) == 1000
