"""A Responses body in chat's shape, and back."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.items import freeze_instructions, is_stored, known_conversion
from proxy.prefix.prompts.objects import Unplannable, members
from proxy.prefix.prompts.prompt import Prompt, parse_prompt

Json = dict[str, Any]

USER = {"role": "user", "content": "Where is my parcel?"}
PARTS = {
    "type": "message",
    "role": "developer",
    "content": [
        {"type": "input_text", "text": 'Say "type": "text" never.'},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_file", "file_id": "file_1"},
    ],
}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Here.", "annotations": []}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "find", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": 'It is "output": 7.'}
SEEN = {**RESULT, "output": [{"type": "input_text", "text": "There."}]}
CUSTOM = {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done."}
FUNCTION = {"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": True}
SEARCH = {"type": "web_search"}


def test_a_short_piece_is_converted_once_and_a_long_one_each_time():
    converted: list[bytes] = []

    def convert(piece: bytes) -> bytes:
        converted.append(piece)
        return b"+" + piece

    conversion, long = known_conversion(convert), b"a" * 2**14
    made = [conversion(piece) for piece in (b"a", b"a", long, long)]

    assert made == [b"+a", b"+a", b"+" + long, b"+" + long]
    assert converted == [b"a", long, long]


def body(items: object, **fields: object) -> bytes:
    return orjson.dumps({"model": "gpt-6.1-sol", **fields, "input": items})


def roles_and_contents(prompt: Prompt) -> list[tuple[str, Any]]:
    """Return who speaks, and what a planner reads of it."""
    read = [msgspec.json.decode(raw) for raw in prompt.messages]
    return [(message["role"], message.get("content")) for message in read]


def with_spaces(raw: bytes) -> bytes:
    """The same with spaces, as other writers put them."""
    return msgspec.json.format(raw, indent=2)


def test_items_are_messages_to_a_planner():
    prompt = parse_prompt(body([PARTS, USER, THOUGHT, CALL, RESULT, ANSWER, CUSTOM]))

    assert roles_and_contents(prompt) == [
        (
            "developer",
            [
                {"type": "text", "text": 'Say "type": "text" never.'},
                {"type": "image_url", "image_url": "https://x/y.png", "detail": "low"},
                {"type": "file", "file_id": "file_1"},
            ],
        ),
        ("user", "Where is my parcel?"),
        ("assistant", None),
        ("assistant", None),
        ("tool", 'It is "output": 7.'),
        ("assistant", ANSWER["content"]),
        ("assistant", None),
    ]


def test_an_input_text_is_a_users_message():
    assert roles_and_contents(parse_prompt(body("Hello."))) == [("user", "Hello.")]


def test_instructions_come_first():
    contents = roles_and_contents(
        parse_prompt(body([PARTS, USER], instructions="Be kind.", store=False))
    )

    assert contents[0] == ("developer", "Be kind.")
    assert [role for role, _ in contents] == ["developer", "developer", "user"]


def test_instructions_of_what_is_stored_are_no_text_that_could_move():
    ((role, parts), _) = roles_and_contents(parse_prompt(body("Hello.", instructions="Be kind.")))

    assert (role, parts) == ("developer", [{"type": "instructions", "text": "Be kind."}])


def test_functions_become_chat_tools_and_other_tools_stay():
    prompt = parse_prompt(body("Hello.", tools=[FUNCTION, SEARCH]))
    first, second = [msgspec.json.decode(raw) for raw in prompt.tools]

    assert first == {"type": "function", "function": FUNCTION}
    assert second == SEARCH


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("written", [bytes, with_spaces])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"instructions": "Be kind.", "tools": [FUNCTION, SEARCH, {"type": "custom", "name": "x"}]},
        {"instructions": None, "tools": None},
        {"instructions": "", "tools": []},
        {"instructions": "<tg:variable>It is noon.</tg:variable> Be kind."},
    ],
)
@pytest.mark.parametrize(
    "items", ["Hello.", [], [PARTS, USER, THOUGHT, CALL, RESULT, CUSTOM, ANSWER, CALL, SEEN]]
)
def test_an_unmodified_responses_body_is_written_back_byte_for_byte(items, fields, written, stored):
    came = written(body(items, store=stored, **fields))
    before, after = members(came), members(parse_prompt(came).render())

    assert msgspec.json.decode(came) == msgspec.json.decode(parse_prompt(came).render())
    assert list(before) == list(after)
    for name in before.keys() - {"input", "tools"}:
        assert before[name] == after[name]
    for name in ("input", "tools"):
        assert compact_between(before.get(name, b"")) == compact_between(after.get(name, b""))


def compact_between(raw: bytes) -> list[bytes]:
    """The elements of a list as they were written; another value as it was."""
    if raw[:1] != b"[":
        return [raw]
    return [bytes(one) for one in msgspec.json.decode(raw, type=list[msgspec.Raw])]


WORDS = st.text() | st.sampled_from(
    ['"type":"text"', '\\"output\\":', '{"role":"tool","item":true,', '"content":', "tg:"]
)
PART = st.fixed_dictionaries({"type": st.sampled_from(["input_text", "input_file"]), "text": WORDS})
CONTENT = WORDS | st.lists(PART, max_size=3)
ITEM = st.one_of(
    st.builds(lambda c, r: {"role": r, "content": c}, CONTENT, st.sampled_from(["user", "system"])),
    st.builds(lambda c: {"type": "message", "role": "assistant", "content": c}, WORDS),
    st.builds(lambda c: {**RESULT, "output": c}, CONTENT),
    st.builds(lambda w: {"type": "function_call", "arguments": w, "output": w}, WORDS),
    st.builds(lambda w: {"type": "reasoning", "content": [{"type": "text", "text": w}]}, WORDS),
)


@given(st.lists(ITEM, max_size=6) | WORDS, WORDS, st.booleans())
def test_any_responses_body_is_written_back_unmodified(items: object, words: str, stored: bool):  # noqa: FBT001
    came = msgspec.json.encode({"input": items, "instructions": words, "store": stored})

    assert parse_prompt(came).render() == came


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["type", "role", "content", "output", "name"]), x)
        ),
    )
)
def test_any_items_are_a_prompt_or_unplannable(items: object):
    came = msgspec.json.encode({"input": [items], "tools": items})
    try:
        parsed = parse_prompt(came)
    except Unplannable:
        return
    assert parsed.render() == came


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
        {"said": [{"type": "item_reference", "id": "msg_1"}]},
        {"said": [{"id": "msg_1"}]},
    ],
)
def test_a_body_that_refers_to_a_stored_response_is_unplannable(fields: Json):
    with pytest.raises(Unplannable, match="what its provider keeps"):
        parse_prompt(body(fields.pop("said", "Hello."), **fields))


@pytest.mark.parametrize(
    "odd",
    [
        {"said": [{"type": "agent_message", "role": "user", "content": "x"}]},
        {"said": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"said": [{"role": "user", "content": "x", "by": {"type": "text"}}]},
        {"said": [["x"]]},
        {"said": 7},
        {"instructions": ["x"]},
        {"tools": [{"type": "function", "function": {"name": "x"}}]},
        {"said": [{"role": "assistant", "item": True, "content": "x"}]},
    ],
)
def test_a_body_that_cannot_be_written_back_is_unplannable(odd: Json):
    with pytest.raises(Unplannable):
        parse_prompt(body(odd.pop("said", "Hello."), **odd))


def render(prompt: Prompt, **changed: Any) -> Json:
    document: Json = msgspec.json.decode(msgspec.structs.replace(prompt, **changed).render())
    return document


def test_instructions_that_carry_a_mark_become_a_message():
    prompt = parse_prompt(body("Hello.", instructions="Be kind.", store=False))
    mark = {"mode": "explicit"}
    part = {"type": "text", "text": "Be kind.", "prompt_cache_breakpoint": mark}
    message = {**msgspec.json.decode(prompt.messages[0]), "content": [part]}
    rendered = render(prompt, messages=(orjson.dumps(message), prompt.messages[1]))

    assert "instructions" not in rendered
    assert rendered["input"] == [
        {"role": "developer", "content": [{**part, "type": "input_text"}]},
        {"role": "user", "content": "Hello."},
    ]


def test_instructions_that_only_lost_words_stay_instructions():
    prompt = parse_prompt(body("Hello.", instructions="Be kind. It is noon.", store=False))
    message = {**msgspec.json.decode(prompt.messages[0]), "content": "Be kind."}
    late = orjson.dumps({"role": "developer", "content": "It is noon."})
    rendered = render(prompt, messages=(orjson.dumps(message), prompt.messages[1], late))

    assert rendered["instructions"] == "Be kind."
    assert [item["content"] for item in rendered["input"]] == ["Hello.", "It is noon."]


def test_messages_behind_fixed_instructions_follow_them():
    prompt = parse_prompt(body("Hello.", instructions="Be kind."))
    document = msgspec.json.decode(prompt.messages[0])
    document["content"].append({"type": "text", "text": "It is noon."})
    rendered = render(prompt, messages=(orjson.dumps(document), prompt.messages[1]))

    assert rendered["instructions"] == "Be kind."
    assert rendered["input"][0] == {
        "role": "developer",
        "content": [{"type": "input_text", "text": "It is noon."}],
    }


def test_instructions_that_went_elsewhere_leave_none():
    prompt = parse_prompt(body("Hello.", instructions="It is noon.", store=False))

    assert "instructions" not in render(prompt, messages=prompt.messages[1:])
    assert "instructions" not in render(prompt, messages=())


def test_a_mark_beside_a_function_goes_into_the_responses_tool():
    prompt = parse_prompt(body("Hello.", tools=[FUNCTION]))
    tool = {**msgspec.json.decode(prompt.tools[0]), "cache_control": {"type": "ephemeral"}}
    rendered = render(prompt, tools=(orjson.dumps(tool),))

    assert rendered["tools"] == [{**FUNCTION, "cache_control": {"type": "ephemeral"}}]


def test_a_response_is_stored_unless_store_is_false():
    assert is_stored({"input": b"[]"})
    assert is_stored({"input": b"[]", "store": b"null"})
    assert not is_stored({"input": b"[]", "store": b" false"})
    assert not is_stored({"messages": b"[]", "input": b"[]"})


@pytest.mark.parametrize("odd", [{"said": [{}]}, {"said": [{"id": "x", "role": "y"}]}])
def test_a_body_that_goes_on_from_a_stored_response_is_read_where_asked(odd: Json):
    came = body([{"id": "msg_1"}, USER], previous_response_id="resp_1")

    assert parse_prompt(came, goes_on=True).render() == came
    with pytest.raises(Unplannable):
        parse_prompt(body(odd["said"]), goes_on=True)


def test_instructions_alone_are_nothing_to_plan_but_can_be_read():
    came = orjson.dumps({"model": "m", "instructions": "Be kind."})

    assert parse_prompt(came, goes_on=True).render() == came
    with pytest.raises(Unplannable, match="no input"):
        parse_prompt(came)


@pytest.mark.parametrize("content", ["Be kind.", [{"type": "text", "text": "Be kind."}]])
def test_instructions_are_fixed_in_their_place(content: object):
    message = {"role": "developer", "instructions": True, "content": content}
    still = orjson.dumps(
        {"role": "developer", "content": [{"type": "instructions", "text": "Be kind."}]}
    )

    assert freeze_instructions(orjson.dumps(message)) == still
    assert freeze_instructions(still) is still


def test_a_form_of_ours_is_refused_however_often_its_item_was_seen():
    seen_before = parse_prompt(body([PARTS, RESULT])).messages

    for message in seen_before:
        with pytest.raises(Unplannable):
            parse_prompt(b'{"input":[%b]}' % message)
