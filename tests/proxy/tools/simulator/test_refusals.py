"""Errors in each provider's envelope."""

import orjson
import pytest

from proxy.tools.simulator import refusals
from proxy.tools.simulator.refusals import provider_refusal


@pytest.mark.parametrize(
    ("status", "openai", "code", "anthropic"),
    [
        (400, "invalid_request_error", None, "invalid_request_error"),
        (401, "invalid_request_error", "invalid_api_key", "authentication_error"),
        (403, "permission_error", None, "permission_error"),
        (404, "invalid_request_error", "model_not_found", "not_found_error"),
        (413, "invalid_request_error", None, "request_too_large"),
        (418, "invalid_request_error", None, "invalid_request_error"),
        (429, "requests", "rate_limit_exceeded", "rate_limit_error"),
        (500, "server_error", None, "api_error"),
        (503, "service_unavailable_error", None, "api_error"),
        (529, "server_error", None, "overloaded_error"),
    ],
)
def test_each_status_has_its_type(status: int, openai: str, code: str, anthropic: str) -> None:
    refusal = refusals.of_status(status)
    there = orjson.loads(refusals.envelope("openai", refusal, "req_1"))
    here = orjson.loads(refusals.envelope("anthropic", refusal, "req_1"))

    assert (there["error"]["type"], there["error"]["code"]) == (openai, code)
    assert set(there["error"]) == {"message", "type", "param", "code"}
    assert here == {
        "type": "error",
        "error": {"type": anthropic, "message": refusal.message},
        "request_id": "req_1",
    }


def test_only_a_429_says_when_to_come_back() -> None:
    assert refusals.of_status(429, 2.5).retry_after == 2.5
    assert refusals.of_status(500, 2.5).retry_after is None


def test_a_spent_quota_names_itself_in_type_and_code() -> None:
    error = refusals.error("openai", refusals.quota())

    assert error["type"] == error["code"] == "insufficient_quota"


def test_a_page_stands_instead_of_the_envelope() -> None:
    assert refusals.envelope("openai", refusals.page(), "req_1").startswith(b"<html>")


def test_a_param_is_named() -> None:
    assert refusals.error("openai", provider_refusal(400, "no", param="n"))["param"] == "n"
