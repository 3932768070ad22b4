import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    is_exact,
    members,
    write_list,
    write_object,
)

VALUES = st.none() | st.integers() | st.text() | st.lists(st.integers(), max_size=3)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)
NOT_JSON = [b"", b"{", b"1", b'"a"', b"\xff", b"[" * 100_000, b'{"\xff":1}']


@given(OBJECTS)
def test_an_object_is_its_members_written_again(value):
    raw = msgspec.json.encode(value)

    assert write_object(members(raw)) == raw
    assert list(members(raw)) == list(value)


@given(st.lists(VALUES))
def test_a_list_is_its_elements_written_again(value):
    raw = msgspec.json.encode(value)

    assert write_list(elements(raw)) == raw


@pytest.mark.parametrize("raw", [*NOT_JSON, b"[]"])
def test_what_is_no_object_has_no_members(raw):
    with pytest.raises(Unplannable, match="not an object"):
        members(raw)


@pytest.mark.parametrize("raw", [*NOT_JSON, b"{}"])
def test_what_is_no_list_has_no_elements(raw):
    with pytest.raises(Unplannable, match="not a list"):
        elements(raw)


@given(OBJECTS, st.sampled_from([None, 1]))
def test_white_space_is_no_difference(value, indent):
    raw = json.dumps(value, ensure_ascii=False, indent=indent).encode(errors="replace")
    names = [msgspec.json.encode(name).decode() for name in value]
    spelled_alike = all(json.dumps(name, ensure_ascii=False) in names for name in value)

    assert is_exact(raw, members(raw)) == spelled_alike


@pytest.mark.parametrize(
    ("raw", "exact"),
    [
        (b"{}", True),
        (b" { } ", True),
        (b'{ "a" : 1 }', True),
        (b'{"a":1,"a":1}', False),
        (b'{"a":1, "a":2}', False),
        (b'{"\\u0061":1}', False),
        (b'{ "a":1, "b":2, "a":1 }', False),
    ],
)
def test_a_key_that_stands_twice_or_is_escaped_is_told(raw, exact):
    assert is_exact(raw, members(raw)) is exact
