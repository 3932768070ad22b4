"""Errors of Amazon Bedrock: by their type, as a status or as a frame within a stream.

Source: AWS, Bedrock runtime, InvokeModel and InvokeModelWithResponseStream, errors (2026-11).
"""

from collections.abc import Mapping
from typing import Final

#: Header with the type of an error; a colon and an address may follow it.
ERROR_TYPE_HEADER: Final = "x-amzn-errortype"
#: Types that say that the credentials are no longer good, and others may be.
EXPIRED_TYPES: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException"}
)
#: Status and Anthropic's type by the type of an error, however that is spelt.
_ERRORS: Final[Mapping[str, tuple[int, str]]] = {
    "throttlingexception": (429, "rate_limit_error"),
    "servicequotaexceededexception": (429, "rate_limit_error"),
    "modelnotreadyexception": (529, "overloaded_error"),
    "serviceunavailableexception": (529, "overloaded_error"),
    "modeltimeoutexception": (504, "timeout_error"),
    "modelerrorexception": (500, "api_error"),
    "modelstreamerrorexception": (500, "api_error"),
    "internalserverexception": (500, "api_error"),
    "accessdeniedexception": (403, "permission_error"),
    "resourcenotfoundexception": (404, "not_found_error"),
    "validationexception": (400, "invalid_request_error"),
}


def error_type(headers: Mapping[str, str]) -> str:
    """The type of the error that an answer's headers name; "" for none.

    Args:
        headers: Names in lower case.
    """
    return headers.get(ERROR_TYPE_HEADER, "").partition(":")[0].strip()


def status_of_type(name: str, usual: int) -> int:
    """The status that an error of this type is taken for, however it is spelt.

    Args:
        name: Such as ``ThrottlingException`` or ``throttlingException``.
        usual: The status where the type is not known.
    """
    return _ERRORS.get(name.lower(), (usual, ""))[0]


def anthropic_type(name: str) -> str:
    """Anthropic's type of such an error."""
    return _ERRORS.get(name.lower(), (500, "api_error"))[1]
