"""Errors of answers that cannot go on, and the error event that ends such a stream."""

import orjson

from proxy.errors import ProxyError, UpstreamError, envelope, messages_envelope


def error_event(endpoint: str, error: ProxyError) -> bytes:
    """The last event of a broken stream.

    An ``error`` payload for chat and completions. For responses an ``error`` event, which carries
    the payload too: the openai SDK raises for that alone. For messages an ``error`` event with
    Anthropic's envelope.

    Source: OpenAI API reference, streaming errors; openai 3.52; Anthropic API, streaming (2026-11).
    """
    if endpoint == "messages":
        return b"event: error\ndata: " + messages_envelope(error) + b"\n\n"
    if endpoint == "responses":
        event = orjson.loads(envelope(error)) | {
            "type": "error",
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "sequence_number": 0,
        }
        return b"event: error\ndata: " + orjson.dumps(event) + b"\n\n"
    return b"data: " + envelope(error) + b"\n\n"


def early_failure() -> UpstreamError:
    """The error of a stream that ended, or failed for no known reason, before its content."""
    return _retryable("The upstream failed before its answer began.", "upstream_failed_early")


def truncated_stream() -> UpstreamError:
    """The error of a stream that ended before its answer did."""
    return _retryable(
        "The upstream stopped in the middle of its answer. Try again.", "upstream_cut_off"
    )


def unreadable_paid_answer() -> UpstreamError:
    """The error of an answer that was generated, and paid for, and cannot be read.

    Nobody asks again by himself: the next one would be paid for, too.
    """
    return UpstreamError(
        "The upstream answered, but its answer could not be read.",
        status=502,
        code="upstream_malformed",
        retryable=False,
    )


def malformed_answer() -> UpstreamError:
    """The error of a body that is something else than an answer."""
    return _retryable(
        "The upstream's answer could not be read. Try again a little later.", "upstream_malformed"
    )


def midway_failure() -> UpstreamError:
    """The error of a stream that ended with an error of the upstream's own."""
    return _retryable("The upstream failed in the middle of its answer.", "upstream_failed_midway")


def connection_lost() -> UpstreamError:
    """The error of a connection that was lost before the answer was complete."""
    return _retryable(
        "The upstream's connection broke before its answer was complete.",
        "upstream_connection_broken",
    )


def stale_connection() -> UpstreamError:
    """The error of a kept connection that the upstream had closed before a request came."""
    error = _retryable(
        "The upstream had closed the connection before it read the request.",
        "upstream_connection_stale",
    )
    error.was_stale = True
    return error


def _retryable(message: str, code: str) -> UpstreamError:
    return UpstreamError(message, status=502, code=code, retryable=True)
