"""Tests of what an upstream's error status means for the caller."""

from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError, envelope
from proxy.providers.anthropic.failure import messages_failure
from proxy.providers.failures import (
    openai_failure,
    redact,
    retry_after,
)


def _body(**error: object) -> bytes:
    return orjson.dumps({"error": error})


@pytest.mark.parametrize("status", [400, 404, 405, 409, 410, 413, 415, 418, 422, 424, 429, 451])
def test_an_error_that_the_caller_can_fix_keeps_the_upstreams_message(status: int) -> None:
    body = _body(message="No such tool.", code="bad_tool", param="tools[0]", type="odd_error")
    error = openai_failure(status, {}, body)

    assert (error.status, error.message, error.code, error.param, error.type) == (
        status,
        "No such tool.",
        "bad_tool",
        "tools[0]",
        "odd_error",
    )


@pytest.mark.parametrize(
    ("status", "shown", "code", "retryable"),
    [
        (401, 502, "upstream_unauthorized", True),
        (402, 502, "upstream_unauthorized", True),
        (403, 502, "upstream_unauthorized", True),
        (408, 504, "upstream_timeout", True),
        (500, 502, "upstream_error", True),
        (502, 502, "upstream_error", True),
        (503, 503, "upstream_overloaded", True),
        (504, 504, "upstream_timeout", True),
        (529, 503, "upstream_overloaded", True),
        (407, 502, "upstream_unauthorized", True),
        (302, 502, "upstream_error", False),
        (501, 502, "upstream_error", False),
    ],
)
def test_upstream_failures_are_reported_in_the_gateways_words(
    status: int, shown: int, code: str, *, retryable: bool
) -> None:
    error = openai_failure(status, {}, _body(message="secret inner words", code="x", type="y"))

    assert (error.status, error.code, error.retryable) == (shown, code, retryable)
    assert "inner" not in error.message
    assert error.type == "upstream_error"


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_key_of_ours_that_is_refused_is_worth_another_route_but_no_retry(status: int) -> None:
    error = openai_failure(status, {"retry-after": "3"}, b"")

    assert error.retryable
    assert not error.is_worth_retrying
    assert error.retry_after == 3.0
    assert "tell the gateway's operator" in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"error": {"message": 5.5, "code": true}}',
        b'{"error": {"message": null}}',
        b'{"error": {"message": "' + b"x" * 300_000 + b'"}}',
        b"[" * 5_000,
        b'{"error": {"message": "\xff"}}',
    ],
)
def test_a_body_outside_the_known_envelope_is_never_passed_on(body: bytes) -> None:
    error = openai_failure(400, {}, body)

    assert error.message == "The upstream refused the call with status 400."
    assert error.code == "upstream_refused"
    assert error.type == "invalid_request_error"


@pytest.mark.parametrize("translate", [openai_failure, messages_failure])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"model not loaded: sk-live-123456", "model not loaded: [redacted]"),
        (
            (
                b"<!doctype html><html><head><title>400</title><style>p {}</style></head>"
                b"<body><h1>Bad&nbsp;Request</h1>\r\n<p>prompt &gt; 4096</p><!-- x --></html>"
            ),
            "Bad Request prompt > 4096",
        ),
        (b"<html></html>", "The upstream refused the call with status 400."),
    ],
)
def test_a_refusal_in_html_or_plain_text_keeps_its_words(
    translate: Callable[[int, dict[str, str], bytes], UpstreamError], body: bytes, message: str
) -> None:
    assert translate(400, {}, body).message == message


def test_a_failure_in_html_keeps_none_of_its_words() -> None:
    assert "inner.host" not in openai_failure(500, {}, b"<h1>inner.host is down</h1>").message


@pytest.mark.parametrize("status", [405, 418, 451])
def test_a_status_that_no_table_lists_keeps_anthropics_message(status: int) -> None:
    body = b'{"type":"error","error":{"message":"Not in this country."}}'
    error = messages_failure(status, {}, body)

    assert (error.status, error.message) == (status, "Not in this country.")
    assert (error.type, error.retryable) == ("invalid_request_error", False)


@pytest.mark.parametrize(
    ("status", "given", "code"),
    [
        (400, {"code": 1214}, "1214"),
        (405, {}, "method_not_allowed"),
        (418, {}, "upstream_refused"),
        (429, {}, "rate_limit_exceeded"),
        (451, {"code": "moved"}, "moved"),
    ],
)
def test_a_code_is_the_upstreams_in_digits_too_or_that_of_the_status(
    status: int, given: dict[str, object], code: str
) -> None:
    assert openai_failure(status, {}, _body(message="m", **given)).code == code


