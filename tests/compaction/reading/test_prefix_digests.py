from hashlib import blake2b

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.prefix_digests import DIGEST_BYTES, message_digest, prefix_digests

DIGESTS = st.lists(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES), max_size=8)


@given(st.binary(max_size=6_000), st.binary(max_size=6_000))
def test_two_messages_share_a_digest_only_if_they_are_equal(one, other):
    assert (message_digest(one) == message_digest(other)) == (one == other)


def test_long_and_short_messages_have_digests_of_one_size():
    assert {len(message_digest(b"x" * size)) for size in (0, 1, 4_095, 4_096, 100_000)} == {
        DIGEST_BYTES
    }


@given(DIGESTS, DIGESTS, st.binary(max_size=4))
def test_a_longer_conversation_keeps_the_hashes_of_its_prefix(before, after, root):
    assert prefix_digests([*before, *after], root)[: len(before)] == prefix_digests(before, root)


@given(DIGESTS, DIGESTS, st.binary(max_size=4))
def test_the_last_hash_tells_what_came_before(one, other, root):
    chains = (
        prefix_digests([*one, b"0" * DIGEST_BYTES], root),
        prefix_digests([*other, b"0" * DIGEST_BYTES], root),
    )

    assert (chains[0][-1] == chains[1][-1]) == (one == other)


def test_prefix_digests_differ_by_their_root():
    assert prefix_digests([b"0" * DIGEST_BYTES], b"tools") != prefix_digests(
        [b"0" * DIGEST_BYTES], b""
    )
    assert prefix_digests([], b"tools") == ()


def test_a_digest_has_16_bytes_of_blake2b_and_from_4096_bytes_on_of_blake3():
    short, long = b"x" * 4_095, b"x" * 4_096

    assert message_digest(short) == blake2b(short, digest_size=16).digest()
    assert message_digest(long) == blake3(long).digest(16)
