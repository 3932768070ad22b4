"""Names of notes."""

from hypothesis import given
from hypothesis import strategies as st

from compaction.notes.keys import named


def test_the_same_part_has_the_same_name():
    assert named(b"a", b"b", scope=b"t", model="m") == named(b"a", b"b", scope=b"t", model="m")
    assert len(named(b"a", b"b")) == 32


@given(st.binary(max_size=3), st.binary(max_size=3), st.binary(max_size=3), st.text(max_size=3))
def test_whatever_differs_gives_another_name(before, here, scope, model):
    name = named(before, here, scope=scope, model=model)

    assert name != named(before + b"1", here, scope=scope, model=model)
    assert name != named(before, here + b"1", scope=scope, model=model)
    assert name != named(before, here, scope=scope + b"1", model=model)
    assert name != named(before, here, scope=scope, model=model + "1")
    assert name != named(before, here + b"1", scope=scope[1:], model=model) or scope == scope[1:]
