"""Errors of the Messages API."""

from typing import Any

import orjson
import pytest

from proxy.errors import messages_envelope
from proxy.providers.anthropic.failure import messages_failure, stream_failure


def _body(kind: object, message: object = "words") -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("status", "kind", "shown", "code", "retryable"),
    [
        (400, "invalid_request_error", 400, "invalid_request", False),
        (401, "authentication_error", 502, "upstream_unauthorized", True),
        (402, "billing_error", 502, "upstream_unauthorized", True),
        (403, "permission_error", 502, "upstream_unauthorized", True),
        (404, "not_found_error", 404, "not_found", False),
        (409, "conflict_error", 409, "conflict", True),
        (413, "request_too_large", 413, "request_too_large", False),
        (429, "rate_limit_error", 429, "rate_limit_exceeded", True),
        (500, "api_error", 502, "upstream_error", True),
        (504, "timeout_error", 504, "upstream_timeout", True),
        (529, "overloaded_error", 503, "upstream_overloaded", True),
    ],
)
def test_an_anthropic_error_means_the_same_as_status_and_as_event(
    status: int, kind: str, shown: int, code: str, *, retryable: bool
) -> None:
    answered = messages_failure(status, {}, _body(kind))
    streamed = stream_failure({"type": kind, "message": "words"})

    assert (answered.status, answered.code, answered.retryable) == (shown, code, retryable)
    assert (streamed.status, streamed.code, streamed.message) == (shown, code, answered.message)


def test_the_caller_is_told_what_it_can_fix_in_openais_type() -> None:
    error = messages_failure(400, {}, _body("invalid_request_error", "messages: too odd"))

    assert (error.message, error.type) == ("messages: too odd", "invalid_request_error")


def test_the_wait_is_passed_on() -> None:
    assert messages_failure(429, {"retry-after": "12"}, b"").retry_after == 12


def test_an_empty_account_of_ours_is_not_told_as_the_callers_fault() -> None:
    words = "Your credit balance is too low to access the Anthropic API."
    error = messages_failure(400, {}, _body("invalid_request_error", words))

    assert (error.status, error.code) == (502, "upstream_unauthorized")
    assert "credit" not in error.message


@pytest.mark.parametrize("error", [{}, {"type": 5}, {"type": "new_error", "message": ["x"]}])
def test_an_event_of_an_unknown_kind_is_the_upstreams_failure(error: dict[str, Any]) -> None:
    assert stream_failure(error).status == 502


def test_a_body_in_another_shape_is_not_passed_on() -> None:
    assert "html" not in messages_failure(400, {}, b"<html>").message
    assert messages_failure(400, {}, _body(5, 5)).code == "upstream_refused"


def test_details_by_which_the_sdk_goes_on_reach_the_caller() -> None:
    details = {"error_code": "thread_not_found"}
    error = {"type": "not_found_error", "message": "No thread.", "details": details}
    error_found = messages_failure(404, {}, orjson.dumps({"type": "error", "error": error}))

    assert orjson.loads(messages_envelope(error_found))["error"]["details"] == details
    ours = messages_failure(401, {}, orjson.dumps({"error": error}))
    assert "details" not in ours.details
