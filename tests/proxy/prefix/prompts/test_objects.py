"""JSON of prompts, split and written again."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    is_exact,
    is_plain_text,
    known_elements,
    may_hold_tags,
    members,
    replace_parts,
    replace_text,
    text_message,
    text_part,
    write_list,
    write_object,
)
from tests.cache_bounds import remembers_latest

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
def test_json_that_is_no_object_has_no_members(raw):
    with pytest.raises(Unplannable, match="not an object"):
        members(raw)


@pytest.mark.parametrize("raw", [*NOT_JSON, b"{}"])
def test_json_that_is_no_list_has_no_elements(raw):
    with pytest.raises(Unplannable, match="not a list"):
        elements(raw)


@given(OBJECTS, st.sampled_from([None, 1]))
def test_an_object_with_white_space_is_exact(value, indent):
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
def test_an_object_with_a_double_or_escaped_key_is_not_exact(raw, exact):
    assert is_exact(raw, members(raw)) is exact


_MEMBERS = st.lists(
    st.tuples(st.sampled_from(["a", "role", "\u00e9", "", '"']), st.integers(0, 10**6)), max_size=5
)
_SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",", ": "), ("  , ", ":")])


@given(_MEMBERS, _SPACES)
def test_an_object_is_exact_if_and_only_if_no_key_stands_twice(written, spaces):
    comma, colon = spaces
    pairs = [f"{json.dumps(n, ensure_ascii=False)}{colon}{v}" for n, v in written]
    raw = ("{" + comma.join(pairs) + "}").encode()
    names = [name for name, _ in written]

    assert is_exact(raw, members(raw)) == (len(names) == len(set(names)))


def test_replace_text_changes_only_the_words_of_a_part():
    raw = b'{"type":"text", "text":"a","cache_control":{ "type":"ephemeral"}}'

    assert replace_text(raw, "\u00e9") == (
        '{"type":"text","text":"\u00e9","cache_control":{ "type":"ephemeral"}}'.encode()
    )
    assert replace_text(b'"a"', "b") == b'"b"'


def test_a_part_with_a_mark_is_not_plain():
    assert is_plain_text(b'"a"')
    assert is_plain_text(text_part("a"))
    assert not is_plain_text(b'{"type":"text","text":"a","cache_control":null}')


def test_replace_parts_makes_a_single_text_the_content():
    raw = b'{"role":"system","content":"a","name":"n"}'

    assert replace_parts(raw, [b'"b"']) == b'{"role":"system","content":"b","name":"n"}'


def test_replace_parts_makes_several_parts_a_list():
    replaced = replace_parts(text_message("system", "a"), [b'"a"', text_part("b")])

    assert replaced == (
        b'{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    )


def test_replace_parts_refuses_a_message_that_is_no_object():
    with pytest.raises(Unplannable):
        is_plain_text(b"7")


@pytest.mark.parametrize("raw", [b'"a < b, tg:stable"', b'"tg://resolve"', b'"<t g:"', b""])
def test_json_without_tags_cannot_hold_tags(raw: bytes):
    assert not may_hold_tags(raw)


@pytest.mark.parametrize(
    "raw", [b'"<tg:"', b'"\\u003ctg:semi\\u003ea"', b'"\\u003Ctg:semi\\u003Ea"']
)
def test_tags_are_seen_however_json_writes_them(raw: bytes):
    assert may_hold_tags(raw)


def test_the_latest_256_lists_of_up_to_64_kibibytes_are_remembered():
    assert remembers_latest(lambda number: known_elements(b"[%d]" % number), 256)
    lists = [b'["%b"]' % (b"a" * (size - 4)) for size in (65_536, 65_537)]
    assert [known_elements(raw) is known_elements(raw) for raw in lists] == [True, False]
