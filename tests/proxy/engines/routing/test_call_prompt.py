import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.call_prompt import call_prompt

SYSTEM = {"role": "system", "content": "You are a careful clerk."}
FIRST = {"role": "user", "content": "What is due?"}
ANSWER = {"role": "assistant", "content": "Two bills."}


def chat(*messages: dict[str, str], **fields: object) -> bytes:
    return json.dumps({**fields, "messages": messages}).encode()


def content(body: bytes, endpoint: str = "chat/completions") -> bytes:
    prompt = call_prompt(body, endpoint)
    assert prompt is not None
    return prompt.content


def conversation(body: bytes, endpoint: str = "chat/completions") -> str:
    prompt = call_prompt(body, endpoint)
    assert prompt is not None
    return prompt.conversation


def test_a_later_call_of_a_conversation_begins_with_the_earlier_one():
    first = content(chat(SYSTEM, FIRST, model="m", temperature=0))
    later = content(chat(SYSTEM, FIRST, ANSWER, FIRST, model="m", temperature=1))

    assert later.startswith(first.removesuffix(b"]"))


def test_tools_come_before_messages_wherever_the_body_has_them():
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = json.dumps({"messages": [FIRST], "tools": tools}).encode()

    assert content(body).startswith(json.dumps(tools).encode())


def test_a_conversation_keeps_its_name_as_it_grows():
    names = {
        conversation(chat(SYSTEM, FIRST)),
        conversation(chat(SYSTEM, FIRST, ANSWER, {"role": "user", "content": "Pay them."})),
    }

    assert len(names) == 1
    assert conversation(chat(SYSTEM, ANSWER | {"role": "user"})) not in names


def test_the_instructions_and_input_of_a_responses_call_are_its_prompt():
    body = b'{"model":"m","input":[{"role":"user","content":"a"}],"instructions":"be brief"}'

    assert content(body, "responses") == b'\n"be brief"\n[{"role":"user","content":"a"}]'
    assert conversation(body, "responses")


def messages(*turns: Mapping[str, object], **fields: object) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, **fields, "messages": turns}).encode()


def test_the_system_field_of_a_messages_call_comes_before_its_messages():
    tools = [{"name": "f"}]
    first = content(messages(FIRST, system="Be brief.", tools=tools), "messages")
    later = content(messages(FIRST, ANSWER, FIRST, tools=tools, system="Be brief."), "messages")

    assert first.startswith(json.dumps(tools).encode() + b'\n"Be brief."\n')
    assert later.startswith(first.removesuffix(b"]"))
    assert conversation(messages(FIRST), "messages")


def test_marks_and_attribution_of_a_messages_call_change_no_prefix():
    marked = {"type": "text", "text": 'a, "cache_control": {', "cache_control": {"type": "x"}}
    plain = {name: value for name, value in marked.items() if name != "cache_control"}
    message = {"role": "user", "content": [marked]}
    first = content(messages(message, system=[line("1"), marked]), "messages")
    later = content(
        messages({**message, "content": [plain]}, ANSWER, system=[line("2"), plain]), "messages"
    )

    assert later.startswith(first.removesuffix(b"]"))
    assert json.loads(first.splitlines()[1]) == [plain]


def line(version: str) -> dict[str, str]:
    return {"type": "text", "text": f"x-anthropic-billing-header: cc_version={version}"}


def test_a_plain_prompt_has_no_conversation():
    assert content(b'{"prompt":"once"}', "completions") == b'"once"'
    assert conversation(b'{"prompt":"once"}', "completions") == ""
    assert conversation(b'{"input":"once"}', "responses") == ""
    assert conversation(chat(SYSTEM)) == ""


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [(b"{}", "embeddings"), (b"{", "chat/completions"), (b"[]", "responses"), (b"", "completions")],
)
def test_a_body_without_a_prompt_or_that_cannot_be_read_has_none(body, endpoint):
    assert call_prompt(body, endpoint) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(_JSON, st.sampled_from(["chat/completions", "responses", "messages", "completions"]))
def test_any_messages_of_a_call_are_read_without_failing(messages, endpoint):
    body = json.dumps({"messages": messages, "input": messages, "prompt": messages}).encode()

    assert call_prompt(body, endpoint) is not None


def test_a_conversation_that_opens_with_a_long_message_is_named_as_by_all_of_its_bytes():
    """It ends beyond what is read first, also where characters are fewer than bytes."""
    for text in ("long " * 20_000, "é" * 40_000):
        opening = {"role": "user", "content": text}
        names = {
            conversation(chat(SYSTEM, opening)),
            conversation(chat(SYSTEM, opening, ANSWER, FIRST)),
        }

        assert len(names) == 1
        assert conversation(chat(SYSTEM, {"role": "user", "content": text + "!"})) not in names


def test_no_conversation_is_named_where_many_messages_precede_the_first_of_a_user():
    assert conversation(chat(*[SYSTEM] * 7, FIRST)) != ""
    assert conversation(chat(*[SYSTEM] * 8, FIRST)) == ""
