"""Errors of the Messages API, as a status or as an event within a stream.

Source: Anthropic, errors (2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

from proxy.errors import UpstreamError
from proxy.providers.envelopes import refusal_of
from proxy.providers.failures import failure, status_of

#: Their names in the caller's API; others keep the code of their status.
_CODES: Final[Mapping[str, str]] = {"invalid_request_error": "invalid_request"}

#: An empty account is told as an invalid request, though it is not the caller's.
_EMPTY_ACCOUNT: Final = "credit balance"


def messages_failure(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """Translate an answer with an error status into the caller's error."""
    return _failure(status, headers, refusal_of(body))


def stream_failure(error: Mapping[str, Any]) -> UpstreamError:
    """Translate an ``error`` event into the caller's error."""
    return _failure(status_of(error), {}, error)


def _failure(status: int, headers: Mapping[str, str], error: Mapping[str, Any]) -> UpstreamError:
    message, kind = error.get("message"), error.get("type")
    words = message if isinstance(message, str) else ""
    if status == 400 and _EMPTY_ACCOUNT in words:
        return failure(402, headers, {"message": words})
    code = _CODES.get(kind, "") if isinstance(kind, str) else ""
    translated = failure(status, headers, {"message": words, "code": code})
    details = error.get("details")
    if isinstance(details, Mapping) and translated.status == status:
        translated.details = {"details": details}
    return translated
