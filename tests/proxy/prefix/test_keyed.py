import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.keyed import keyed_hash

SECRET = b"s" * 32


@given(st.binary(max_size=9_000), st.binary(max_size=9_000))
def test_equal_texts_are_seen_to_be_equal_and_nothing_else_is(one, other):
    digest = keyed_hash(SECRET, "team")

    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 16


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 100_000])
def test_another_team_or_installation_has_others(length):
    text = b"x" * length
    found = {
        keyed_hash(SECRET, "team")(text),
        keyed_hash(SECRET, "other")(text),
        keyed_hash(b"t" * 32, "team")(text),
    }

    assert len(found) == 3


def test_a_hash_is_the_same_in_every_process():
    digest = keyed_hash(SECRET, "team")

    assert digest(b"Hello").hex() == "4fd4f2dad2d328a4a821cd22a02de540"
    assert digest(b"Hello" * 1000).hex() == "b1a963553e542715d39eaac60aa90dc9"
