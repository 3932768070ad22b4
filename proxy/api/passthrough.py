"""Writes a call's answer to its caller over ASGI: status, headers, body, errors."""

from collections.abc import Awaitable, Mapping
from functools import lru_cache
from math import ceil
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.api.messages_api import speaks_messages
from proxy.calls.ports import Head
from proxy.errors import (
    ProxyError,
    UpstreamError,
    envelope,
    messages_envelope,
    messages_status,
)
from proxy.providers.stream_endings import error_event
from proxy.records.receipt import Outcome, Receipt, ServedBy, dollars, total_nanos
from proxy.records.timeline import Timeline
from proxy.upstream.port import REQUEST_ID_HEADER, REQUEST_ID_SOURCES

#: Headers of an upstream's answer that are the caller's business, and those that say what was
#: decided for it.
#: Source: OpenAI API reference, response headers; Anthropic API, response headers (2026-11).
_PASSED_HEADERS: Final = frozenset(
    {
        "content-disposition",
        "content-type",
        "openai-processing-ms",
        "openai-version",
        "retry-after",
        "retry-after-ms",
        "x-thriftgate-cache",
        "x-thriftgate-clamped",
        "x-thriftgate-compaction",
        "x-thriftgate-draft",
        "x-thriftgate-fallback-skipped",
        "x-thriftgate-fallback",
        "x-thriftgate-replica",
    }
)
#: Header of Anthropic's API that names a request.
MESSAGES_REQUEST_ID: Final = b"request-id"
#: Endpoints whose answers, where they come in pieces, are streams of events.
_STREAMED_ENDPOINTS: Final = frozenset({"chat/completions", "completions", "messages", "responses"})
_RATE_LIMIT_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")
_MAX_NOTES_CHARS: Final = 1024
#: Kinds of upstreams' answers, by the names of their headers, that are remembered.
_MAX_CACHED_HEADER_SETS: Final = 64

Headers = list[tuple[bytes, bytes]]


class Relay:
    """Hands an answer to one caller.

    Attributes:
        wants_trailer: True if a stream is to end with a comment of what it cost.
        is_begun: True if anything was sent.
        is_over: True if the last piece was sent.
        speaks_messages: True if the caller speaks Anthropic's API, and so wants its errors.
    """

    __slots__ = (
        "_call_id",
        "_continued",
        "_earlier_cost_nanos",
        "_receive",
        "_send",
        "_timeline",
        "is_begun",
        "is_over",
        "speaks_messages",
        "wants_trailer",
    )  # fmt: skip

    def __init__(
        self,
        call_id: str,
        receive: Receive,
        send: Send,
        timeline: Timeline | None = None,
        *,
        speaks_messages: bool = False,
    ) -> None:
        """Answer on this connection.

        Args:
            timeline: The call's; a stream's head says by it what the gateway took so far.
        """
        self._timeline = timeline
        self._call_id = call_id.encode()
        self._receive = receive
        self._send = send
        self._earlier_cost_nanos: int | None = 0
        self._continued: list[str] = []
        self.wants_trailer = False
        self.is_begun = False
        self.is_over = False
        self.speaks_messages = speaks_messages

    def begin(self, head: Head) -> Awaitable[None]:
        """Send the head of an answer that follows in pieces."""
        headers = self._headers(head)
        if self._timeline is not None:
            spent = self._timeline.now() - self._timeline.started - self._timeline.waited_s
            headers.append(_overhead(max(spent, 0.0)))
        return self._start(head.status, headers)

    def send(self, piece: bytes) -> Awaitable[None]:
        """Send a piece; waits while the caller is slow."""
        return self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def end(self, piece: bytes) -> Awaitable[None]:
        """Send the last piece, which may be empty."""
        self.is_over = True
        return self._send({"type": "http.response.body", "body": piece, "more_body": False})

    async def send_whole(self, head: Head, body: bytes, receipt: Receipt) -> None:
        """Send an answer that is complete, with what it used and cost in its head."""
        headers = self._headers(head)
        headers.append((b"content-length", b"%d" % len(body)))
        await self._start(head.status, headers + self._usage_headers(receipt))
        await self.end(body)

    async def refuse(self, error: ProxyError) -> None:
        """Send an error instead of an answer."""
        status, headers, body = error_answer(
            error, self._call_id, speaks_messages=self.speaks_messages
        )
        await self._start(status, headers)
        await self.end(body)

    async def end_call(self, path: str, error: ProxyError) -> None:
        """Tell the caller of a call that was ended; an answer that is no stream breaks off.

        Args:
            path: The call's; it tells the API of its events.
        """
        endpoint = path.removeprefix("/v1/")
        if not self.is_begun:
            await self.refuse(error)
        elif endpoint in _STREAMED_ENDPOINTS and not self.is_over:
            await self.end(error_event(endpoint, error))

    def closing_event(self, receipt: Receipt) -> bytes:
        """A comment with the call's account; b"" unless the caller asked for it."""
        if not self.wants_trailer:
            return b""
        account = {name.decode(): value.decode() for name, value in self._usage_headers(receipt)}
        if self._continued:
            account["x-thriftgate-continued"] = ", ".join(self._continued)
        return b": thriftgate " + orjson.dumps(account) + b"\n\n"

    def note_attempt(self, receipt: Receipt) -> None:
        """Add the cost of another attempt to the cost that the caller is told."""
        self._earlier_cost_nanos = total_nanos((self._earlier_cost_nanos, receipt.spent_nanos))
        if receipt.outcome is Outcome.BROKEN and receipt.served_by is not ServedBy.DRAFT:
            self._continued.append(f"{receipt.upstream}: {receipt.error}")

    async def wait_until_gone(self) -> None:
        """Return once the caller has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _headers(self, head: Head) -> Headers:
        headers = _passed_headers(head.headers)
        headers.append((b"x-request-id", self._call_id))
        if self.speaks_messages:
            headers.append((MESSAGES_REQUEST_ID, self._call_id))
        if head.model:
            headers.append((b"x-thriftgate-model", _header_value(head.model)))
        if head.notes:
            headers.append(
                (b"x-thriftgate-notes", _header_value("; ".join(head.notes)[:_MAX_NOTES_CHARS]))
            )
        return headers

    def _usage_headers(self, receipt: Receipt) -> Headers:
        """Headers with the call's usage and cost; an unknown price is left out."""
        account = [_overhead(receipt.overhead)]
        if receipt.usage is not None:
            account.append((b"x-thriftgate-cached-tokens", b"%d" % receipt.usage.cache_read))
        cost, before = receipt.cost_nanos, self._earlier_cost_nanos
        if cost is not None and before is not None:
            account.append((b"x-thriftgate-cost-usd", dollars(before + cost).encode()))
        return account

    def _start(self, status: int, headers: Headers) -> Awaitable[None]:
        self.is_begun = True
        return self._send({"type": "http.response.start", "status": status, "headers": headers})


