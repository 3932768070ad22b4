"""Translates an upstream's error status into the caller's error; shared by the wires.

=================  ======  =====================  =========
upstream           caller  code                   retryable
=================  ======  =====================  =========
409 429            same    the upstream's own     yes
401 402 403 407    502     upstream_unauthorized  elsewhere
408                504     upstream_timeout       yes
other 4xx          same    the upstream's own     no
500 502            502     upstream_error         yes
503 529            503     upstream_overloaded    yes
504                504     upstream_timeout       yes
anything else      502     upstream_error         no
=================  ======  =====================  =========

Elsewhere is on another route alone: what only the gateway's operator can fix is not worth a
caller's own retry.

An upstream's words are passed on only where the caller can fix the call with them: from the known
envelopes, and from HTML or plain text as text. The further fields of an OpenAI-type error object
(Groq's ``failed_generation``, OpenRouter's ``metadata``) are passed on with every status but 401,
402, 403 and 407. What looks like a secret is passed on nowhere.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec
import orjson

from proxy.errors import UpstreamError
from proxy.providers.envelopes import envelope_of, error_in, refusal_of, text
from proxy.providers.sse import parse_events
from proxy.records.request_fields import raw_field, replace_fields

#: Longest message.
_MAX_TEXT_CHARS: Final = 2_000

_RETRYABLE_STATUSES: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: Statuses that the gateway's own key or account is refused with.
_OPERATOR_STATUSES: Final = frozenset({401, 402, 403, 407})
#: Statuses whose message is about the call itself.
_ABOUT_THE_CALL: Final = frozenset(range(400, 500)) - _OPERATOR_STATUSES - {408}
#: Statuses on the gateway's key, account or limits, or on load: their messages quote no prompt.
_QUOTES_NO_CALL: Final = _OPERATOR_STATUSES | {429, 503, 529}
#: The form of types and codes; what has another may be a text of the call.
_IDENTIFIER: Final = re.compile(r"[\w.-]{1,64}")
_CODES: Final = {
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "request_too_large",
    429: "rate_limit_exceeded",
}
_GENERIC: Final[Mapping[int, tuple[int, str, str]]] = {
    401: (502, "upstream_unauthorized", "The upstream refused the gateway's own key."),
    402: (502, "upstream_unauthorized", "The upstream refused the gateway's own account."),
    403: (502, "upstream_unauthorized", "The upstream forbids this to the gateway's own key."),
    407: (502, "upstream_unauthorized", "A proxy before the upstream refused the gateway."),
    408: (504, "upstream_timeout", "The upstream gave up waiting."),
    503: (503, "upstream_overloaded", "The upstream is overloaded or down."),
    504: (504, "upstream_timeout", "The upstream took too long."),
    529: (503, "upstream_overloaded", "The upstream is overloaded."),
}
#: The status each code or type of error has, for errors in a stream that began with 200.
#: Source: OpenAI API reference, error codes; Anthropic, errors (2026-11).
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_FIXES: Final = {
    "upstream_unauthorized": "Your key is fine: tell the gateway's operator.",
    "upstream_timeout": "Try again, or ask for a faster model.",
    "upstream_overloaded": "Try again a little later.",
    "upstream_error": "Try again a little later, or ask for another model.",
}

#: Forms of credentials: provider keys, tokens, what logs in within a URL, anything after a word
#: that announces one; and what names the gateway's own account upstream: its organization, projects
#: and requests.
_SECRETS: Final = re.compile(
    r"(?<!\\)(?:(?i:\b(?:bearer|basic)\s+)[^\s\"',;\\]+"
    r"|(?i:\b(?:x-)?api[-_ ]?key(?:\s+provided)?[\"']?\s*[:=]\s*[\"']?)[^\s\"',;\\]+"
    r"|\b(?:sk|pk|rk|tg|gsk|xai|sess|fw|hf|pplx|key)[-_][\w.*-]{6,}"
    r"|\bAIza[\w-]{20,}|\bAKIA[A-Z0-9]{12,}|\beyJ[\w-]+\.[\w-]+\.?[\w-]*"
    r"|(?:(?<=://)|(?<=:\\/\\/))[^\s/?#\"'<>\\]{1,256}@"
    r"|\b[0-9a-fA-F]{32,}\b"
    r"|\b(?:org-|proj_|req_)(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{8,}|[A-Za-z0-9]{20,}))"
)
#: A string in JSON, and one that a field announces as a key.
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NAMED: Final = re.compile(
    rb'("(?:(?:x-)?api[-_ ]?key|authorization)"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE
)
#: The longest error object in an answer that is looked through.
_MAX_ERROR_BYTES: Final = 64 * 1024
#: The fields of an error object that are read; all others are passed on as they are.
_READ_FIELDS: Final = frozenset({"message", "type", "param", "code"})
#: Fields with what the caller's own model generated: it holds none of the gateway's secrets.
#: Source: Groq, structured outputs and tool use: error handling (2026-11).
_GENERATED: Final = "failed_generation"
#: An upstream's headers that its errors keep: how much of its limits is left.
_LIMIT_HEADERS: Final = ("x-ratelimit-", "anthropic-ratelimit-")
_SHOULD_RETRY: Final[Mapping[str, bool]] = {"true": True, "false": False}

#: Signs of an error in a stream; in generated text its quotation marks would be escaped.
_TELLS: Final = re.compile(
    rb'"error"\s*:\s*(?!null\b|false\b)\S'
    rb'|"type"\s*:\s*"(?:error|response\.failed)"|event: ?error'
)
_BLANKS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


def redact(text: str) -> str:
    """The text, at most 2,000 characters of it, with everything that looks like a key left out."""
    return _SECRETS.sub("[redacted]", text[: 2 * _MAX_TEXT_CHARS])[:_MAX_TEXT_CHARS]


def redact_keys(run: bytes) -> bytes:
    """The bytes unmodified, but for what looks like a key."""
    text = run.decode("utf-8", "surrogateescape")
    return _SECRETS.sub("[redacted]", text).encode("utf-8", "surrogateescape")


def redact_answer_keys(body: bytes) -> bytes:
    """An answer in JSON unmodified, but for what looks like a key in the strings of its error."""
    error = raw_field(body, "error")
    if error is None:
        return body
    if len(error) > _MAX_ERROR_BYTES:
        return replace_fields(body, {"error": b'{"message":"[redacted]"}'})
    clean = _redact_strings(error)
    return body if clean == error else replace_fields(body, {"error": clean})


def _redact_strings(run: bytes) -> bytes:
    """A value in JSON unmodified, but for what looks like a key in its strings."""
    return _STRING.sub(_redact_string, _NAMED.sub(rb'\1"[redacted]"', run))


def _redact_string(string: re.Match[bytes]) -> bytes:
    """A string in JSON, written anew where it holds a key."""
    text = msgspec.json.decode(string[0], type=str)
    left = _SECRETS.sub("[redacted]", text)
    return string[0] if left == text else msgspec.json.encode(left)


def redact_error_keys(run: bytes) -> bytes:
    """A run of a stream unmodified, but for what looks like a key from its first error on."""
    sign = _TELLS.search(run)
    before = max(run.rfind(blank, 0, sign.start()) for blank in _BLANKS) if sign else 0
    start = max(before, 0)
    return run[:start] + redact_keys(run[start:])


def status_of(error: Mapping[str, Any]) -> int:
    """The status that an error object would have come with; 500 for one we do not know."""
    code = error.get("code")
    named = (code, error.get("type"))
    status = next((_STATUSES[n] for n in named if isinstance(n, str) and n in _STATUSES), 0)
    return status or (code if isinstance(code, int) and 400 <= code <= 599 else 500)


def failure_in(
    run: bytes, fail: Callable[[int, Mapping[str, str], bytes], UpstreamError]
) -> UpstreamError | None:
    """The error of the first error event of a run, as ``fail`` translates it; None without one."""
    for event in parse_events(run):
        if error := error_in(event.data):
            return _interpret_error(error, fail)
    return None


def failure_of(
    body: bytes, fail: Callable[[int, Mapping[str, str], bytes], UpstreamError]
) -> UpstreamError | None:
    """The error of a body that came with a good status; None for any other body."""
    error = envelope_of(body)
    return _interpret_error(error, fail) if error else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the upstream asks to wait; None if it does not say.

    A date counts from the answer's own, and says nothing without it.

    Source: RFC 9110, section 10.2.3; ``retry-after-ms`` as the OpenAI SDK reads it (2026-11).

    Args:
        headers: Names in lower case.
    """
    millis = _seconds(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    wait = headers.get("retry-after")
    seconds = _seconds(wait)
    if seconds is not None:
        return seconds
    until, now = _http_date_time(wait), _http_date_time(headers.get("date"))
    return max((until - now).total_seconds(), 0.0) if until and now else None


def openai_failure(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """Translate an error of an OpenAI-type upstream into the caller's.

    Source: OpenAI API reference, error codes (2026-11).
    """
    error_fields = refusal_of(body)
    is_about_the_call = status in _ABOUT_THE_CALL or _is_moderated(status, error_fields)
    error = failure(status, headers, error_fields, is_about_the_call=is_about_the_call)
    if is_about_the_call:
        error.details = _further_fields(error_fields) | _numeric_fields(error_fields)
    elif status not in _OPERATOR_STATUSES:
        error.details = _further_fields(error_fields)
    return error


def failure_of_object(error: object) -> UpstreamError:
    """The caller's error of an error object in an OpenAI-type answer."""
    words = {"message": str(error or "The model failed.")}
    return _interpret_error(error if isinstance(error, Mapping) else words, openai_failure)


def _is_moderated(status: int, error_fields: Mapping[str, Any]) -> bool:
    """True if a 403 is about the prompt, which moderation flagged, and not about our key.

    Source: OpenRouter, errors and debugging: moderation errors (2026-11).
    """
    metadata = error_fields.get("metadata")
    return status == 403 and isinstance(metadata, dict) and bool(metadata.get("reasons"))


def _further_fields(error_fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an error object that we do not read, without what looks like a key."""
    fields = {name: value for name, value in error_fields.items() if name not in _READ_FIELDS}
    generated = fields.get(_GENERATED)
    try:
        clean: dict[str, Any] = orjson.loads(_redact_strings(orjson.dumps(fields)))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError, RecursionError):
        return {}
    return clean | {_GENERATED: generated} if isinstance(generated, str) else clean


def _numeric_fields(error_fields: Mapping[str, Any]) -> dict[str, Any]:
    """A code or type that the upstream gave as null or as a number, as it gave it."""
    given = {name: error_fields[name] for name in ("code", "type") if name in error_fields}
    return {name: value for name, value in given.items() if value is None or type(value) is int}


def _interpret_error(
    error: Mapping[str, Any], fail: Callable[[int, Mapping[str, str], bytes], UpstreamError]
) -> UpstreamError:
    return fail(status_of(error), {}, msgspec.json.encode({"error": error}))


def failure(
    status: int,
    headers: Mapping[str, str],
    error_fields: Mapping[str, Any] = {},
    *,
    is_about_the_call: bool = False,
) -> UpstreamError:
    """The error for the caller, by the table above.

    Args:
        headers: The upstream's, names in lower case.
        error_fields: The upstream's error object; of it ``message``, ``code``, ``param`` and
            ``type`` are read.
        is_about_the_call: True for a status that means the call itself only here.
    """
    message, code, param, kind = (
        text(error_fields.get(name)) for name in ("message", "code", "param", "type")
    )
    identifiers = filter(_IDENTIFIER.fullmatch, dict.fromkeys((kind, code)))
    brief = " ".join((f"it answered {status}", *map(redact, identifiers)))
    quotes_call = status not in _QUOTES_NO_CALL or (status == 403 and is_about_the_call)
    is_ours = status in _OPERATOR_STATUSES and not is_about_the_call
    wait = retry_after(headers)
    if status in _ABOUT_THE_CALL or is_about_the_call:
        error = UpstreamError(
            redact(message) or f"The upstream refused the call with status {status}.",
            status=status,
            code=redact(code)[:100] or _CODES.get(status, "upstream_refused"),
            param=redact(param)[:200] or None,
            retryable=status in _RETRYABLE_STATUSES,
            retry_after=wait,
        )
        error.type = redact(kind)[:100] or error.type
    else:
        unlisted = (502, "upstream_error", f"The upstream failed with status {status}.")
        shown, ours, what = _GENERIC.get(status, unlisted)
        retryable = is_ours or status in _RETRYABLE_STATUSES
        words = f"{what} {_FIXES[ours]}"
        error = UpstreamError(words, status=shown, code=ours, retryable=retryable, retry_after=wait)
    error.detail = f"{brief} {redact(message)!r}"
    error.detail_without_message = brief if quotes_call else ""
    if is_ours:
        error.should_retry = False  # elsewhere it may succeed, here the operator has to fix it
    else:
        _keep_headers(error, headers)
    return error


def _keep_headers(error: UpstreamError, headers: Mapping[str, str]) -> None:
    """Keep the upstream's headers on its limits, and on whether to retry.

    Source: openai-python, ``_should_retry`` and ``_parse_retry_after_header`` (2026-11).
    """
    limits = {name: value for name, value in headers.items() if name.startswith(_LIMIT_HEADERS)}
    error.should_retry = _SHOULD_RETRY.get(headers.get("x-should-retry", "").lower())
    wait = headers.get("retry-after", "")
    if error.retry_after is None and _http_date_time(wait) is not None:
        limits["retry-after"] = wait  # a date that only a clock can turn into seconds
    error.headers = limits


def _seconds(value: str | None) -> float | None:
    """A plain number of seconds, zero or more; None for anything else."""
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _http_date_time(value: str | None) -> datetime | None:
    """The moment an HTTP date names; None for anything else."""
    try:
        moment = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
