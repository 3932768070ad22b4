"""The port through which the pipeline reaches upstreams."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest

#: Header that gives the caller the provider's own request id, which its support asks for.
REQUEST_ID_HEADER: Final = "x-thriftgate-upstream-request-id"
#: Headers in which providers send it.
#: Source: OpenAI API reference, debugging requests; Anthropic, API overview; AWS, Bedrock runtime,
#: InvokeModel (2026-11).
REQUEST_ID_SOURCES: Final = ("x-request-id", "request-id", "x-amzn-requestid")
#: Characters of it that are kept.
_MAX_REQUEST_ID: Final = 256


def request_id(headers: Mapping[str, str]) -> str:
    """The provider's own id of a request, from its answer's headers; "" for none.

    Args:
        headers: Names in lower case.
    """
    for name in REQUEST_ID_SOURCES:
        if identifier := headers.get(name):
            return identifier[:_MAX_REQUEST_ID]
    return ""


class _CancelledBeforeSend(asyncio.CancelledError):
    """Cancelled before anything of the request was sent: no upstream works on it."""


def cancellation_before_send() -> asyncio.CancelledError:
    """A cancellation that ``was_never_sent`` is true of."""
    return _CancelledBeforeSend()


def was_never_sent(error: BaseException) -> bool:
    """True if the request was cancelled before anything of it was sent."""
    return isinstance(error, _CancelledBeforeSend)


class UpstreamExchange(Protocol):
    """An answer that has begun; it owns its connection until closed.

    Attributes:
        headers: Its headers, names in lower case.
    """

    status: int
    headers: Mapping[str, str]

    @property
    def is_read(self) -> bool:
        """True if the body has ended, and all of it was read; an end may be on its way."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the body, unmodified; b"" at its end.

        Raises:
            UpstreamError: If the connection broke.
        """
        ...

    async def read_all(self, limit: int) -> bytes:
        """The rest of the body.

        Raises:
            UpstreamError: If the connection broke, with what was received until then; or if the
                body is over the limit.
        """
        ...

    def close(self) -> None:
        """Hang up at once unless the body was read to its end; does nothing the second time."""
        ...


class Transport(Protocol):
    """Opens exchanges with upstreams."""

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> UpstreamExchange:
        """Send the request and wait for the answer's headers.

        Cancelling hangs up; ``was_never_sent`` knows of the cancellation whether it came before
        anything was sent.

        Raises:
            UpstreamError: If the upstream cannot be reached, or closes without an answer; with
                ``was_stale``, if it had closed a kept connection before.
        """
        ...


async def open_resending(
    transport: Transport, upstream: Upstream, prepared: PreparedRequest
) -> UpstreamExchange:
    """An answer that has begun to a request without a receipt; resent if the connection was stale.

    Raises:
        UpstreamError: As ``Transport.open``.
    """
    try:
        return await transport.open(upstream, prepared)
    except UpstreamError as error:
        if not error.was_stale:
            raise
        return await transport.open(upstream, prepared)
