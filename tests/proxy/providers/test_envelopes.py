"""The errors in what an upstream sent, in whatever envelope."""

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.envelopes import (
    envelope_of,
    error_in,
    is_answer,
    is_object,
    refusal_of,
    text,
)

ERROR = {"message": "no such tool", "code": "bad_tool"}
FIELD = {"type": "missing", "loc": ["body", "messages", 0, "role"], "msg": "Field required"}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": ERROR}, ERROR),
        ({"error": ERROR, "message": "besides"}, ERROR),
        ({"type": "error", "error": ERROR}, ERROR),
        ([{"error": ERROR}, {"error": {"message": "another"}}], ERROR),
        ({"error": "no"}, {"message": "no"}),
        ({"error": "no", "type": "validation"}, {"message": "no", "type": "validation"}),
        ({"error": "Bad Request", "status": 400, "message": "no"}, {"message": "no"}),
        ({"message": "no"}, {"message": "no"}),
        (
            {"object": "error", "message": "no", "type": "t", "param": None, "code": 400},
            {"message": "no", "type": "t", "param": None, "code": 400},
        ),
        ({"detail": "no"}, {"message": "no"}),
        ({"detail": [FIELD]}, {"message": "body.messages.0.role: Field required"}),
        (
            {"object": "error", "message": {"detail": [FIELD]}},
            {"message": "body.messages.0.role: Field required"},
        ),
        ({"detail": {"message": "no"}}, {"message": "no"}),
        ({"error": ["no", "nor this"]}, {"message": "no; nor this"}),
        ({"detail": [{"msg": "no"}, {"msg": 7}, 7, FIELD | {"loc": []}]},
         {"message": "no; Field required"}),
        ({"detail": [{"msg": str(number)} for number in range(40)]},
         {"message": "0; 1; 2; 3; 4; 5; 6; 7"}),
    ],
)  # fmt: skip
def test_an_error_is_found_in_the_envelope_of_its_server(body, error):
    assert envelope_of(orjson.dumps(body)) == error


@pytest.mark.parametrize("generated", [b'"\\ud83d"', b"NaN", b'"\x01"'])
def test_an_error_that_is_only_nearly_json_is_read(generated):
    body = b'{"error":{"message":"no","failed_generation":%b}}' % generated

    assert envelope_of(body)["message"] == "no"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"[[]]",
        b"{}",
        b'"no"',
        b'{"error":null}',
        b'{"error":{}}',
        b'{"error":true,"code":"x"}',
        b'{"detail":[]}',
        b'{"message":{"message":{"message":"deep"}}}',
        b'{"message":"\xff"}',
        b"[" * 5_000,
        b'{"message":"' + b"x" * 300_000 + b'"}',
    ],
)
def test_a_body_without_an_error_has_none(body):
    assert envelope_of(body) == {}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"error": ERROR}, ERROR),
        ({"error": "no"}, {"message": "no"}),
        ({"type": "error", "code": "x", "message": "no", "param": None},
         {"code": "x", "message": "no", "param": None}),
        ({"type": "response.failed", "response": {"error": ERROR}}, ERROR),
        ({"message": "no"}, {}),
        ({"choices": []}, {}),
        ([{"error": ERROR}], {}),
    ],
)  # fmt: skip
def test_an_event_is_an_error_only_where_its_stream_says_so(event, error):
    assert error_in(orjson.dumps(event)) == error


@pytest.mark.parametrize(
    ("body", "is_known"),
    [
        ({"choices": [{}]}, True),
        ({"data": [{}]}, True),
        ({"content": [{}]}, True),
        ({"output": []}, True),
        ({"choices": [{}], "error": ERROR}, True),
        ({"choices": [], "error": ERROR}, False),
        ({"object": "list", "data": []}, False),
        ({"choices": "no"}, False),
        ({}, False),
        ([], False),
    ],
)
def test_an_answer_is_known_by_what_only_answers_have(body, is_known):
    assert is_answer(orjson.dumps(body)) is is_known


def test_an_unreadable_body_is_no_answer():
    assert not is_answer(b"<html>")


@pytest.mark.parametrize(("value", "words"), [("a", "a"), (7, "7"), (True, ""), (None, "")])
def test_an_upstreams_error_code_may_be_a_number(value, words):
    assert text(value) == words


@pytest.mark.slow
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["error", "message", "detail", "loc", "msg", "type"]), inner
    ),
))  # fmt: skip
def test_anything_has_an_error_object_or_none(body):
    error = envelope_of(orjson.dumps(body))

    assert isinstance(error, dict)


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [
        (b'{"data":[{"b64_json":"aa"}]}\n', True),
        (b"{}", True),
        (b'{"data":[{}', False),
        (b'{"a":1}}', False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_an_object_is_told_from_one_that_was_broken_off(body, is_whole):
    assert is_object(body) is is_whole


@pytest.mark.parametrize(
    "piece",
    [
        "<!--", "<script ", "<style>", "<head>", "<body ", "</head ", "<head></head ", "<", "<a",
        "<a>", "</script", "<script></script ", "<script>\n", "&#1", "&amp", "1", "a ", "&#111111",
    ],
)  # fmt: skip
@pytest.mark.parametrize("start", ["", "<!--", "<script>", "<head>", "&#"])
def test_refusal_of_any_text_costs_little_processor_time(start: str, piece: str) -> None:
    body = (start + piece * (256 * 1024 // len(piece)))[: 256 * 1024].encode()
    begun = time.thread_time()
    refusal_of(body)

    assert time.thread_time() - begun < 0.25


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"no <!-- hidden", "no"),
        (b"no<script>hidden", "no"),
        (b"<html><head><title>hidden<body class=x><p>no", "no"),
        (b"<style>hidden</STYLE >no", "no"),
        (b"prompt < 4096 tokens", "prompt < 4096 tokens"),
        (b"<header>no</header>", "no"),
        (b"no &#" + b"1" * 5000 + b"; more", "no \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_refusal_in_a_page_without_its_ends_keeps_its_words(body: bytes, words: str) -> None:
    assert refusal_of(body) == {"message": words}
