"""Answers of every API, whole and streamed."""

import orjson
import pytest

from proxy.tools.replay.logs.answers import UNKNOWN_FORM, read_answer

CALL = {"type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
STREAM = (
    'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
    'data: {"choices": [{"delta": {"content": "lo"}}]}\n\ndata: [DONE]\n'
)
COMPLETED = (
    'data: {"type": "response.completed",'
    ' "response": {"output": [{"content": [{"text": "Hello"}]}]}}\n\n'
)
TEXT = [{"type": "output_text", "text": "Hello"}]


@pytest.mark.parametrize(
    "value",
    [
        {"choices": [{"message": {"role": "assistant", "content": "Hello"}}]},
        {"choices": [{"text": "Hello"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"output": [{"type": "reasoning"}, {"type": "message", "content": TEXT}]},
        {"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]},
        {"role": "assistant", "content": "Hello"},
        {"message": {"content": "Hello"}},
        {"response": {"body": {"choices": [{"message": {"content": "Hello"}}]}}},
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        [{"type": "text", "text": "Hello"}],
        "Hello",
        '{"role": "assistant", "content": "Hello"}',
        STREAM,
        'event: content_block_delta\ndata: {"delta": {"type": "text_delta", "text": "Hello"}}\n\n',
        COMPLETED,
    ],
)
def test_the_text_of_an_answer_is_found_in_every_form(value: object):
    answer = read_answer(value)

    assert answer.problem == ""
    assert orjson.loads(answer.reply)["content"] == "Hello"


@pytest.mark.parametrize(
    "value",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [CALL]}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]},
        {"output": [{"type": "function_call", "name": "f", "arguments": '{"a":1}'}]},
        {"role": "assistant", "tool_calls": [{"function": "f", "args": {"a": 1}}]},
    ],
)
def test_a_call_of_a_tool_is_found_in_every_form(value: object):
    (call,) = orjson.loads(read_answer(value).reply)["tool_calls"]

    assert call["function"] == CALL["function"]


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ({"choices": [{"message": {}}], "usage": {"completion_tokens": 7}}, 7),
        ({"content": [], "usage": {"output_tokens": 8}}, 8),
        ('data: {"choices": [], "usage": {"completion_tokens": 9}}\n', 9),
        ('data: {"type": "message_delta", "usage": {"output_tokens": 5}}\n', 5),
        ("Hello", None),
    ],
)
def test_the_usage_of_an_answer_is_its_length(value: object, tokens: int | None):
    assert read_answer(value).generated == tokens


@pytest.mark.parametrize("value", [5, True, {"odd": 1}, [5], {"choices": [{}]}, {"output": "x"}])
def test_an_answer_of_an_unknown_form_says_so(value: object):
    assert read_answer(value).problem == UNKNOWN_FORM


def test_a_stream_that_says_nothing_cannot_be_read():
    assert read_answer("data: [DONE]\n").problem == "its stream holds no text and no usage"


@pytest.mark.parametrize("value", [None, "", {}, []])
def test_a_missing_answer_is_no_problem_and_no_answer(value: object):
    answer = read_answer(value)

    assert (answer.problem, answer.reply, answer.generated) == ("", b"null", None)


@pytest.mark.parametrize(
    ("value", "ending"),
    [
        ({"choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}]}, "length"),
        ({"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}, "end_turn"),
        ({"output": [], "status": "incomplete"}, "incomplete"),
        (
            (
                'data: {"choices":[{"delta":{"content":"Hi"}}]}\n'
                'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}'
            ),
            "stop",
        ),
        ("Hi", ""),
    ],
)
def test_the_ending_of_an_answer_is_found_in_every_form(value: object, ending: str):
    assert read_answer(value).ending == ending
