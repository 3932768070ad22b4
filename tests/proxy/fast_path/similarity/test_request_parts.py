import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.request_parts import answer_digest, answer_text, split_request

CHAT: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "messages": [
        {"role": "system", "content": "Name the intent."},
        {"role": "user", "content": "where is my card"},
    ],
}


def chat(**changes):
    return {**copy.deepcopy(CHAT), **changes}


def split(body, endpoint="chat/completions"):
    parts = split_request(endpoint, body)
    assert parts is not None
    return parts


def chat_ending_with(content, role="user"):
    return chat(messages=[CHAT["messages"][0], {"role": role, "content": content}])


def test_requests_that_differ_by_their_question_share_a_context():
    assert split(chat_ending_with("where is it")).question == "where is it"
    assert split(chat_ending_with("where is it")).around == split(CHAT).around


@pytest.mark.parametrize(
    "other",
    [
        chat(model="n"),
        chat(temperature=1),
        chat(tools=[{"type": "function"}]),
        chat(messages=[{"role": "system", "content": "Other."}, CHAT["messages"][1]]),
        chat(messages=[CHAT["messages"][1]]),
        chat(messages=[CHAT["messages"][0], {**CHAT["messages"][1], "name": "bob"}]),
    ],
)
def test_any_other_difference_is_another_context(other):
    assert split(other).around != split(CHAT).around


def test_text_block_is_a_question_and_an_image_is_none():
    block = {"type": "text", "text": "where is it"}

    assert split(chat_ending_with([block])).question == "where is it"
    assert (
        split_request("chat/completions", chat_ending_with([block, {"type": "image_url"}])) is None
    )
    assert (
        split_request(
            "chat/completions", chat_ending_with([{**block, "cache_control": {"type": "x"}}])
        )
        is None
    )


def test_last_turn_of_an_assistant_or_tool_is_no_question():
    assert split_request("chat/completions", chat_ending_with("so", role="assistant")) is None
    assert split_request("chat/completions", {"messages": []}) is None
    assert split_request("embeddings", {"input": "text"}) is None


@pytest.mark.parametrize(
    "body", [chat(n=[]), chat(n={}), chat_ending_with([{"type": {}, "text": "where"}])]
)
def test_field_of_another_kind_than_the_api_has_leaves_no_question(body):
    assert split_request("chat/completions", body) is None


def test_stream_or_several_choices_have_no_question():
    assert split_request("chat/completions", chat(stream=True)) is None
    assert split_request("chat/completions", chat(n=2)) is None


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat/completions", b'{"choices":[{"message":{"content":"yes"}}]}'),
        ("messages", b'{"content":[{"type":"text","text":"yes"}]}'),
        (
            "responses",
            b'{"output":[{"type":"reasoning"},{"type":"message","content":[RESPONSE]}]}'.replace(
                b"RESPONSE", b'{"type":"output_text","text":"yes","annotations":[]}'
            ),
        ),
    ],
)
def test_text_of_an_answer_is_read_in_each_api(endpoint, body):
    assert answer_text(endpoint, body) == "yes"


@pytest.mark.parametrize(
    "body",
    [
        b"torn",
        b"{}",
        b"[]",
        b'{"choices":[]}',
        b'{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a"}]}}]}',
        b'{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}',
    ],
)
def test_answer_without_one_plain_text_has_none(body):
    assert answer_text("chat/completions", body) is None


def test_responses_input_may_be_a_text_or_a_list():
    turn = {"role": "user", "content": [{"type": "input_text", "text": "where is it"}]}

    assert split({"input": "where is it"}, "responses").question == "where is it"
    assert split({"input": [turn]}, "responses").question == "where is it"


def test_request_is_not_changed_by_splitting_it():
    body = chat()
    split(body)

    assert body == CHAT


def test_equal_answers_share_a_digest():
    assert answer_digest('{"a": 1, "b": 2}') == answer_digest('{"b":2,"a":1}')
    assert answer_digest("Card  arrival.\n") == answer_digest("card arrival")
    assert answer_digest("card arrival") != answer_digest("card delivery")
    assert answer_digest("1") != answer_digest("2")


@given(st.text())
def test_any_answer_has_a_digest(text):
    assert answer_digest(text) == answer_digest(text)


@given(st.text(), st.text())
def test_answers_of_different_words_have_different_digests(one, other):
    words = [" ".join(text.casefold().split()) for text in (f"x {one} y", f"x {other} y")]

    assert (answer_digest(f"x {one} y") == answer_digest(f"x {other} y")) == (words[0] == words[1])
