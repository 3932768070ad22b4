from hypothesis import given
from hypothesis import strategies as st

from proxy.records.lru_cache import LruCache


def keys_in(memory: LruCache[str, int], keys: str) -> str:
    return "".join(key for key in keys if key in memory)


def test_the_lru_cache_returns_stored_values_only():
    memory: LruCache[str, int] = LruCache(3)
    memory.put("a", 1)

    assert (memory.get("a"), memory.peek("a")) == (1, 1)
    assert (memory.get("b"), memory.peek("b")) == (None, None)
    assert len(memory) == 1


def test_the_lru_cache_drops_the_least_recently_used_first():
    memory: LruCache[str, int] = LruCache(2)
    memory.put_all("ab", 0)
    memory.get("a")
    memory.put("c", 0)

    assert keys_in(memory, "abc") == "ac"


def test_values_that_are_put_again_together_are_used_in_their_order():
    memory: LruCache[str, int] = LruCache(3)
    memory.put_all("abc", 0)
    memory.put_all("ba", 1)
    memory.put_all("d", 2)

    assert list(memory.items()) == [("b", 1), ("a", 1), ("d", 2)]


def test_values_that_are_put_together_replace_those_returned():
    memory: LruCache[str, int] = LruCache(weigh=abs)
    memory.put("a", 1)

    assert memory.put_all("ab", 2) == [1, None]
    assert memory.size_bytes == 4


def test_a_dropped_value_is_gone_and_weighs_nothing():
    memory: LruCache[str, int] = LruCache(weigh=abs)
    memory.put_all("ab", 4)
    memory.drop("a")
    memory.drop("a")

    assert (keys_in(memory, "ab"), memory.size_bytes) == ("b", 4)


def test_peek_does_not_count_as_use():
    memory: LruCache[str, int] = LruCache(2)
    memory.put_all("ab", 0)
    memory.peek("a")
    memory.put("c", 0)

    assert keys_in(memory, "abc") == "bc"


def test_get_or_make_makes_a_missing_value_once():
    memory: LruCache[str, int] = LruCache(2)

    assert (memory.get_or_make("a", lambda: 1), memory.get_or_make("a", lambda: 2)) == (1, 1)


def test_heavy_values_leave_room_for_fewer_and_one_too_heavy_is_dropped():
    memory: LruCache[str, int] = LruCache(10, weigh=abs)
    memory.put_all("abc", 4)
    memory.put("b", 7)
    after = keys_in(memory, "abc")
    memory.put("d", 11)

    assert after == "b"
    assert len(memory) == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9)), max_size=40))
def test_the_lru_cache_never_exceeds_its_limit(puts):
    memory: LruCache[str, int] = LruCache(20, weigh=abs)
    for key, weight in puts:
        memory.put(key, weight)

        assert sum(memory.peek(letter) or 0 for letter in "abcdef") <= 20
        assert key in memory


def test_the_lru_cache_counts_the_bytes_of_its_entries_and_of_their_values():
    memory: LruCache[str, int] = LruCache(weigh=abs, entry_bytes=100)
    memory.put_all("ab", 7)
    memory.put("a", 5)
    memory.reweigh(3)
    before = memory.size_bytes
    memory.drop_oldest()

    assert before == 100 + 100 + 5 + 7 + 3
    assert keys_in(memory, "ab") == "a"
    assert memory.size_bytes == 100 + 5 + 3


def test_dropping_spares_what_was_used_last_and_so_many_values():
    memory: LruCache[int, int] = LruCache()
    memory.put_all(range(1_000), 0)
    memory.use_all([3, 1, 1])
    for _ in range(5_000):
        memory.drop_oldest(kept=10)

    assert [key for key, _ in memory.items()] == [*range(992, 1_000), 3, 1]


def test_many_values_are_dropped_in_the_order_of_their_use():
    memory: LruCache[int, int] = LruCache(1_000)
    for number in range(5_000):
        memory.put(number, 0)

    keys = [key for key, _ in memory.items()]
    assert keys == list(range(5_000 - len(keys), 5_000))
    assert 990 <= len(keys) <= 1_000


def test_several_caches_together_take_the_bytes_of_each():
    weighed: LruCache[str, int] = LruCache(weigh=abs)
    counted: LruCache[str, int] = LruCache(entry_bytes=10)
    weighed.put_all("ab", 4)
    counted.put_all("abc", 1)

    assert LruCache.total_bytes([weighed, counted]) == weighed.size_bytes + counted.size_bytes == 38
