"""Sends prepared requests to a server that answers with raw bytes."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.upstream.http import HttpTransport, open_transport
from tests.fakes.server import Server, Step, head, serving

OK = [head(200, "Content-Length: 2"), b"ok"]
KEYS = {"KEY": "sk-secret"}


def prepared_request(path: str = "/chat/completions", **fields: Any) -> PreparedRequest:
    return PreparedRequest(
        **{"method": "POST", "path": path, "headers": {}, "body": b"{}", **fields}
    )


def upstream(server: Server, kind: str = "openai", **fields: Any) -> Upstream:
    values = {"name": "up", "base_url": server.base_url}
    return Upstream(kind="anthropic" if kind == "anthropic" else "openai", **(values | fields))


@asynccontextmanager
async def connected_transport(
    *answers: Sequence[Step], keys: Mapping[str, str] = KEYS
) -> AsyncIterator[tuple[Server, HttpTransport]]:
    async with (
        serving(*answers) as server,
        open_transport(keys, connections=4, connect_timeout=5.0) as opened,
    ):
        yield server, opened


def error_of_reading(steps: Sequence[Step]) -> UpstreamError:
    """Return what reading this answer whole fails with."""

    async def work() -> None:
        async with connected_transport(steps) as (server, opened):
            exchange = await opened.open(upstream(server), prepared_request())
            try:
                await exchange.read_all(1 << 20)
            finally:
                exchange.close()

    with pytest.raises(UpstreamError) as caught:
        asyncio.run(work())
    return caught.value
