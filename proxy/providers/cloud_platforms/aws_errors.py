"""Errors of Amazon Bedrock: by their type, as a status or as a frame within a stream.

============================  ======  =====================
type                          status  Anthropic's type
============================  ======  =====================
ThrottlingException           429     rate_limit_error
ServiceQuotaExceeded…         429     rate_limit_error
ModelNotReadyException        529     overloaded_error
ServiceUnavailableException   529     overloaded_error
ModelTimeoutException         504     timeout_error
ModelErrorException           500     api_error
ModelStreamErrorException     500     api_error
InternalServerException       500     api_error
AccessDeniedException         403     permission_error
ResourceNotFoundException     404     not_found_error
ValidationException           400     invalid_request_error
============================  ======  =====================

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
_STATUSES: Final[Mapping[str, int]] = {
    "throttlingexception": 429,
    "servicequotaexceededexception": 429,
    "modelnotreadyexception": 529,
    "serviceunavailableexception": 529,
    "modeltimeoutexception": 504,
    "modelerrorexception": 500,
    "modelstreamerrorexception": 500,
    "internalserverexception": 500,
    "accessdeniedexception": 403,
    "resourcenotfoundexception": 404,
    "validationexception": 400,
}
_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
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
    return _STATUSES.get(name.lower(), usual)


def anthropic_type(name: str) -> str:
    """Anthropic's type of such an error."""
    return _TYPES.get(status_of_type(name, 500), "api_error")
