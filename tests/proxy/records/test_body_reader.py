"""Bodies whose beginning is known."""

import json
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.records.body_reader import BodyReader, SplitBody
from proxy.records.request_fields import parse_request_fields

TEXT = 'A question of some length, with "quotes" and \u00e9. ' * 40
_WORDS = st.sampled_from(["a", TEXT, "b", "\u00e9\n", '"'])
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": _WORDS}),
    min_size=3,
    max_size=9,
)
_EDITS = st.tuples(st.integers(0, 9), st.integers(0, 9), _MESSAGES)


def body(messages: list[Any], *, spaced: bool = False, **fields: Any) -> bytes:
    value = {"model": "m", **fields, "messages": messages, "stream": True}
    return json.dumps(value).encode() if spaced else orjson.dumps(value)


def conversation(count: int) -> list[Any]:
    return [{"role": "user", "content": f"{number} {TEXT}"} for number in range(count)]


def facts(read: tuple[Any, SplitBody | None]) -> tuple[Any, ...]:
    """The facts of a body that was read, but for how its messages were found."""
    fields, split = read
    plain = {name: getattr(fields, name) for name in type(fields).__struct_fields__}
    values = {n: bytes(v) if isinstance(v, msgspec.Raw) else v for n, v in plain.items()}
    return values, split and (split.messages, split.around, split.traits)


def read_or_refusal(reader: BodyReader, raw: bytes) -> Any:
    """The facts of a body, or the reason that it is refused."""
    try:
        return facts(reader.read("team", raw))
    except CallerError as error:
        return str(error)


def all_in(raw: bytes) -> tuple[Any, ...]:
    """The same of a body that is read without any before it."""
    return facts(BodyReader().read("team", raw))


@given(_MESSAGES, _EDITS, st.booleans(), st.sampled_from([{}, {"user": "u"}, {"stream": False}]))
def test_a_body_after_any_edit_is_read_as_one_that_is_read_first(history, edit, spaced, fields):
    start, end, more = edit
    reader = BodyReader()
    reader.read("team", body(history, spaced=spaced))
    grown = [*history, *more]
    edited = [*grown[:start], *more, *grown[start + end :]]
    for messages in (grown, edited, history):
        raw = body(messages, spaced=spaced, **fields)

        assert facts(reader.read("team", raw)) == all_in(raw)


@given(st.integers(0, 20_000), st.binary(max_size=3), st.integers(0, 3))
def test_a_body_with_any_bytes_changed_is_read_or_refused_as_one_that_is_read_first(at, new, cut):
    reader = BodyReader()
    raw = body(conversation(8))
    reader.read("team", raw)
    changed = raw[: at % len(raw)] + new + raw[at % len(raw) + cut :]

    assert read_or_refusal(reader, changed) == read_or_refusal(BodyReader(), changed)


@given(st.integers(0, 20_000), st.binary(max_size=3), st.integers(0, 3))
def test_a_body_has_the_fields_or_the_error_of_one_that_is_parsed_whole(at, new, cut):
    raw = body(conversation(8), n="\U0001f600", user="u")
    changed = raw[: at % len(raw)] + new + raw[at % len(raw) + cut :]
    try:
        whole: Any = facts((parse_request_fields(changed), None))[0]
    except CallerError as error:
        whole = str(error)
    read = read_or_refusal(BodyReader(), changed)

    assert whole == (read if isinstance(read, str) else read[0])


@pytest.mark.parametrize("wrong", [{"model": 7}, {"user": "\ud83d"}, {"stream": "yes"}])
def test_a_wrong_field_of_a_long_body_is_refused_as_in_a_body_that_is_parsed_whole(wrong):
    raw = json.dumps({"messages": conversation(8), "model": "m", **wrong}).encode()
    with pytest.raises(CallerError) as whole:
        parse_request_fields(raw)

    assert read_or_refusal(BodyReader(), raw) == str(whole.value)


def test_known_messages_of_a_growing_conversation_are_not_parsed_again():
    reader = BodyReader()
    reader.read("team", body(conversation(8)))
    _, split = reader.read("team", body(conversation(10)))
    _, next_split = reader.read("team", body(conversation(12)))

    assert split is not None
    assert next_split is not None
    assert all(a is b for a, b in zip(split.messages[:8], next_split.messages[:8], strict=True))


def test_conversations_that_take_turns_are_both_known():
    reader = BodyReader()
    shared = {"role": "system", "content": TEXT * 3}
    others = [[shared, {"role": "user", "content": name}, *conversation(6)] for name in "abc"]
    first = [reader.read("team", body(messages))[1] for messages in others]
    again = [reader.read("team", body([*messages, *conversation(2)]))[1] for messages in others]

    assert all(
        one is not None and two is not None and one.messages[0] is two.messages[0]
        for one, two in zip(first, again, strict=True)
    )


def test_a_body_of_another_team_is_never_known():
    reader = BodyReader()
    _, ours = reader.read("ours", body(conversation(8)))
    _, theirs = reader.read("theirs", body(conversation(8)))

    assert ours is not None
    assert theirs is not None
    assert ours == theirs
    assert not any(a is b for a, b in zip(ours.messages, theirs.messages, strict=True))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[%b],"messages":[1]}',
        b'{"a":{"messages":[%b]},"messages":[1]}',
        b'{"messages" : [%b]}',
        b'{"messages":[%b  , 1]}',
        b'{"messages":{"a":[%b]}}',
        b'{"messages":[ %b]}',
        b'{"messages":[%b , 1]}',
        b'{"messages":[%b, 1,2]}',
        b'{"messages":[1,%b ]}',
        b'{"input":[%b]}',
    ],
)
def test_messages_that_are_not_surely_those_of_the_body_are_not_set_apart(raw):
    raw %= orjson.dumps(TEXT * 3)
    fields, split = BodyReader().read("team", raw)

    assert split is None
    assert bytes(fields.messages) == bytes(parse_request_fields(raw).messages)


def test_an_empty_list_of_messages_in_many_bytes_is_read():
    fields, split = BodyReader().read("team", b'{"messages":[%b]}' % (b" " * 5_000))

    assert split is None
    assert orjson.loads(bytes(fields.messages)) == []


def test_bodies_are_remembered_within_so_many_bytes():
    reader = BodyReader(max_bytes=200_000)
    for number in range(40):
        reader.read("team", body([{"role": "user", "content": str(number)}, *conversation(9)]))

    assert reader.size_bytes <= 200_000
