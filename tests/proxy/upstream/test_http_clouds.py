"""Requests that prove whose they are to a cloud, and answers in its framing, over real sockets."""

from typing import Any

import pytest

from proxy.catalog.entries import Upstream
from tests.fakes.cloud_upstreams import chunk_frame
from tests.fakes.http_upstream import OK, connected_transport, prepared_request
from tests.fakes.server import Server, chunked_body, head

EXPIRED = [head(403, "x-amzn-errortype: ExpiredTokenException", "Content-Length: 2"), b"{}"]
PING = b'{"type":"ping"}'
FRAMES = chunk_frame(PING) * 2
STREAM = [
    head(200, "Content-Type: application/vnd.amazon.eventstream", "Transfer-Encoding: chunked"),
    chunked_body(FRAMES[:50], ends=False),
    chunked_body(FRAMES[50:]),
]


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)


def upstream(server: Server, **fields: Any) -> Upstream:
    values = {"name": "aws", "kind": "anthropic", "base_url": server.base_url, "auth": "aws"}
    return Upstream(**{**values, "aws_region": "us-east-1", **fields})


async def test_each_request_is_signed_anew_and_keeps_its_connection():
    async with connected_transport(OK) as (server, opened):
        for body in (b"{}", b"[]"):
            exchange = await opened.open(upstream(server), prepared_request("/messages", body=body))
            assert await exchange.read_all(9) == b"ok"
            exchange.close()
        first, second = server.got
        assert first.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEX")
        assert first.headers["authorization"] != second.headers["authorization"]
        assert first.headers["x-amz-date"]
        assert first.port == second.port


async def test_credentials_refused_as_expired_are_looked_up_once_more():
    async with connected_transport(EXPIRED, OK) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request("/messages"))
        assert (exchange.status, len(server.got)) == (200, 2)
        exchange.close()
    async with connected_transport(EXPIRED) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request("/messages"))
        assert (exchange.status, len(server.got)) == (403, 2)
        exchange.close()


async def test_an_event_stream_is_read_as_server_sent_events():
    async with connected_transport(STREAM) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request("/messages"))
        assert exchange.headers["content-type"] == "text/event-stream"
        events = b""
        while piece := await exchange.read():
            events += piece
        assert events == (b"event: ping\ndata: " + PING + b"\n\n") * 2
        exchange.close()
