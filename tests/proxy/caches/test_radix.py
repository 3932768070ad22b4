import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.prefixes import token_bytes
from proxy.caches.radix import Radix, common_length

sequences = st.lists(st.integers(0, 2), max_size=12).map(tuple)


def common_pages(one: tuple[int, ...], other: tuple[int, ...], page: int) -> int:
    """Whole pages in common, counted the plain way."""
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same // page * page


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 10))
def test_common_counts_the_bytes_that_agree(one: bytes, other: bytes, start: int) -> None:
    start = min(start, len(other))

    assert common_length(one, other, start) == common_pages(tuple(one), tuple(other[start:]), 1)
    assert common_length(one, one + other) == len(one)


@pytest.mark.slow
@given(st.lists(sequences, max_size=20), sequences, st.integers(1, 3))
def test_a_match_is_the_longest_prefix_of_whole_pages_of_all_that_was_stored(
    stored: list[tuple[int, ...]], sought: tuple[int, ...], page: int
) -> None:
    tree = Radix(page, 10_000)
    for one in stored:
        tree.insert(b"", token_bytes(one), 0)
    best = max(
        (common_pages(one[: len(one) // page * page], sought, page) for one in stored), default=0
    )

    assert tree.match(b"", token_bytes(sought), 0) == best


@given(st.lists(sequences, max_size=20), st.integers(1, 3))
def test_shared_stretches_are_kept_once(stored: list[tuple[int, ...]], page: int) -> None:
    tree = Radix(page, 10_000)
    for one in stored:
        tree.insert(b"", token_bytes(one), 0)
    heads = {one[:end] for one in stored for end in range(page, len(one) + 1, page)}

    assert len(tree) == len(heads) * page


@given(st.lists(sequences, max_size=30), st.integers(0, 20))
def test_the_tokens_kept_never_exceed_the_room(stored: list[tuple[int, ...]], room: int) -> None:
    tree = Radix(1, room)
    for now, one in enumerate(stored):
        tree.insert(b"", token_bytes(one), now)

        assert len(tree) <= room


def test_the_least_recently_used_leaf_goes_first_and_its_stem_only_after_its_siblings() -> None:
    tree = Radix(1, 9)
    tree.insert(b"", token_bytes((1, 2, 3, 4)), 0)
    tree.insert(b"", token_bytes((1, 2, 5, 6)), 1)
    tree.insert(b"", token_bytes((7, 7, 7)), 2)
    tree.insert(b"", token_bytes((8,)), 3)

    assert tree.match(b"", token_bytes((1, 2, 3, 4)), 3) == 2
    assert tree.match(b"", token_bytes((1, 2, 5, 6)), 3) == 4
    tree.insert(b"", token_bytes((9, 9, 9, 9)), 4)
    assert tree.match(b"", token_bytes((1, 2, 5, 6)), 4) == 0
    assert tree.match(b"", token_bytes((7, 7, 7)), 4) == 3


def test_a_stretch_dies_unused_and_lives_on_when_used_again() -> None:
    tree = Radix(1, 100, lifetime=10)
    tree.insert(b"", token_bytes((1, 2, 3)), 0)
    tree.insert(b"", token_bytes((1, 2)), 8)

    assert tree.match(b"", token_bytes((1, 2, 3)), 10) == 3
    assert tree.match(b"", token_bytes((1, 2, 3)), 11) == 2
    assert tree.match(b"", token_bytes((1, 2, 3)), 19) == 0


def test_owners_do_not_share() -> None:
    tree = Radix(2, 100)
    tree.insert(b"one", token_bytes((1, 2, 3, 4)), 0)

    assert tree.match(b"two", token_bytes((1, 2, 3, 4)), 0) == 0
    assert tree.match(b"one", token_bytes((1, 2, 3, 4)), 0) == 4
