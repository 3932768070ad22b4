"""A Messages body as callers write it."""

import pytest

from proxy.providers.messages.body import MessagesBlock, blocks_of_content, read_messages
from tests.fakes.messages_calls import Json, messages_call, text, user
from tests.fakes.refusals import refusing


def test_names_are_those_of_fields_that_are_not_null() -> None:
    _, names = read_messages(messages_call(top_k=None, speed="fast"))

    assert names == {"model", "max_tokens", "messages", "speed"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [user(text("Hi")), user({"text": "no type"})]}, "messages[1].content[0]"),
        ({"messages": [user({"type": "text", "text": 1})]}, "messages[0].content[0].text"),
        ({"system": 7}, "system"),
        ({"tools": [{"name": 7}]}, "tools[0].name"),
        ({"thinking": "on"}, "thinking"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"metadata": {"user_id": 7}}, "metadata.user_id"),
        ({"context_management": {"edits": [{}]}}, "context_management.edits[0]"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_of_its_place(fields: Json, param: str) -> None:
    with refusing(400) as caught:
        read_messages(messages_call(**fields))

    assert caught.value.param == param
    assert f"`{param}`" in caught.value.message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":"\xff"}', b"[" * 100_000])
def test_a_body_that_is_no_object_in_json_is_refused(body: bytes) -> None:
    with refusing(400):
        read_messages(body)


def test_a_text_is_one_block_and_an_object_none() -> None:
    blocks = [MessagesBlock(type="text", text="b")]

    assert [block.text for block in blocks_of_content("a")] == ["a"]
    assert blocks_of_content(blocks) == blocks
    assert blocks_of_content({}) == blocks_of_content(None) == []