def error_answer(
    error: ProxyError, request_id: bytes, *, speaks_messages: bool
) -> tuple[int, Headers, bytes]:
    """The status, headers and body of an answer that is an error, in the caller's own API."""
    if not speaks_messages:
        body = envelope(error)
        return error.status, error_headers(error, request_id, len(body)), body
    body = messages_envelope(error, request_id.decode())
    headers = error_headers(error, request_id, len(body))
    return messages_status(error), [*headers, (MESSAGES_REQUEST_ID, request_id)], body


def error_response(scope: Scope, error: ProxyError, request_id: str) -> Response:
    """The same as a response of Starlette's."""
    is_messages = speaks_messages(scope)
    status, headers, body = error_answer(error, request_id.encode(), speaks_messages=is_messages)
    response = Response(body, status_code=status)
    response.raw_headers = headers
    return response


def error_headers(error: ProxyError, request_id: bytes, length: int) -> Headers:
    """The headers of every answer that is an error."""
    headers: Headers = [
        (b"x-request-id", request_id),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % length),
    ]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % ceil(error.retry_after)))
        headers.append((b"retry-after-ms", b"%d" % round(error.retry_after * 1000)))
    headers += [(name.encode(), _header_value(value)) for name, value in error.headers.items()]
    if not error.is_worth_retrying:
        headers.append((b"x-should-retry", b"false"))
    elif isinstance(error, UpstreamError) and error.should_retry:
        headers.append((b"x-should-retry", b"true"))
    return headers


def internal_error(request_id: str) -> ProxyError:
    """The error for a bug of the gateway's own."""
    return ProxyError(
        f"The gateway made a mistake on {request_id}; it is in its log.", code="internal_error"
    )


def _overhead(seconds: float) -> tuple[bytes, bytes]:
    return b"x-thriftgate-overhead-ms", b"%.2f" % (seconds * 1000)


def _passed_headers(headers: Mapping[str, str]) -> Headers:
    return [
        (passed, _header_value(headers[name])) for name, passed in _passed_names(tuple(headers))
    ]


@lru_cache(maxsize=_MAX_CACHED_HEADER_SETS)
def _passed_names(names: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """The names of an upstream's headers that the caller gets, and their names there."""
    lower = {name.lower(): name for name in names}
    passed = [
        (name, lowered.encode("latin-1"))
        for lowered, name in lower.items()
        if lowered in _PASSED_HEADERS or lowered.startswith(_RATE_LIMIT_PREFIXES)
    ]
    ids = [lower[source] for source in REQUEST_ID_SOURCES if source in lower]
    return (*passed, *((name, REQUEST_ID_HEADER.encode()) for name in ids[:1]))


def _header_value(text: str) -> bytes:
    """A text as a header's value; callers' text in it must not end the line."""
    if not text.isprintable():
        text = "".join(c for c in text if c.isprintable())
    return text.encode("latin-1", "replace")
