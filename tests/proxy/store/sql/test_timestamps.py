from hypothesis import given
from hypothesis import strategies as st

from proxy.store.sql.timestamps import micros, seconds


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_moment_comes_back_to_the_microsecond(moment: int) -> None:
    assert micros(seconds(moment)) == moment


def test_timestamps_finer_than_a_microsecond_are_rounded() -> None:
    assert micros(1.000_000_6) == 1_000_001
