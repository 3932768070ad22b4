"""Errors as each provider sends them: what reads a body raises one where the provider refuses.

Source: OpenAI and Anthropic API references, errors (2026-11).
"""

from collections.abc import Mapping
from typing import Final

import orjson

from proxy.errors import UpstreamError
from proxy.tools.simulator.models import WireName

#: The code of a refusal that is a page of HTML, as a proxy before the provider sends.
HTML_PAGE: Final = "html_page"

_MESSAGES: Mapping[int, str] = {
    400: "The simulated provider finds the request invalid.",
    401: "The simulated provider does not know this key.",
    402: "The simulated account cannot pay.",
    403: "This key may not use this simulated model.",
    404: "There is no such simulated model.",
    408: "The simulated provider waited too long for the request.",
    409: "The simulated provider is busy with the same request.",
    413: "The request is larger than the simulated provider takes.",
    422: "The simulated provider cannot process the request.",
    429: "The simulated rate limit is reached.",
    500: "The simulated provider had an error.",
    502: "The simulated provider cannot be reached.",
    503: "The simulated provider is overloaded.",
    504: "The simulated provider took too long.",
    529: "Overloaded (simulated).",
}
_OPENAI_TYPES: Mapping[int, str] = {
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "requests",
    500: "server_error",
    503: "service_unavailable_error",
}
_OPENAI_CODES: Mapping[int, str] = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
}
_ANTHROPIC_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_PAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body>simulated</body></html>"


def provider_refusal(
    status: int,
    message: str,
    *,
    code: str = "",
    param: str | None = None,
    retry_after: float | None = None,
) -> UpstreamError:
    """The error that the simulated provider answers with.

    Args:
        retry_after: Seconds to wait; None says nothing about it.
    """
    return UpstreamError(
        message,
        status=status,
        code=code,
        retryable=status >= 500,
        param=param,
        retry_after=retry_after,
    )


def of_status(status: int, retry_after: float = 1.0) -> UpstreamError:
    """The usual refusal with that status; a 429 says when to come back."""
    message = _MESSAGES.get(status, f"The simulated provider answers {status}.")
    code = _OPENAI_CODES.get(status, "")
    return provider_refusal(
        status, message, code=code, retry_after=retry_after if status == 429 else None
    )


def quota() -> UpstreamError:
    """A 429 that no retry mends."""
    return provider_refusal(429, "The simulated quota is spent.", code="insufficient_quota")


def page() -> UpstreamError:
    """A bad gateway that answers in HTML."""
    return provider_refusal(502, "Bad Gateway", code=HTML_PAGE)


def error(wire: WireName, refusal: UpstreamError) -> dict[str, object]:
    """The error object inside the envelope."""
    if wire == "anthropic":
        fallback = "api_error" if refusal.status >= 500 else "invalid_request_error"
        return {
            **refusal.details,
            "type": _ANTHROPIC_TYPES.get(refusal.status, fallback),
            "message": refusal.message,
        }
    fallback = "server_error" if refusal.status >= 500 else "invalid_request_error"
    kind = _OPENAI_TYPES.get(refusal.status, fallback)
    return {
        "message": refusal.message,
        "type": refusal.code if refusal.code == "insufficient_quota" else kind,
        "param": refusal.param,
        "code": refusal.code or None,
    }


def envelope(wire: WireName, refusal: UpstreamError, request_id: str) -> bytes:
    """The body of the error answer."""
    if refusal.code == HTML_PAGE:
        return _PAGE
    if wire == "anthropic":
        body = {"type": "error", "error": error(wire, refusal), "request_id": request_id}
        return orjson.dumps(body)
    return orjson.dumps({"error": error(wire, refusal)})
