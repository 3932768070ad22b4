from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.prefix_digests import SIZE, chain, digest

DIGESTS = st.lists(st.binary(min_size=SIZE, max_size=SIZE), max_size=8)


@given(st.binary(max_size=6_000), st.binary(max_size=6_000))
def test_two_messages_share_a_digest_only_if_they_are_equal(one, other):
    assert (digest(one) == digest(other)) == (one == other)


def test_long_and_short_messages_have_digests_of_one_size():
    assert {len(digest(b"x" * size)) for size in (0, 1, 4_095, 4_096, 100_000)} == {SIZE}


@given(DIGESTS, DIGESTS, st.binary(max_size=4))
def test_a_longer_conversation_keeps_the_hashes_of_its_prefix(before, after, root):
    assert chain([*before, *after], root)[: len(before)] == chain(before, root)


@given(DIGESTS, DIGESTS, st.binary(max_size=4))
def test_the_last_hash_tells_what_came_before(one, other, root):
    chains = chain([*one, b"0" * SIZE], root), chain([*other, b"0" * SIZE], root)

    assert (chains[0][-1] == chains[1][-1]) == (one == other)


def test_another_root_is_another_conversation():
    assert chain([b"0" * SIZE], b"tools") != chain([b"0" * SIZE], b"")
    assert chain([], b"tools") == ()
