"""What the pipeline needs of an upstream's connection."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from proxy.catalog.entries import Upstream
from proxy.wire.port import Prepared


class Unsent(asyncio.CancelledError):
    """Cancelled before anything of the request was sent: nobody works on it."""


class Exchange(Protocol):
    """An answer that has begun; it owns its connection until closed.

    Attributes:
        status: The upstream's HTTP status.
        headers: Its headers, names in lower case.
    """

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The next bytes of the body, as they came; b"" at its end.

        Raises:
            UpstreamError: If the connection broke.
        """
        ...

    async def read_all(self, limit: int) -> bytes:
        """The rest of the body.

        Raises:
            UpstreamError: If the connection broke, or the body is over the limit.
        """
        ...

    def close(self) -> None:
        """Hang up at once unless the body was read to its end; does nothing the second time."""
        ...


class Transport(Protocol):
    """Opens exchanges with upstreams."""

    async def open(self, upstream: Upstream, prepared: Prepared) -> Exchange:
        """Send the request and wait for the answer's headers.

        Cancelling hangs up.

        Raises:
            Unsent: If it was cancelled before anything was sent.
            UpstreamError: If the upstream cannot be reached, or closes without an answer.
        """
        ...
