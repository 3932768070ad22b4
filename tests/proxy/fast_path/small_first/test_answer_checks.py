"""A small model's answer is taken only where it passes every check; the first failure is named."""

import time

import orjson
import pytest

from proxy.fast_path.small_first.answer_checks import AnswerCheck, CheckRules, failed_check

ALL = CheckRules()
SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
TOOL = {"name": "find", "parameters": {"type": "object", "required": ["q"]}}


def request(schema=None, tools=()):
    body: dict[str, object] = {"tools": [{"type": "function", "function": tool} for tool in tools]}
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return orjson.dumps(body)


def answer(content=None, finish="stop", call=None, logprobs=None):
    message = {"role": "assistant", "content": content}
    if call is not None:
        message["tool_calls"] = [{"function": {"name": call[0], "arguments": call[1]}}]
    choice = {"message": message, "finish_reason": finish, "logprobs": logprobs}
    return orjson.dumps({"choices": [choice]})


@pytest.mark.parametrize(
    ("asked", "given", "failure"),
    [
        (request(), answer("hello"), ""),
        (request(), answer("hello", finish="length"), "finish: length"),
        (request(), answer("  "), "finish: empty"),
        (request(), b'{"choices": []}', "finish: no choice"),
        (request(), b"{", "answer or request unreadable"),
        (request(SCHEMA), answer('{"city": "Rome"}'), ""),
        (request(SCHEMA), answer('{"town": "Rome"}'), "schema: does not fit"),
        (request(SCHEMA), answer("Rome"), "schema: no JSON"),
        (b'{"response_format": {"type": "json_object"}}', answer("[1]"), "schema: no object"),
        (request(tools=[TOOL]), answer(call=("find", '{"q": 1}')), ""),
        (request(tools=[TOOL]), answer(call=("find", "{}")), "tools: arguments do not fit"),
        (request(tools=[TOOL]), answer(call=("find", "{")), "tools: arguments are no JSON"),
        (request(tools=[TOOL]), answer(call=("delete", "{}")), "tools: no such tool"),
        (request(SCHEMA, [TOOL]), answer(call=("find", '{"q": 1}')), ""),
    ],
)
def test_first_failed_check_is_named(asked, given, failure):
    assert failed_check(ALL, asked, given) == failure


def test_only_chosen_checks_are_made():
    rules = CheckRules(checks=(AnswerCheck.FINISH,))

    assert failed_check(rules, request(SCHEMA), answer("Rome")) == ""


def test_refusal_fails_the_check_of_the_end():
    refused = {"choices": [{"message": {"refusal": "no"}, "finish_reason": "stop"}]}

    assert failed_check(ALL, request(), orjson.dumps(refused)) == "finish: refusal"


def token(lead):
    rivals = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.1 - lead}]
    return {"token": "a", "logprob": -0.1, "top_logprobs": rivals}


@pytest.mark.parametrize(
    ("logprobs", "passes"),
    [({"content": [token(3.0)]}, True), ({"content": [token(0.5)]}, False), (None, False)],
)
def test_answer_must_be_as_certain_as_asked(logprobs, passes):
    failure = failed_check(CheckRules(min_margin=1.0), request(), answer("a", logprobs=logprobs))

    assert (failure == "") is passes


def test_team_pattern_must_be_in_the_text():
    rules = CheckRules(pattern="(yes|no)$")

    assert failed_check(rules, request(), answer("oh yes")) == ""
    assert failed_check(rules, request(), answer("maybe")) == "pattern: not in the text"


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "http://127.0.0.1:9/schema"}, {"type": 3}, {"pattern": "(?=a)b"}],
    ids=["remote reference", "no schema", "pattern that may take for ever"],
)
def test_schema_that_cannot_be_used_fails_the_check(schema):
    assert failed_check(ALL, request(schema), answer("{}")) == "schema: does not fit"


def test_pattern_of_a_caller_takes_time_linear_in_the_text():
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    text = orjson.dumps({"a": "a" * 50_000 + "b"}).decode()
    started = time.process_time()

    assert failed_check(ALL, request(schema), answer(text)) == "schema: does not fit"
    assert time.process_time() - started < 5


def test_answer_that_is_too_large_is_not_checked():
    assert failed_check(ALL, request(), b" " * 300_000) == "answer too large to check"
