import pytest

from proxy.providers.cloud_platforms.aws_errors import anthropic_type, error_type, status_of_type


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("ThrottlingException", "ThrottlingException"),
        ("ThrottlingException:http://internal.amazon.com/coral/", "ThrottlingException"),
        ("", ""),
    ],
)
def test_the_type_of_an_error_stands_before_the_colon(header, name):
    assert error_type({"x-amzn-errortype": header}) == name


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("ThrottlingException", 429, "rate_limit_error"),
        ("throttlingException", 429, "rate_limit_error"),
        ("ServiceQuotaExceededException", 429, "rate_limit_error"),
        ("modelStreamErrorException", 500, "api_error"),
        ("ModelErrorException", 500, "api_error"),
        ("ModelTimeoutException", 504, "timeout_error"),
        ("ServiceUnavailableException", 529, "overloaded_error"),
        ("ModelNotReadyException", 529, "overloaded_error"),
        ("validationException", 400, "invalid_request_error"),
        ("AccessDeniedException", 403, "permission_error"),
        ("NobodyKnowsException", 418, "api_error"),
    ],
)
def test_each_type_has_a_status_and_a_type_of_anthropics(name, status, kind):
    assert (status_of_type(name, 418), anthropic_type(name)) == (status, kind)