_GROQ = {
    "message": "Failed to call a function.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": '{"id": "0123456789abcdef0123456789abcdef"}',
}

_OPENROUTER = {
    "message": "Provider returned error",
    "code": 429,
    "metadata": {"provider_name": "Somewhere", "raw": "upstream is full, key sk-or-v1-abcdef0123"},
}


def test_an_error_keeps_its_further_fields_and_its_null_and_numeric_codes() -> None:
    groq = openai_failure(400, {}, _body(**_GROQ))
    router = openai_failure(429, {}, _body(**_OPENROUTER))
    null = openai_failure(400, {}, _body(message="No.", type=None, param=None, code=None))
    errors = [orjson.loads(envelope(error_read))["error"] for error_read in (groq, router, null)]

    assert errors[0] == {**_GROQ, "param": None}
    assert errors[1]["code"] == 429
    assert errors[1]["metadata"] == {
        "provider_name": "Somewhere",
        "raw": "upstream is full, key [redacted]",
    }
    assert errors[2] == {"message": "No.", "type": None, "param": None, "code": None}
    assert (null.code, router.code) == ("upstream_refused", "429")


@pytest.mark.parametrize("status", [408, 500, 502, 503])
def test_the_further_fields_of_a_server_error_are_kept_beside_our_own_words(status: int) -> None:
    error = openai_failure(status, {}, _body(**_OPENROUTER))

    assert set(error.details) == {"metadata"}
    assert "Provider" not in error.message


@pytest.mark.parametrize("status", [401, 402, 403])
def test_error_about_the_gateways_key_is_not_passed_on(status: int) -> None:
    headers = {"x-ratelimit-limit-requests": "9", "x-should-retry": "true"}
    error = openai_failure(status, headers, _body(**_OPENROUTER))

    assert (error.details, error.headers, error.is_worth_retrying) == ({}, {}, False)


def test_a_403_of_moderation_is_an_error_of_the_call() -> None:
    metadata = {"reasons": ["violence"], "flagged_input": "…"}
    error = openai_failure(403, {}, _body(message="Flagged.", code=403, metadata=metadata))

    assert (error.status, error.message, error.retryable) == (403, "Flagged.", False)
    assert error.details == {"code": 403, "metadata": metadata}


@pytest.mark.parametrize("value", [b'"\\ud800"', b"1" * 40, b"[" * 500 + b"]" * 500])
def test_fields_that_cannot_be_written_again_are_left_out(value: bytes) -> None:
    error = openai_failure(400, {}, b'{"error":{"message":"m","odd":' + value + b"}}")

    assert orjson.loads(envelope(error))["error"]["message"]


@pytest.mark.parametrize(
    ("header", "status", "worth"),
    [("true", 400, True), ("false", 429, False), ("", 429, True), ("odd", 400, False)],
)
def test_the_upstreams_own_word_on_retries_goes_first(
    header: str, status: int, *, worth: bool
) -> None:
    error = openai_failure(status, {"x-should-retry": header}, b"")

    assert error.is_worth_retrying is worth
    assert error.retryable is (status == 429)


def test_the_headers_of_limits_are_kept() -> None:
    limits = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}

    assert openai_failure(429, {**limits, "server": "inner"}, b"").headers == limits


def test_a_date_to_come_back_at_is_kept_where_its_seconds_are_unknown() -> None:
    date = "Wed, 21 Oct 2026 07:28:05 GMT"

    assert openai_failure(429, {"retry-after": date}, b"").headers == {"retry-after": date}
    assert openai_failure(429, {"retry-after": "soon"}, b"").headers == {}


