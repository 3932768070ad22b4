import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CalledTool, CannotCompactError, Voice
from compaction.reading.message_parser import count_tokens_of, parse_message
from compaction.reading.message_tokens import MESSAGE_TOKENS
from compaction.reading.prefix_digests import DIGEST_BYTES
from compaction.reading.token_estimate import estimate_tokens

PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}


def raw(**fields):
    return json.dumps(fields).encode()


def call(name, arguments="{}", called="f"):
    return {"id": name, "type": "function", "function": {"name": called, "arguments": arguments}}


@pytest.mark.parametrize(
    ("role", "voice"),
    [
        ("system", Voice.AUTHORITY),
        ("developer", Voice.AUTHORITY),
        ("user", Voice.USER),
        ("assistant", Voice.ASSISTANT),
    ],
)
def test_a_message_of_words_is_its_words(role, voice):
    source = raw(role=role, content="hello")
    message = parse_message(source)

    assert message.raw == source
    assert len(message.digest) == DIGEST_BYTES
    assert (message.role, message.voice, message.text) == (role, voice, "hello")
    assert (message.calls, message.answers, message.whole, message.signed) == ((), "", True, False)
    assert message.tokens == MESSAGE_TOKENS + 1 + estimate_tokens("hello")


_TEXT = {"type": "text", "text": "hello"}
_MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "content", [[_TEXT], [{**_TEXT, **_MARK}], [{"text": "hello", "type": "text"}]]
)
def test_marks_and_spelling_make_no_other_message(content):
    plain = parse_message(raw(role="user", content="hello"))

    assert parse_message(raw(role="user", content=content)).digest == plain.digest
    assert parse_message(raw(content=content, role="user", **_MARK)).digest == plain.digest
    assert parse_message(raw(role="user", content=[*content, _TEXT])).digest != plain.digest
    assert parse_message(raw(role="user", content="Hello")).digest != plain.digest


def test_parts_that_are_no_text_are_named_in_results():
    parts = [_TEXT, PICTURE, {"type": "odd"}, 7]

    assert parse_message(raw(role="user", content=parts)).text == "hello"
    message = parse_message(raw(role="tool", tool_call_id="a", content=parts))
    assert message.text == "hello\n[an image not kept]\n[something not kept]\n[something not kept]"
    assert not message.whole


def test_a_users_message_keeps_its_speakers_name():
    assert parse_message(raw(role="user", name="alice", content="hello")).name == "alice"
    assert parse_message(raw(role="tool", name="get", tool_call_id="a", content="hello")).name == ""


def test_calls_and_the_result_of_one_name_each_other():
    caller = parse_message(
        raw(role="assistant", content=None, tool_calls=[call("a", '{"x": 1}'), call("b")])
    )
    result = parse_message(raw(role="tool", tool_call_id="a", content="done"))

    assert caller.calls == (CalledTool("a", "f", '{"x": 1}'), CalledTool("b", "f", "{}"))
    assert (caller.text, caller.whole) == ("", True)
    assert (result.voice, result.answers, result.text) == (Voice.RESULT, "a", "done")


def test_a_function_of_the_older_kind_is_known_by_its_name():
    caller = parse_message(raw(role="assistant", function_call={"name": "f", "arguments": "{}"}))
    result = parse_message(raw(role="function", name="f", content="done"))

    assert [one.name for one in caller.calls] == ["f"]
    assert caller.calls[0].id == result.answers != ""
    assert (result.voice, caller.whole) == (Voice.RESULT, True)


def test_calls_of_other_forms_are_read_as_far_as_they_go():
    custom = {"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    parsed = {"id": "b", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    hosted = {"id": "c", "type": "web_search", "web_search": {}}
    message = parse_message(raw(role="assistant", tool_calls=[custom, parsed]))

    assert message.calls == (CalledTool("a", "sh", "ls"), CalledTool("b", "f", '{"x":1}'))
    assert message.whole
    assert not parse_message(raw(role="assistant", tool_calls=[hosted])).whole


def test_the_text_of_parts_stands_in_lines():
    parts = [{"type": "text", "text": "one"}, {"type": "refusal", "refusal": "no"}]
    message = parse_message(raw(role="assistant", content=[*parts, "two"], refusal="never"))

    assert (message.text, message.whole) == ("one\nno\ntwo\nnever", True)


@pytest.mark.parametrize(
    "part",
    [
        PICTURE,
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "tool_result", "tool_use_id": "a", "content": "done"},
        {"type": "text"},
        {"type": 1, "text": "odd"},
        7,
    ],
)
def test_a_part_that_is_no_text_makes_a_message_not_whole(part):
    message = parse_message(raw(role="user", content=[{"type": "text", "text": "look"}, part]))

    assert (message.text, message.whole) == ("look", False)


