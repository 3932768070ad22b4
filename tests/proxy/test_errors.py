import json

import pytest

from proxy import errors
from proxy.errors import ProxyError, UpstreamError, envelope


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.InvalidCall, 400),
        (errors.Unauthenticated, 401),
        (errors.Forbidden, 403),
        (errors.NotFound, 404),
        (errors.TooLarge, 413),
        (errors.UnsupportedMedia, 415),
    ],
)
def test_what_the_caller_must_fix_has_its_status_and_is_not_retried(kind, status):
    error = kind("Mend it.", code="bad", param="model")

    assert isinstance(error, errors.CallerError)
    assert (error.status, error.is_worth_retrying) == (status, False)
    assert str(error) == "Mend it."


def test_what_is_ours_is_worth_retrying():
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
def test_what_an_upstream_did_is_typed_by_its_status(status, kind, retryable):
    error = UpstreamError("No.", status=status, code="c", retryable=retryable, retry_after=2.0)

    assert (error.status, error.type, error.retry_after) == (status, kind, 2.0)
    assert error.is_worth_retrying is retryable


def test_an_envelope_holds_what_openai_clients_read():
    error = errors.InvalidCall('Send "model".', code="missing_model", param="model")

    assert json.loads(envelope(error)) == {
        "error": {
            "message": 'Send "model".',
            "type": "invalid_request_error",
            "param": "model",
            "code": "missing_model",
        }
    }
