import json
import re
import tomllib
from pathlib import Path

import pytest

from proxy import errors
from proxy.errors import (
    CallerError,
    ProxyError,
    UpstreamError,
    envelope,
    how_to_install,
    messages_envelope,
    messages_status,
)


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


def test_messages_name_extras_that_the_project_has():
    root = Path(errors.__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    sources = "".join(path.read_text() for path in (root / "proxy").rglob("*.py"))
    named = set(re.findall(r"how_to_install\([\"'](.+?)[\"']\)", sources))

    assert named
    assert named <= extras.keys()
    assert how_to_install("local").endswith("pip install 'thriftgate[local]'")
    assert (root / "constraints.txt").exists()


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (CallerError("M.", code="bad"), 400, "invalid_request_error"),
        (CallerError("M.", code="c", status=401), 401, "authentication_error"),
        (CallerError("M.", code="c", status=403), 403, "permission_error"),
        (CallerError("M.", code="c", status=404), 404, "not_found_error"),
        (CallerError("M.", code="c", status=413), 413, "request_too_large"),
        (CallerError("M.", code="c", status=415), 415, "invalid_request_error"),
        (CallerError("M.", code="budget_exceeded", status=429), 429, "rate_limit_error"),
        (errors.Unready("M.", code="too_many_calls"), 529, "overloaded_error"),
        (errors.Unready("M.", code="database_unavailable"), 503, "api_error"),
        (ProxyError("M.", code="internal_error"), 500, "api_error"),
        (
            UpstreamError("M.", status=503, code="upstream_overloaded", retryable=True),
            529,
            "overloaded_error",
        ),
        (UpstreamError("M.", status=504, code="u", retryable=True), 504, "timeout_error"),
    ],
)
def test_an_error_has_anthropics_type_and_status_in_its_envelope(error, status, kind):
    error.details = {"budget": "b", "type": "never this"}
    content = json.loads(messages_envelope(error, "call_1"))

    assert messages_status(error) == status
    assert content == {
        "type": "error",
        "error": {"budget": "b", "type": kind, "message": "M.", "code": error.code},
        "request_id": "call_1",
    }


def test_anthropics_envelope_names_the_parameter_where_there_is_one():
    error = CallerError("M.", code="bad", param="model")

    assert json.loads(messages_envelope(error))["error"]["param"] == "model"
    assert "request_id" not in json.loads(messages_envelope(error))


def test_the_first_error_of_nested_groups_is_found():
    first = errors.OperatorError("away")
    group = BaseExceptionGroup("", [BaseExceptionGroup("", [first, ValueError()]), KeyError()])

    assert errors.first_error(group) is first
    assert errors.first_error(first) is first
