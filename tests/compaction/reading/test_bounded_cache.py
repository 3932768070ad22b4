from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.bounded_cache import BoundedCache


def test_a_cached_value_is_found_and_nothing_else():
    memory: BoundedCache[str, int] = BoundedCache(10, 1_000)
    memory.store("a", 1, 10)

    assert (memory.get("a"), memory.get("b"), len(memory)) == (1, None, 1)


def test_unused_values_are_evicted_before_used_ones():
    memory: BoundedCache[str, int] = BoundedCache(4, 1_000)
    for key in "abcd":
        memory.store(key, 1, 1)
        memory.get("a")
    memory.store("e", 1, 1)

    assert [key for key in "abcde" if memory.get(key)] == ["a", "d", "e"]


def test_a_value_larger_than_the_cache_is_not_kept():
    memory: BoundedCache[str, int] = BoundedCache(10, 100)
    memory.store("a", 1, 1)
    memory.store("b", 1, 51)

    assert (memory.get("a"), memory.get("b")) == (1, None)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 60)), max_size=60))
def test_a_bounded_cache_holds_no_more_than_it_may(puts):
    memory: BoundedCache[str, int] = BoundedCache(6, 100)
    weights = {}
    for key, weight in puts:
        memory.store(key, weight, weight)
        weights[key] = weight

        assert len(memory) <= 6
        assert sum(size for size, _ in {**memory._older, **memory._newer}.values()) <= 100
