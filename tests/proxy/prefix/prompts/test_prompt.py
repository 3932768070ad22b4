"""A chat body, taken apart and put together again."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import (
    Prompt,
    PromptSlot,
    _members_around,
    content_parts,
    count_leading,
    parse_message,
    parse_prompt,
    part_text,
)
from proxy.records.body_reader import READ_ALREADY, BodyReader
from tests.cache_bounds import remembers_latest
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.prefix.sent_calls import blocks, fingerprint

SYSTEM = {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text"}]}
DEVELOPER = {"role": "developer", "content": "b"}
USER = {"role": "user", "content": "c"}
TOOL = {"type": "function", "function": {"name": "f"}}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("fields", [{}, {"temperature": 0, "x-\u00e9": "a"}])
@pytest.mark.parametrize("is_native", [False, True])
def test_a_body_whose_messages_were_found_before_is_read_alike(fields, is_native):
    messages = [USER, {"role": "user", "content": "long " * 2_000}]
    raw = orjson.dumps({"model": "m", "messages": messages, **fields})
    _, split = BodyReader().read("team", raw)

    assert split is not None
    assert parse_prompt(raw, is_native=is_native, split=split) == parse_prompt(
        raw, is_native=is_native
    )


def test_messages_that_were_found_in_another_body_change_nothing():
    raw = orjson.dumps({"model": "m", "messages": [USER]})
    other = orjson.dumps({"messages": [{"role": "user", "content": "long " * 2_000}]})
    _, split = BodyReader().read("team", other)

    assert parse_prompt(raw, split=split) == parse_prompt(raw)


@pytest.mark.parametrize("more", [b'"a":1,"a":1', b'"b\\u0078":1'])
def test_a_body_whose_messages_were_found_is_not_planned_where_a_key_is_not_exact(more):
    message = orjson.dumps({"role": "user", "content": "long " * 2_000})
    raw = b'{"messages":[%b],%b}' % (message, more)
    _, split = BodyReader().read("team", raw)

    assert split is not None
    with pytest.raises(Unplannable, match="twice or is escaped"):
        parse_prompt(raw, split=split)


def prompt(*messages: object, **fields: Any) -> Prompt:
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages, **fields}))


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(orjson.dumps(value))


def test_a_body_without_spaces_comes_out_as_it_went_in():
    body = b'{"x":1.0e3,"messages":[{"role":"user","n":1.50},7],"tools":[{"a":"\\u00e9"}],"y":[]}'

    assert parse_prompt(body).render() == body


def test_pieces_stay_as_the_caller_wrote_them():
    parsed = parse_prompt(b' { "messages" : [ { "role" : "user" } ] , "tools" : [ ] } ')

    assert parsed.messages == (b'{ "role" : "user" }',)
    assert parsed.tools == ()
    assert parsed.render() == b'{"messages":[{ "role" : "user" }],"tools":[]}'


def test_a_body_without_tools_gets_none():
    assert b"tools" not in prompt(USER).render()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"messages":7}',
        b'{"messages":null}',
        b'{"messages":[],"tools":7}',
        b'{"messages":[',
        b'{"\xff":1,"messages":[]}',
        b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",  # deeper than any Python reads
    ],
)
def test_a_body_that_is_no_chat_is_unplannable(body: bytes):
    with pytest.raises(Unplannable):
        parse_prompt(body)


@pytest.mark.parametrize("depth", [500, 1_200, 5_000, 9_000, 12_000])
def test_the_nesting_limit_of_each_python_never_breaks_planning(depth: int):
    nested = b"[" * depth + b"]" * depth
    with pytest.raises(Unplannable):  # from 3.12 on a body may be read whose message may not be
        parse_message(parse_prompt(b'{"messages":[' + nested + b"]}").messages[0])
    assert part_text(nested) is None


@pytest.mark.parametrize("message", [b"7", b"[]", b'{"role":7}', b'{"role":"\xff"}'])
def test_json_that_is_no_message_is_unplannable(message: bytes):
    with pytest.raises(Unplannable):
        parse_message(message)


def test_a_message_without_role_or_content_says_nothing():
    assert parse_message(b"{}").role == ""
    assert content_parts(parse_message(b"{}").content) == ()


def test_system_and_developer_messages_lead():
    assert count_leading(prompt(SYSTEM, DEVELOPER, USER, SYSTEM)) == 2
    assert count_leading(prompt(SYSTEM)) == 1
    assert count_leading(prompt()) == 0


def test_a_content_is_a_text_or_parts():
    assert content_parts(raw("a")) == (b'"a"',)
    assert content_parts(raw(None)) == ()
    assert content_parts(raw([{"a": 1}, 2])) == (b'{"a":1}', b"2")
    with pytest.raises(Unplannable):
        content_parts(raw(7))


def test_only_texts_have_words():
    assert part_text(b'"a"') == "a"
    assert part_text(b'{"type":"text","text":"a"}') == "a"
    for other in (b'{"type":"image_url"}', b'{"type":"text"}', b'{"type":7}', b"7", b'"\xff"'):
        assert part_text(other) is None


def test_a_breakpoint_can_stand_after_tools_system_parts_and_messages():
    token_blocks = blocks(prompt(SYSTEM, DEVELOPER, USER, SYSTEM, tools=[TOOL]), fingerprint)

    assert [(one.role, one.message, one.part) for one in token_blocks] == [
        ("tools", -1, 0),
        ("system", 0, 0),
        ("system", 0, 1),
        ("developer", 1, 0),
        ("user", 2, -1),
        ("system", 3, -1),
    ]
    assert [one.slot for one in token_blocks] == [PromptSlot.STABLE] * 4 + [PromptSlot.VARIABLE] * 2
    assert token_blocks[4].size == len(orjson.dumps(USER))
    assert token_blocks[4].digest == fingerprint(orjson.dumps(USER))


def test_the_semi_stable_slot_begins_where_the_prompt_says():
    token_blocks = blocks(replace(prompt(SYSTEM, DEVELOPER, USER), semi=(0, 1)), fingerprint)

    assert [one.slot for one in token_blocks] == [
        PromptSlot.STABLE,
        PromptSlot.SEMI_STABLE,
        PromptSlot.SEMI_STABLE,
        PromptSlot.VARIABLE,
    ]


def test_blocks_of_what_cannot_be_read_are_not_found():
    with pytest.raises(Unplannable):
        blocks(prompt(USER, 7), fingerprint)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), _JSON, max_size=3), st.lists(_JSON, max_size=4))
def test_any_body_says_the_same_when_it_is_put_together(fields: dict[str, Any], some: list[Any]):
    body = orjson.dumps({**fields, "messages": some, "tools": some})

    assert parse_prompt(body).render() == body


@given(st.binary(max_size=60))
def test_any_bytes_are_a_prompt_or_unplannable(body: bytes):
    for tried in (body, b'{"messages":[' + body + b"]}"):
        try:
            blocks(parse_prompt(tried), fingerprint)
        except Unplannable:
            continue


BEFORE = {"model": "m", "messages": [SYSTEM, USER, USER | {"content": "d"}], "tools": [TOOL]}


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        BEFORE | {"prompt_cache_key": "k"},
        BEFORE | {"messages": [*BEFORE["messages"], {"role": "user", "content": "more"}]},
        BEFORE | {"messages": [{"role": "system", "content": "see below"}, *BEFORE["messages"]]},
        BEFORE | {"tools": [TOOL | {"cache_control": {}}]},
    ],
)
def test_the_kept_check_passes_a_body_that_keeps_everything(after: Any):
    assert_nothing_lost(orjson.dumps(BEFORE), orjson.dumps(after))


@pytest.mark.parametrize(
    "after",
    [
        BEFORE | {"model": "n"},
        BEFORE | {"user": "u"},
        BEFORE | {"tools": []},
        BEFORE | {"tools": [TOOL, TOOL]},
        BEFORE | {"messages": [USER, USER | {"content": "d"}]},
        BEFORE | {"messages": [SYSTEM, USER | {"content": "d"}, USER]},
        BEFORE | {"messages": [SYSTEM, USER]},
        BEFORE | {"messages": [SYSTEM, USER, {"role": "assistant", "content": "d"}]},
    ],
)
def test_the_kept_check_fails_a_body_that_loses_something(after: Any):
    with pytest.raises(AssertionError):
        assert_nothing_lost(orjson.dumps(BEFORE), orjson.dumps(after))


def test_the_kept_check_fails_a_body_that_loses_a_mark():
    marked = BEFORE | {"tools": [TOOL | {"cache_control": {}}]}

    with pytest.raises(AssertionError):
        assert_nothing_lost(orjson.dumps(marked), orjson.dumps(BEFORE))


def test_tags_are_no_words_and_may_take_text_elsewhere():
    before = {"messages": [USER | {"content": "a <tg:variable>b</tg:variable>c"}]}
    after = {"messages": [USER | {"content": "a c"}, USER | {"content": "b"}]}

    assert_nothing_lost(orjson.dumps(before), orjson.dumps(after))


def test_tools_that_are_null_are_none_and_stay_null():
    body = b'{"messages":[],"tools":null}'
    prompt = parse_prompt(body)

    assert prompt.tools == ()
    assert prompt.render() == body


def test_the_latest_256_surroundings_of_up_to_64_kibibytes_are_remembered():
    around = b'{"messages":0,"user":"%b"}'.replace(b"0", READ_ALREADY)
    assert remembers_latest(lambda number: _members_around(around % str(number).encode()), 256)
    raws = [around % (b"a" * (size - len(around % b""))) for size in (65_536, 65_537)]
    assert [_members_around(raw) is _members_around(raw) for raw in raws] == [True, False]


def test_a_prompt_has_4096_messages_and_a_message_4096_parts_at_most():
    assert len(parse_prompt(orjson.dumps({"messages": [USER] * 4_096})).messages) == 4_096
    with pytest.raises(Unplannable, match="more than 4,096 messages"):
        parse_prompt(orjson.dumps({"messages": [USER] * 4_097}))

    assert len(content_parts(msgspec.Raw(b"[%b]" % b",".join([b"1"] * 4_096)))) == 4_096
    with pytest.raises(Unplannable, match="more than 4,096 parts"):
        content_parts(msgspec.Raw(b"[%b]" % b",".join([b"1"] * 4_097)))
