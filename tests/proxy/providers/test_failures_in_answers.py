"""Errors in good answers and streams, and the keys that errors quote."""

import orjson
import pytest

from proxy.providers.failures import (
    failure_in,
    failure_of,
    openai_failure,
    redact_answer_keys,
    redact_error_keys,
    redact_keys,
    status_of,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "insufficient_quota", "type": "whatever"}, 429),
        ({"type": "overloaded_error"}, 529),
        ({"code": 429}, 429),
        ({"code": 401, "type": "api_error"}, 500),
        ({"code": 200}, 500),
        ({"code": 600}, 500),
        ({"code": True}, 500),
        ({"code": None, "type": ["odd"]}, 500),
        ({}, 500),
    ],
)
def test_an_error_object_tells_the_status_it_would_have_had(error, status):
    assert status_of(error) == status


def test_a_run_without_an_error_means_no_failure():
    assert failure_in(b"data: {}\n\n: ping\n\ndata: [DONE]\n\n", openai_failure) is None


@pytest.mark.parametrize(
    "event",
    [
        b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}',
        b'{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null}',
        b'{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}',
    ],
)
def test_an_error_event_is_reported_as_its_status_would_be(event):
    failure = failure_in(b"event: x\ndata: " + event + b"\n\n", openai_failure)

    assert failure is not None
    assert (failure.status, failure.code, failure.retryable) == (429, "rate_limit_exceeded", True)


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"response.failed","response":{"error":null}}',
        b'{"type":"response.created","response":{}}',
        b'{"type":"error","code":7}',
    ],
)
def test_an_event_that_says_no_reason_is_no_failure_of_its_own(event):
    assert failure_in(b"data: " + event + b"\n\n", openai_failure) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"id":"chatcmpl-1"}'])
def test_a_body_that_tells_no_error_is_no_failure(body):
    assert failure_of(body, openai_failure) is None


def test_a_body_that_is_an_error_is_reported_as_its_status_would_be():
    failure = failure_of(b'{"message":"bad key sk-abcdef123456","code":400}', openai_failure)

    assert failure is not None
    assert (failure.status, failure.message) == (400, "bad key [redacted]")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'[{"error":{"message":"Invalid JSON payload sk-abcdef123456"}}]', "Invalid JSON payload"),
        (b'{"object":"error","message":"Invalid model: x sk-abcdef123456"}', "Invalid model: x"),
        (b'{"error":"Not with sk-abcdef123456"}', "Not with"),
    ],
)
def test_the_callers_own_mistake_is_told_in_any_envelope_without_its_keys(body, words):
    failure = openai_failure(400, {}, body)

    assert failure.message == f"{words} [redacted]"
    assert failure.type == "invalid_request_error"


def test_a_long_list_of_complaints_is_cut():
    body = orjson.dumps({"detail": [{"loc": ["body"], "msg": "word " * 900}] * 40})

    assert len(openai_failure(422, {}, body).message) == 2_000


def test_bytes_lose_their_keys_and_nothing_else():
    run = b'data: {"error":{"message":"bad key sk-abcdef123456 \xff"}}\n\n'

    assert redact_keys(run) == run.replace(b"sk-abcdef123456", b"[redacted]")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error": {"message":"sk-abcdef123456"}}',
        b'data: {"error":"sk-abcdef123456"}',
        b'data: {"error": true,"message":"sk-abcdef123456"}',
        b'data: {"error":500,"message":"sk-abcdef123456"}',
        b'data: {"type":"error","message":"sk-abcdef123456"}',
        b'data: {"type":"response.failed","response":"sk-abcdef123456"}',
        b"event: error\r\ndata: sk-abcdef123456",
    ],
)
def test_bytes_before_an_error_stay_unmodified(end, error):
    content = b'data: {"error":null,"text":"{\\"error\\":\\"sk-abcdef123456\\"}"}' + end
    run = content + error + end + content
    before, redacted = content, (error + end + content).replace(b"sk-abcdef123456", b"[redacted]")

    assert redact_error_keys(run) == before + redacted
    assert redact_error_keys(error) == error.replace(b"sk-abcdef123456", b"[redacted]")


@pytest.mark.parametrize("body", ['sent "Bearer abc.def" to us', 'use "api_key=hunter22" here'])
def test_an_error_that_quotes_a_key_stays_json_without_it(body):
    event = redact_error_keys(b"data: " + orjson.dumps({"error": {"message": body}}) + b"\n\n")
    error_read = orjson.loads(event.removeprefix(b"data: "))["error"]["message"]

    assert error_read in {'sent "[redacted]" to us', 'use "[redacted]" here'}


def test_a_run_whose_error_is_not_found_loses_all_its_keys():
    assert redact_error_keys(b"data: sk-abcdef123456\n\n") == b"data: [redacted]\n\n"


def test_an_upstreams_message_is_kept_for_the_log_without_its_keys():
    body = b'{"error":{"message":"project proj_1234567890ab lacks access, key sk-abcdef123456"}}'
    failure = openai_failure(403, {}, body)

    assert "lacks access" in failure.detail
    assert "sk-abcdef" not in failure.detail
    assert "lacks access" not in failure.message


@pytest.mark.parametrize(
    ("error", "left"),
    [
        ({"message": 'sent "Bearer abc.def" to us'}, {"message": 'sent "[redacted]" to us'}),
        (
            {"message": "a tab\tg-foobarbaz1 and sk-abcdef123456"},
            {"message": "a tab\tg-foobarbaz1 and [redacted]"},
        ),
        ({"api_key": "hunter22", "n": 1}, {"api_key": "[redacted]", "n": 1}),
        ({"message": "x" * 70_000}, {"message": "[redacted]"}),
        ("sk-abcdef123456", "[redacted]"),
    ],
)
def test_of_an_answer_that_failed_only_the_error_loses_keys_and_stays_json(error, left):
    generated = "basic idea: the key sk-abcdef123456 of " + "0123456789abcdef" * 2
    whole = orjson.dumps({"id": "resp_1", "error": error, "output": [{"text": generated}]})

    error_read = orjson.loads(redact_answer_keys(whole))

    assert error_read == {"id": "resp_1", "error": left, "output": [{"text": generated}]}


def test_an_answer_whose_error_holds_no_key_stays_byte_for_byte():
    whole = b'{ "error" : {"message": "no"} , "id": "a"}'

    assert redact_answer_keys(whole) is whole
    assert redact_answer_keys(b'{"type":"error"}') == b'{"type":"error"}'