def test_a_long_message_is_cut() -> None:
    assert len(openai_failure(400, {}, _body(message="word " * 5_000)).message) == 2_000


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF123456",
        "sk-ant-api03-abc_DEF-123456",
        "Bearer abc.def",
        "Basic dXNlcjpwYXNz",
        "api_key=hunter22",
        'x-api-key: "hunter22"',
        "AIzaSyA1234567890abcdefghijk",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOi.eyJzdWIi.c2ln",
        "0123456789abcdef0123456789abcdef",
        "sk-proj-********************abcd",
        "org-Q2w3E4r5T6y7U8i9O0pAsDfG",
        "org-QwErTyUiOpAsDfGhJkLzXcVb",
        "proj_Ab1cD2ef3GhI4jKl",
        "req_011CSHoEeqs5C35K2UUqR7Fy",
    ],
)
def test_text_that_looks_like_a_secret_is_left_out(secret: str) -> None:
    redacted = redact(f"Wrong: {secret}, sorry.")

    assert redacted.startswith("Wrong: ")
    assert redacted.endswith(", sorry.")
    assert "[redacted]" in redacted
    assert secret.rsplit(maxsplit=1)[-1].strip(chr(34)) not in redacted


@pytest.mark.parametrize("slashes", ["://", r":\/\/"])
@pytest.mark.parametrize("login", ["user:hunter2", ":hunter2", "user:hunt@er2", "hunter2token"])
def test_the_login_of_a_url_is_left_out(login: str, slashes: str) -> None:
    redacted = redact(f"No route to postgres{slashes}{login}@db.internal/x, sorry.")

    assert redacted == f"No route to postgres{slashes}[redacted]db.internal/x, sorry."


@pytest.mark.parametrize("content_type", ["text/html", "text/plain", "application/json"])
def test_no_refusal_tells_the_login_of_a_url(content_type: str) -> None:
    words = "cannot reach postgres://user:hunter2@db.internal/x"
    body = {
        "text/html": f"<html><body><p>{words}</p></body></html>".encode(),
        "text/plain": words.encode(),
        "application/json": _body(message=words),
    }[content_type]
    error = openai_failure(400, {"content-type": content_type}, body)

    assert "db.internal" in error.message
    assert "hunter2" not in f"{error.message}{error.detail}"


@pytest.mark.parametrize("status", [400, 404, 408, 409, 413, 422, 500, 502, 504])
def test_a_message_that_may_quote_the_call_is_told_apart_from_its_status(status: int) -> None:
    body = _body(message="input_value='my diagnosis'", type="bad my diagnosis", code="bad_input")
    error = openai_failure(status, {}, body)

    assert error.detail_without_message == f"it answered {status} bad_input"
    assert "diagnosis" in error.detail


def test_moderation_may_quote_the_call_and_a_refused_key_does_not() -> None:
    flagged = {"message": "Flagged: my diagnosis", "metadata": {"reasons": ["violence"]}}

    moderated = openai_failure(403, {}, _body(**flagged))
    assert moderated.detail_without_message == "it answered 403"
    for status in (401, 402, 403, 407, 429, 503, 529):
        assert openai_failure(status, {}, _body(message="No.")).detail_without_message == ""


def test_ordinary_words_are_not_redacted() -> None:
    for words in (
        "https://example.com/a/@b and https://example.com:80/?mail=a@b.com, user@host",
        "messages.3: `tool_use` ids were found without `tool_result` blocks: toolu_01A09q90",
        "req_parameters of an org-chart, proj_name: call_0123456789",
    ):
        assert redact(words) == words


_NOW = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT", "date": _NOW}, 5.0),
        ({"retry-after": "Wednesday, 21-Oct-26 07:28:05 GMT", "date": _NOW}, 5.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": _NOW}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:05 -0000", "date": _NOW}, 5.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT", "date": "today"}, None),
        ({"retry-after": "soon", "date": _NOW}, None),
        ({"retry-after": "7", "date": _NOW}, 7.0),
        ({"retry-after-ms": "250", "retry-after": _NOW, "date": _NOW}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_wait_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
    assert openai_failure(429, headers, b"").retry_after == seconds


@given(st.text(), st.text())
def test_any_retry_after_date_gives_seconds_or_none(wait: str, date: str) -> None:
    seconds = retry_after({"retry-after": wait, "date": date})

    assert seconds is None or seconds >= 0.0


_WORDS = st.none() | st.text() | st.integers(0, 9) | st.lists(st.text())

_ERRORS = st.dictionaries(st.sampled_from(["message", "code", "param", "type"]), _WORDS)


@given(st.integers(300, 599), st.binary() | _ERRORS.map(lambda error: _body(**error)))
def test_any_answer_gives_an_error_that_can_be_told(status: int, body: bytes) -> None:
    error = openai_failure(status, {}, body)

    assert isinstance(error, UpstreamError)
    assert 400 <= error.status < 600
    assert error.message
    assert error.code
