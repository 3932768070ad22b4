"""On the wire ours says what uvicorn says, byte for byte."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.api.connections.server_protocol import ServerProtocol
from tests.proxy.api.server_fixtures import (
    CHUNKED,
    CLOSE,
    LAST,
    MAY_NOT,
    ONE,
    SAYS,
    echo_app,
    head_for,
    length,
    listening,
    start,
)

pytestmark = pytest.mark.anyio
TALKS: dict[str, Sequence[bytes]] = {
    **{f"what the app says at {path}": [head_for(path, CLOSE)] for path in SAYS},
    **{f"HEAD of {path}": [head_for(path, CLOSE, method="HEAD")] for path in ("/plain", "/chunks")},
    "the whole scope": [head_for("/a%20b/%C3%A9?q=%20&r", "X-Upper: \xe9 y", CLOSE)],
    "another form of address": [head_for("http://us/heard?q", CLOSE)],
    "kept alive": [ONE, ONE, LAST],
    "one after the other in one write": [ONE + head_for("/chunks") + head_for("/heard") + LAST],
    "a body": [head_for("/b", "content-length: 5", CLOSE, method="POST"), b"he", b"llo"],
    "a body with its head": [head_for("/b", "content-length: 5", CLOSE, method="POST") + b"hello"],
    "a body that nobody reads": [
        head_for("/plain", "content-length: 5", method="POST") + b"he", b"llo" + LAST,
    ],
    "a body in chunks": [
        head_for("/b", "transfer-encoding: chunked", CLOSE, method="POST"),
        b"2\r\nhe\r\n3;x=y\r\nllo\r\n", b"0\r\n\r\n",
    ],
    "bodies in a pipeline": [
        head_for("/b", "content-length: 2", method="POST") + b"he"
        + head_for("/c", "content-length: 3", method="POST") + b"llo" + LAST,
    ],
    "HTTP/1.0": [head_for("/plain", version="1.0")],
    "HTTP/1.0 in pieces": [head_for("/chunks", version="1.0")],
    "HTTP/1.0 that would stay": [head_for("/plain", "connection: keep-alive", version="1.0")],
    "a wait for 100": [
        head_for("/b", "expect: 100-Continue", "content-length: 2", CLOSE, method="POST"), b"he",
    ],
    "a wait for 100 that ends otherwise": [
        head_for("/plain", "expect: 100-continue", "content-length: 2", CLOSE, method="POST"),
    ],
    "an upgrade": [head_for("/plain", "connection: upgrade, close", "upgrade: websocket")],
    "what is no HTTP": [b"HELO us\r\n\r\n"],
    "no address": [head_for("us:443", method="CONNECT")],
    "a length that is none": [head_for("/b", "content-length: five", method="POST")],
    "two lengths": [head_for("/b", "content-length: 5", "content-length: 6", method="POST")],
    "a length and chunks": [
        head_for("/b", "content-length: 5", "transfer-encoding: chunked", method="POST"),
    ],
    "what is no chunk": [head_for("/b", "transfer-encoding: chunked", method="POST") + b"five\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("talk", TALKS)
async def test_ours_says_what_uvicorn_says(talk: str) -> None:
    output = []
    for protocol in (HttpToolsProtocol, ServerProtocol):
        async with listening(echo_app, protocol) as place:
            output.append(await place.said(*TALKS[talk]))

    assert output[0]
    assert output[1] == output[0]


@pytest.mark.parametrize("path", MAY_NOT)
async def test_headers_that_the_app_may_not_send_are_not_sent(path: str) -> None:
    async with listening(echo_app) as place:
        assert await place.said(head_for(path)) == b""


async def test_an_app_that_fails_after_its_head_ends_the_connection() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, CHUNKED))
        raise ValueError("ours")

    async with listening(app) as place:
        output = await place.said(ONE)

    assert output == b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"


async def test_an_app_cannot_begin_twice() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, length(2)))
        await send(start(201, length(2)))

    async with listening(app) as place:
        assert (await place.said(ONE)).count(b"HTTP/1.1 ") == 1


async def test_trailers_are_for_nobody() -> None:
    chunks = b"2\r\nhe\r\n0\r\nx-late: yes\r\n\r\n"
    async with listening(echo_app) as place:
        output = await place.said(
            head_for("/b", "transfer-encoding: chunked", CLOSE, method="POST") + chunks
        )

    assert output.endswith(b"\nhe")
    assert b"x-late" not in output


@pytest.mark.parametrize(
    "opening",
    [b"GET /", b"GET / HTTP/1.1\r\nx: ", b"GET / HTTP/1.1\r\n"],
    ids=["address", "value", "heads"],
)
async def test_a_head_without_end_is_refused(opening: bytes) -> None:
    filling = b"x: %b\r\n" % (b"y" * 1000) if opening.endswith(b"\n") else b"x" * 1000
    async with listening(echo_app) as place, place.connect() as (reader, writer):
        writer.write(ONE)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.write(opening + filling * 72)
        output = await asyncio.wait_for(reader.read(), 20)

    assert output.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b'"code":"headers_too_large"' in output


async def test_a_first_head_without_end_is_refused() -> None:
    async with listening(echo_app) as place:
        assert (await place.said(b"GET /" + b"x" * 70_000)).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "opening", [b"2\r\nhe\r\n0\r\nx: ", b"2;x="], ids=["trailers", "extension"]
)
async def test_trailers_or_a_chunk_extension_without_end_are_refused(opening: bytes) -> None:
    head = head_for("/b", "transfer-encoding: chunked", method="POST")
    async with listening(echo_app) as place:
        assert (await place.said(head + opening, b"x" * 70_000)).startswith(b"HTTP/1.1 400 ")


async def test_a_large_head_with_an_end_is_read() -> None:
    async with listening(echo_app) as place:
        output = await place.said(head_for("/heard", "x-large: " + "x" * 50_000, CLOSE))

    assert output.count(b"x" * 50_000) == 1


H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")


@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        ("content-length: 5", b"hello"),
        ("transfer-encoding: chunked", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("wish", [H2C, ("upgrade: websocket", "connection: upgrade")])
async def test_a_wish_for_another_protocol_is_passed_over(
    wish: Sequence[str], framing: str, sent: bytes
) -> None:
    head = head_for("/b?q", *wish, "x-kept: 1", framing, method="POST")
    whole = head + sent
    async with listening(echo_app) as place:
        for pieces in ([whole], [whole[:40], whole[40:]], [head, sent], [whole[:-9], whole[-9:]]):
            output = await place.said(*pieces, LAST)
            assert output.count(b"HTTP/1.1 200 OK\r\n") == 2
            assert b"\nhello" in output
            assert b"(b'x-kept', b'1')" in output


async def test_wishes_in_a_pipeline_are_all_passed_over() -> None:
    wishing = head_for("/b", *H2C, "content-length: 2", method="POST") + b"he"
    async with listening(echo_app) as place:
        output = await place.said(wishing * 50 + LAST)

    assert output.count(b"\nhe") == 50
    assert output.endswith(b"ok")


async def test_a_wish_in_a_body_is_part_of_the_body() -> None:
    body = head_for("/b", *H2C)
    async with listening(echo_app) as place:
        head = head_for("/b", *H2C, f"content-length: {len(body)}", CLOSE, method="POST")
        output = await place.said(head + body)

    assert output.endswith(body)


async def test_bytes_that_are_no_http_after_an_upgrade_request_are_refused() -> None:
    async with listening(echo_app) as place:
        output = await place.said(
            head_for("/b", *H2C, "transfer-encoding: chunked", method="POST") + b"five\r\n"
        )

    assert output.startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_bytes_that_are_no_http_after_a_request_are_refused_once_it_is_answered() -> None:
    async with listening(echo_app) as place:
        output = await place.said(ONE + head_for("/chunks") + b"no words\r\n\r\n")

    ok, chunks, refused = output.split(b"HTTP/1.1 ")[1:]
    assert ok.endswith(b"\r\n\r\nok")
    assert chunks.endswith(b"\r\n0\r\n\r\n")
    assert refused.startswith(b"400 Bad Request\r\n")


@pytest.mark.parametrize("wish", [(), H2C])
async def test_a_tunnel_is_wished_for_in_vain(wish: Sequence[str]) -> None:
    async with listening(echo_app) as place:
        output = await place.said(head_for("http://us/plain", *wish, CLOSE, method="CONNECT"))

    assert output.startswith(b"HTTP/1.1 ")
