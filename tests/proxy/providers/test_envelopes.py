"""The errors in what an upstream sent, in whatever envelope."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.envelopes import envelope_of, error_in, is_answer, is_object, text

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
        ({"detail": [{"msg": str(at)} for at in range(40)]},
         {"message": "0; 1; 2; 3; 4; 5; 6; 7"}),
    ],
)  # fmt: skip
def test_an_error_is_found_in_the_envelope_of_its_server(body, error):
    assert envelope_of(orjson.dumps(body)) == error


@pytest.mark.parametrize("said", [b'"\\ud83d"', b"NaN", b'"\x01"'])
def test_an_error_that_is_only_nearly_json_is_read(said):
    body = b'{"error":{"message":"no","failed_generation":%b}}' % said

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
    ("body", "found"),
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
def test_an_answer_is_known_by_what_only_answers_have(body, found):
    assert is_answer(orjson.dumps(body)) is found


def test_an_unreadable_body_is_no_answer():
    assert not is_answer(b"<html>")


@pytest.mark.parametrize(("value", "words"), [("a", "a"), (7, "7"), (True, ""), (None, "")])
def test_a_name_may_be_a_number(value, words):
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
