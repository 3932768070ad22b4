"""The most used system prompts are known, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.warming.prefix_usage import MAX_BYTES, MAX_PROMPTS, PrefixUsage


def usage_of(*keys: bytes, size: int = 10) -> PrefixUsage[str]:
    result: PrefixUsage[str] = PrefixUsage()
    for second, key in enumerate(keys):
        result.note(key, key.decode(), size, float(second))
    return result


def names(usage: PrefixUsage[str], count: int = 9, now: float = 10.0) -> list[str]:
    return [prompt for _, prompt in usage.most_used(count, now)]


def test_the_most_used_prompt_comes_first_and_those_used_once_never():
    usage = usage_of(b"a", b"b", b"b", b"c", b"c", b"c")

    assert names(usage) == ["c", "b"]
    assert names(usage, count=1) == ["c"]
    assert names(usage, count=0) == []


def test_uses_of_a_prompt_of_long_ago_count_less():
    usage = usage_of(*[b"old"] * 20)
    for second in (36_000.0, 36_001.0):
        usage.note(b"new", "new", 10, second)

    assert names(usage, now=36_002.0) == ["new", "old"]


def test_the_newest_form_of_a_prompt_is_kept():
    usage = usage_of(b"a")
    usage.note(b"a", "again", 10, 1.0)

    assert names(usage) == ["again"]


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, MAX_BYTES)), max_size=700))
def test_the_usage_of_prompts_stays_within_its_bounds(uses: list[tuple[int, int]]):
    usage: PrefixUsage[int] = PrefixUsage()
    sizes: dict[bytes, int] = {}
    for second, (number, size) in enumerate(uses):
        key = str(number).encode()
        usage.note(key, number, size, float(second))
        sizes[key] = size

    assert len(usage) <= MAX_PROMPTS
    prompts = usage.most_used(MAX_PROMPTS, 1e3)
    assert sum(sizes[key] for key, _ in prompts) <= MAX_BYTES


def test_least_used_prompt_goes_where_there_is_no_room():
    usage: PrefixUsage[str] = PrefixUsage()
    for second in range(3):
        usage.note(b"much", "much", MAX_BYTES // 2, float(second))
    for second in range(2):
        usage.note(b"little", "little", MAX_BYTES // 2, 3.0 + second)
    for second in range(2):
        usage.note(b"more", "more", MAX_BYTES // 2, 5.0 + second)

    assert "much" in names(usage)
    assert len(usage) == 2
