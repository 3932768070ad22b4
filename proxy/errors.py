"""Errors of a call, split by who can fix them.

::

    ProxyError                  carries status, code, type, param; its message is for the caller
     ├─ CallerError             4xx: the caller fixes it
     ├─ ClientDisconnected      the caller left: nothing to fix (proxy.calls.deadlines)
     ├─ UpstreamError           what an upstream answered or failed to; `retryable` elsewhere
     └─ Unready                 503 we cannot take calls just now
    OperatorError               the operator, or a command's user, fixes it; no call is involved
    InvalidFile                 the same of a TOML file: each problem with line and fix (slo.toml)
    StoreError                  the database or the shared counters do not answer (proxy.store)
    Unplannable                 a body that planning leaves unmodified (proxy.prefix)
    CannotCompactError          a conversation that compaction leaves unmodified (compaction)

Anything else is our own bug: a bare 500, and a traceback in the log. A class that is raised and
caught within one module is private to it.
A message says what was wrong and how to fix it; it never holds a secret or an upstream's raw body.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

#: Seconds that a client may wait by itself before it tries again.
_MAX_CLIENT_WAIT_S: Final = 60.0


class ProxyError(Exception):
    """A failure that the caller may see.

    Attributes:
        details: Further facts for programs, as JSON values.
        headers: Further headers of the answer, names in lower case.
        leaves_upstream_running: True if it ends an attempt that the upstream may go on with.
        stream_ending: Last bytes of the stream that it ends, error event included; b"" where the
            error event of the caller's API is all.
    """

    status: int = 500
    type: str = "api_error"
    details: Mapping[str, Any] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    leaves_upstream_running: bool = False
    stream_ending: bytes = b""

    @property
    def is_worth_retrying(self) -> bool:
        """True if the very same call may succeed a little later."""
        return self.status >= 500

    def __init__(
        self,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after


class CallerError(ProxyError):
    """An error that the caller can fix.

    ======  ===========================================  =====================
    status  when                                         type
    ======  ===========================================  =====================
    400     the body or a parameter is wrong             invalid_request_error
    401     no key, one unknown, revoked or expired      invalid_request_error
    403     a good key that may not do this              permission_error
    404     no such model, call or path                  invalid_request_error
    405     another method than the path takes           invalid_request_error
    413     the body is over the limit                   invalid_request_error
    415     the body is of a kind we do not read         invalid_request_error
    426     another protocol than HTTP is asked for      invalid_request_error
    429     over a budget or ceiling, or load is shed    rate_limit_error
    ======  ===========================================  =====================
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int = 400,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param, retry_after=retry_after)
        self.status = status
        self.type = _CALLER_TYPES.get(status, "invalid_request_error")

    @property
    def is_worth_retrying(self) -> bool:
        """True if the very same call may succeed within a minute."""
        return self.retry_after is not None and self.retry_after <= _MAX_CLIENT_WAIT_S


class Unready(ProxyError):
    """We cannot take calls just now."""

    status = 503
    type = "service_unavailable_error"


class UpstreamError(ProxyError):
    """An upstream answered with an error, or did not answer.

    Attributes:
        status: The status for the caller, already mapped from the upstream's.
        retryable: True if the same call may succeed elsewhere or a little later.
        should_retry: Value of the upstream's ``x-should-retry`` for the same call there, or False
            where only the operator can fix it; None where nothing is said.
        detail: Message of the upstream or the system, for the gateway's operator: it goes to the
            log and never to the caller.
        detail_without_message: ``detail`` without the upstream's message, which may quote the call;
            "" where it cannot.
        received: Bytes received of an answer that was to be read whole when its connection broke.
        is_billed: True if a good answer came of which not even the head could be read.
        was_stale: True if a kept connection had been closed: its upstream did not read the request,
            and the same may be sent again at once.
        untranslatable: Part of the call that cannot be said to a substitute model, to which it was
            not sent, as a header takes it; "" where it was sent.
    """

    detail = ""
    detail_without_message = ""
    is_billed = False
    was_stale = False
    untranslatable = ""
    received = b""
    should_retry: bool | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        retryable: bool,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param, retry_after=retry_after)
        self.status = status
        usual = "invalid_request_error" if 400 <= status < 500 else "upstream_error"
        self.type = _TYPES.get(status, usual)
        self.retryable = retryable

    def name_upstream(self, upstream: str) -> None:
        """Say whose failure it is, where the words are the gateway's own.

        Args:
            upstream: The upstream's name in the catalog.
        """
        if self.status >= 500 and "upstream" not in self.details:
            if f" {upstream}" not in self.message:
                self.message = f"{self.message} (upstream: {upstream})"
                self.args = (self.message,)
            self.details = {**self.details, "upstream": upstream}

    @property
    def is_worth_retrying(self) -> bool:
        """True if the very same call may succeed later; what the upstream says goes first."""
        return self.retryable if self.should_retry is None else self.should_retry


class OperatorError(Exception):
    """Input of an operator to the gateway or a command cannot be used; the message says why."""


#: Types of Anthropic's errors by status; other 4xx are invalid requests, other 5xx API errors.
#: Source: Anthropic API, errors (2026-11).
_MESSAGES_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
#: Anthropic's status of an overload, at which its clients wait and try again.
_OVERLOADED: Final = 529
#: Codes of refusals for want of room, here or at the upstream.
_OVERLOAD_CODES: Final = frozenset(
    {"too_many_bytes", "too_many_calls", "too_many_connections", "upstream_overloaded"}
)
_CALLER_TYPES = {403: "permission_error", 429: "rate_limit_error"}
_TYPES = {409: "conflict_error", 429: "rate_limit_error"}


def how_to_install(extra: str) -> str:
    """A clause that tells how to install an extra of ours, from a checkout or a wheel."""
    return f"run pip install 'thriftgate[{extra}]'"


def first_error(error: BaseException) -> BaseException:
    """The first error of a group, however deep."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def envelope(error: ProxyError) -> bytes:
    """The error as OpenAI's envelope, in JSON.

    Source: OpenAI API reference, error object (2026-11).
    """
    return orjson.dumps(
        {
            "error": {
                "message": error.message,
                "type": error.type,
                "param": error.param,
                "code": error.code,
                **error.details,
            }
        }
    )


def messages_status(error: ProxyError) -> int:
    """The status of an error for a caller of Anthropic's API."""
    return _OVERLOADED if error.code in _OVERLOAD_CODES else error.status


def messages_envelope(error: ProxyError, request_id: str = "") -> bytes:
    """The error in Anthropic's envelope, in JSON; the code and its details stand beside its type.

    Args:
        request_id: Names the request in the log; "" leaves it out.

    Source: Anthropic API, errors (2026-11).
    """
    status = messages_status(error)
    usual = "invalid_request_error" if status < 500 else "api_error"
    body: dict[str, Any] = {
        "type": "error",
        "error": {
            **error.details,
            "type": _MESSAGES_TYPES.get(status, usual),
            "message": error.message,
            "code": error.code,
        },
    }
    if error.param is not None:
        body["error"]["param"] = error.param
    return orjson.dumps(body | ({"request_id": request_id} if request_id else {}))
