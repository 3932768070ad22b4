import json

import pytest

from proxy import errors
from proxy.errors import CallerError, ProxyError, UpstreamError, envelope


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "invalid_request_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (413, "invalid_request_error"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
    ],
)
def test_an_error_that_the_caller_must_fix_is_typed_by_its_status_and_not_retried(status, kind):
    error = CallerError("Mend it.", code="bad", status=status, param="model")

    assert (error.status, error.type, error.is_worth_retrying) == (status, kind, False)
    assert str(error) == "Mend it."


@pytest.mark.parametrize(("wait", "is_worth_it"), [(0.5, True), (60.0, True), (61.0, False)])
def test_a_refusal_is_worth_retrying_where_the_wait_is_a_minute_at_most(wait, is_worth_it):
    error = CallerError("Wait.", code="full", status=429, retry_after=wait)

    assert error.is_worth_retrying is is_worth_it


def test_an_error_of_the_gateway_is_worth_retrying():
    assert errors.Unready("Full.", code="full").is_worth_retrying
    assert ProxyError("Oops.", code="internal_error").is_worth_retrying


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (409, "conflict_error"),
        (429, "rate_limit_error"),
        (502, "upstream_error"),
    ],
)
@pytest.mark.parametrize("retryable", [True, False])
def test_an_upstream_error_is_typed_by_its_status(status, kind, retryable):
    error = UpstreamError("No.", status=status, code="c", retryable=retryable, retry_after=2.0)

    assert (error.status, error.type, error.retry_after) == (status, kind, 2.0)
    assert error.is_worth_retrying is retryable


def test_an_envelope_holds_what_openai_clients_read():
    error = CallerError('Send "model".', code="missing_model", param="model")

    assert json.loads(envelope(error)) == {
        "error": {
            "message": 'Send "model".',
            "type": "invalid_request_error",
            "param": "model",
            "code": "missing_model",
        }
    }