@pytest.mark.parametrize(
    ("more", "whole"),
    [
        ({"audio": {"id": "a"}}, False),
        ({"unheard_of": [1]}, False),
        ({"audio": None, "tool_calls": None, "refusal": None, "annotations": []}, True),
        ({"name": "Ann", "cache_control": {"type": "ephemeral"}, "annotations": [{}]}, True),
        ({"reasoning_content": "I think"}, True),
        ({"content": {"text": "odd"}}, False),
    ],
)
def test_keys_that_are_not_known_count_when_they_hold_something(more, whole):
    assert parse_message(raw(**{"role": "assistant", "content": "a"} | more)).whole is whole


def test_signed_thinking_is_seen_and_thoughts_in_the_open_are_not_signed():
    block = {"type": "thinking", "thinking": "so", "signature": "Eq"}

    assert parse_message(raw(role="assistant", content="a", thinking_blocks=[block])).signed
    assert not parse_message(raw(role="assistant", content="a", reasoning_content="so")).signed


def test_messages_are_weighed_by_the_token_count_that_is_given():
    assert parse_message(raw(role="user", content="hello"), len).tokens == MESSAGE_TOKENS + 1 + 5


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"[]",
        b'"text"',
        b'{"content": "a"}',
        b'{"role": 1}',
        b'{"role": "narrator", "content": "a"}',
        b'{"role": "user", "content": "\xff"}',
        b'{"role": "user", "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"role": "tool", "content": "a"}',
        b'{"role": "function", "content": "a"}',
        b'{"role": "assistant", "tool_calls": "a"}',
        b'{"role": "assistant", "tool_calls": {"id": "a"}}',
        b'{"role": "assistant", "tool_calls": [{"type": "function"}]}',
        b'{"role": "assistant", "tool_calls": ["a"]}',
        b'{"role": "user", "tool_calls": [{"id": "a"}]}',
    ],
)
def test_invalid_messages_are_not_compacted(source):
    with pytest.raises(CannotCompactError):
        parse_message(source)


def test_a_call_without_a_body_has_no_name():
    odd = {"id": "a", "function": 7}

    assert parse_message(raw(role="assistant", tool_calls=[{"id": "a"}])).calls == (
        CalledTool("a", "", ""),
    )
    assert parse_message(raw(role="assistant", tool_calls=[odd])).calls == (
        CalledTool("a", "", ""),
    )


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "function_call", "name", "audio"]),
        st.recursive(
            st.none() | st.integers() | st.sampled_from(["user", "assistant", "tool", "text"]),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["id", "type", "text", "function", "name"]), inner
                )
            ),
            max_leaves=12,
        ),
    )
)
def test_any_object_is_read_or_refused(fields):
    source = json.dumps(fields).encode()
    with suppress(CannotCompactError):
        assert parse_message(source).raw == source


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(source):
    with suppress(CannotCompactError):
        assert parse_message(source).raw == source


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "user", "content": "Good morning.", "name": "ann"},
        {"role": "user", "content": ""},
        {"role": "tool", "tool_call_id": "c1", "content": "a,b\n1,2", "name": "look"},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": [call("c1", '{"at": 7}')]},
    ],
)
def test_a_message_weighs_the_same_without_being_read(fields):
    assert count_tokens_of(raw(**fields), estimate_tokens) == parse_message(raw(**fields)).tokens


def test_tokens_of_json_that_is_no_object_are_not_counted():
    with pytest.raises(CannotCompactError):
        count_tokens_of(b"[1]", estimate_tokens)


def test_words_alone_read_as_they_do_among_other_keys():
    for fields in ({"role": "user", "name": "ann"}, {"role": "tool", "tool_call_id": "c1"}):
        plain, more = (
            parse_message(raw(**fields, content="hello")),
            parse_message(raw(**fields, content="hello", n=1)),
        )

        assert (plain.text, plain.name, plain.answers) == (more.text, more.name, more.answers)
        assert (plain.tokens, plain.whole, plain.signed) == (more.tokens, more.whole, more.signed)
