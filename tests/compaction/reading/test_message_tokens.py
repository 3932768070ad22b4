import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message_tokens import message_tokens
from proxy.tokens.weight import part_tokens as proxys

FILE_TOKENS = 1_500
IMAGE_TOKENS = 765
LOW_DETAIL_IMAGE_TOKENS = 85
MESSAGE_TOKENS = 3

PIXEL = "data:image/png;base64,AAAA"
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def words(text):
    return len(text.split())


def part(**content_part):
    return {"role": "user", "content": [{"type": "text", "text": "look"}, content_part]}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hello", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "done", "name": "f"},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"input": "x"}}]},
        part(type="image_url", image_url={"url": PIXEL}),
        part(type="image_url", image_url={"url": PIXEL, "detail": "low"}),
        part(type="input_image", image_url=PIXEL, detail="low"),
        part(type="file", file={"file_data": "AAAA"}),
        part(type=["odd"], text="words"),
    ],
)
def test_a_message_weighs_what_the_gateway_says(message):
    assert message_tokens(message, words) == MESSAGE_TOKENS + proxys(message, words)


def test_pictures_and_files_weigh_what_they_are_taken_for():
    alone = message_tokens({"role": "user", "content": [{"type": "text", "text": "look"}]}, len)

    weights = [
        message_tokens(part(**content_part), len) - alone
        for content_part in (
            {"type": "image_url", "image_url": {"url": PIXEL}},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            {"type": "file", "file": {"file_data": PIXEL * 1_000}},
        )
    ]

    assert weights == [IMAGE_TOKENS, LOW_DETAIL_IMAGE_TOKENS, FILE_TOKENS]


def test_open_thoughts_of_a_message_count_as_tokens():
    assert message_tokens({"role": "assistant", "reasoning_content": "so"}, len) == 4 + 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["content", "text", "type", "name"]), inner)
        ),
        max_leaves=20,
    )
)
def test_any_message_content_has_tokens(content):
    assert message_tokens({"role": "user", "content": content}, len) >= 3


def test_text_that_stands_too_deep_is_not_weighed():
    deep: object = "text"
    for _ in range(40):
        deep = [deep]

    assert message_tokens({"role": "user", "content": deep}, len) == 4


def test_text_is_weighed_sixteen_levels_deep():
    deep: object = "text"
    for _ in range(16):
        deep = [deep]

    assert message_tokens({"role": "user", "content": deep}, len) == 4 + 4
    assert message_tokens({"role": "user", "content": [deep]}, len) == 4


def test_a_name_is_one_token_beside_its_words_and_a_call_seven():
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}

    assert message_tokens({"role": "user", "content": "hello", "name": "Ann"}, words) == 4 + 1 + 2
    assert message_tokens(calling, words) == 4 + 7 + 1 + 2
