"""Tests of what callers read of answers: text, first content, tokens, cost, and what is wrong."""

import json
from itertools import count

import pytest

from tests.load.answers import read_stream, read_whole


def line(event: object) -> bytes:
    return b"data: " + json.dumps(event).encode()


HELLO = [
    line({"choices": [{"delta": {"role": "assistant"}}]}),
    line({"choices": [{"delta": {"content": "Hel"}}]}),
    line({"choices": [{"delta": {"content": "lo"}}]}),
    line({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
    b': thriftgate {"x-thriftgate-cost-usd":"0.000012"}',
    b"data: [DONE]",
]
RESPONSE = [
    line({"type": "response.created", "response": {"usage": None}}),
    line({"type": "response.output_text.delta", "delta": "Hello"}),
    line({"type": "response.incomplete", "response": {"usage": {"input_tokens": 3}}}),
]


def read(lines: list[bytes], leaves_after: int = 0):
    ticks = count(1)
    return read_stream(lines, lambda: float(next(ticks)), leaves_after)


def test_a_stream_is_read_to_its_end():
    outcome = read(HELLO)

    assert (outcome.text, outcome.ttft, outcome.error) == ("Hello", 1.0, "")
    assert (outcome.tokens, outcome.cost) == (9, 0.000012)


def test_a_stream_of_a_response_is_read_to_its_end():
    outcome = read(RESPONSE)

    assert (outcome.text, outcome.tokens, outcome.error) == ("Hello", 3, "")


def test_a_caller_leaves_after_its_first_events():
    outcome = read(HELLO, leaves_after=1)

    assert (outcome.text, outcome.error, outcome.cost) == ("Hel", "", None)


@pytest.mark.parametrize("lines", [HELLO[:-1], HELLO[:2], []])
def test_a_stream_without_its_end_is_an_error(lines):
    assert read(lines).error == "the stream ended too soon"


def test_an_error_in_a_stream_is_one():
    assert "no more" in read([*HELLO[:2], line({"error": {"message": "no more"}})]).error


def test_a_whole_answer_of_either_api_is_read():
    chat = {"choices": [{"message": {"content": "Hi"}}], "usage": {"prompt_tokens": 4}}
    response = {"output": [{"content": [{"type": "output_text", "text": "Hi"}]}]}

    assert read_whole(json.dumps(chat).encode(), "0.5").cost == 0.5
    assert read_whole(json.dumps(chat).encode(), "").tokens == 4
    assert read_whole(json.dumps(response).encode(), "").text == "Hi"
    assert read_whole(b"<html>", "").error == "the answer is no JSON"
