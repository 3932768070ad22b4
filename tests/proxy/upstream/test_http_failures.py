"""Upstreams that cannot be reached, trusted or read, and catalogs that change meanwhile."""

import asyncio
import gzip
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.upstream.http import open_transport
from tests.fakes.free_port import free_port
from tests.fakes.http_upstream import (
    OK,
    connected_transport,
    error_of_reading,
    prepared_request,
    upstream,
)
from tests.fakes.server import CLOSE, RESET, WAIT, Step, chunked_body, head, serving

CHUNKED = head(200, "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "steps",
    [
        [CLOSE],
        [RESET],
        [b"no http at all\r\n\r\n"],
        [head(200, "Content-Length: 9"), b"ok", CLOSE],
        [head(200, "Content-Length: 9"), b"ok", RESET],
        [CHUNKED, chunked_body(b"ok", ends=False), CLOSE],
        [CHUNKED, chunked_body(b"ok", ends=False), RESET],
        [b"HTTP/1.1 500 No\r\nX: " + b"x" * 80_000 + b"\r\n\r\n"],
    ],
)
def test_a_broken_answer_is_reported_in_our_own_words(steps):
    error = error_of_reading(steps)

    assert (error.status, error.code, error.retryable) == (502, "upstream_connection_broken", True)
    assert "127.0.0.1" not in error.message


DAMAGED = gzip.compress(b"whole")[:-3]


@pytest.mark.parametrize(
    ("steps", "is_billed"),
    [
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 80_000 + b"\r\n\r\n"], True),
        ([head(200, "Content-Length: 2", "Content-Length: 3") + b"ok"], True),
        ([CHUNKED, b"zz\r\nok\r\n"], True),
        ([head(200, "Content-Encoding: gzip", f"Content-Length: {len(DAMAGED)}"), DAMAGED], False),
    ],
)
def test_a_good_answer_that_cannot_be_read_is_not_worth_another_attempt(steps, is_billed):
    error = error_of_reading(steps)

    assert (error.status, error.code, error.retryable) == (502, "upstream_malformed", False)
    assert error.is_billed is is_billed


@pytest.mark.parametrize(
    "base_url", ["http://", "ftp://up/v1", "nonsense", "http://[up/v1", "http://a..b/v1"]
)
async def test_an_address_that_is_none_is_reported(base_url):
    async with connected_transport(OK) as (server, opened):
        with pytest.raises(UpstreamError) as caught:
            await opened.open(upstream(server, base_url=base_url), prepared_request())
        assert caught.value.code == "upstream_unreachable"


async def test_an_unknown_host_is_reported_without_its_name():
    async with connected_transport(OK) as (server, opened):
        with pytest.raises(UpstreamError) as caught:
            await opened.open(upstream(server, base_url="http://up.invalid/v1"), prepared_request())
        assert caught.value.code == "upstream_unreachable"
        assert "its host name cannot be resolved" in caught.value.message
        assert "up.invalid" not in caught.value.message


async def test_a_refused_connection_is_reported_as_such_without_its_address():
    async with connected_transport(OK) as (server, opened):
        nothing_listens = upstream(server, base_url=f"http://127.0.0.1:{free_port()}/v1")
        with pytest.raises(UpstreamError) as caught:
            await opened.open(nothing_listens, prepared_request())
        assert caught.value.message == "The upstream could not be reached: connection refused."


async def test_a_connection_that_takes_too_long_is_reported():
    async with serving(OK) as server:
        opening = open_transport({}, connections=4, connect_timeout=1e-9)
        async with opening as opened:
            with pytest.raises(UpstreamError, match="in time") as caught:
                await opened.open(upstream(server), prepared_request())
        assert caught.value.code == "upstream_unreachable"


async def test_an_exchange_that_is_closed_reads_nothing_of_a_later_call():
    secret: list[Step] = [head(200, "Content-Length: 6"), b"secret"]
    async with connected_transport(OK, secret) as (server, opened):
        first = await opened.open(upstream(server), prepared_request())
        assert await first.read_all(9) == b"ok"
        first.close()
        second = await opened.open(upstream(server), prepared_request())
        assert len({request.port for request in server.got}) == 1
        for read in (first.read(), first.read_all(9)):
            with pytest.raises(UpstreamError) as caught:
                await read
            assert caught.value.code == "upstream_connection_broken"
        first.close()
        assert await second.read_all(9) == b"secret"


async def test_an_exchange_that_is_closed_while_it_is_read_takes_its_connection_with_it():
    slow: list[Step] = [head(200, "Content-Length: 9"), WAIT]
    async with connected_transport(slow, OK) as (server, opened):
        first = await opened.open(upstream(server), prepared_request())
        reading = asyncio.ensure_future(first.read())
        await asyncio.sleep(0)
        first.close()
        second = await opened.open(upstream(server), prepared_request())
        with pytest.raises(UpstreamError):
            await reading
        assert await second.read_all(9) == b"ok"


@pytest.mark.parametrize(
    "headers",
    [
        {"path": "/x\r\nhost: evil"},
        {"path": "/x HTTP/1.1\nhost: evil"},
        {"headers": {"x": "a\r\nauthorization: b"}},
        {"headers": {"x\n": "a"}},
    ],
)
async def test_a_line_end_in_a_header_is_refused_and_not_sent(headers):
    async with connected_transport(OK) as (server, opened):
        with pytest.raises(UpstreamError) as caught:
            await opened.open(upstream(server), prepared_request(**headers))
        assert (caught.value.code, caught.value.retryable) == (
            "upstream_header_malformed",
            False,
        )
        assert server.got == []


async def test_a_users_name_and_password_in_an_address_are_not_sent():
    async with connected_transport(OK) as (server, opened):
        url = server.base_url.replace("http://", "http://user:word@")
        await (await opened.open(upstream(server, base_url=url), prepared_request())).read_all(9)
        assert server.got[0].headers["host"] == f"127.0.0.1:{server.port}"
        assert "word" not in str(server.got[0])


async def test_an_answer_to_head_has_a_length_and_no_body():
    async with connected_transport([head(200, "Content-Length: 2")], OK) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request(method="HEAD", body=b""))
        assert exchange.headers["content-length"] == "2"
        assert await exchange.read_all(9) == b""
        exchange.close()
        assert await (await opened.open(upstream(server), prepared_request())).read_all(9) == b"ok"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate_file, key = folder / "cert.pem", folder / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    name = ["-subj", "/CN=up", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate_file)]
    command = ["openssl", "req", "-x509", *curve, *name, *files]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
    return certificate_file, key


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("host", "is_trusted", "reason"),
    [
        ("localhost", True, ""),
        ("localhost", False, "certificate"),
        ("127.0.0.1", True, "certificate"),
    ],
)
def test_an_upstream_has_to_be_who_it_says_it_is(loop, certificate, host, is_trusted, reason):
    certificate_file, key = certificate
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate_file, key)
    ours = ssl.create_default_context(cafile=certificate_file) if is_trusted else None

    async def work() -> None:
        large = b"x" * 600_000
        answer: list[Step] = [head(200, f"Content-Length: {len(large)}"), large]
        async with (
            serving(answer, tls=theirs) as server,
            open_transport({}, connections=4, connect_timeout=5.0, tls=ours) as opened,
        ):
            there = upstream(server, base_url=f"https://{host}:{server.port}/v1")
            for _ in range(2):
                exchange = await opened.open(there, prepared_request(body=large))
                assert await exchange.read_all(1 << 20) == large
                exchange.close()
            assert [request.body for request in server.got] == [large, large]
            assert len({request.port for request in server.got}) == 1

    if reason:
        with pytest.raises(UpstreamError, match=reason) as caught:
            loop(work())
        assert caught.value.code == "upstream_unreachable"
    else:
        loop(work())


async def test_an_upstream_that_speaks_no_tls_is_reported():
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"plain words, and many of them\r\n")
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(play, "127.0.0.1", 0) as listening,
        open_transport({}, connections=4, connect_timeout=5.0) as opened,
    ):
        port = listening.sockets[0].getsockname()[1]
        there = Upstream(name="up", kind="openai", base_url=f"https://127.0.0.1:{port}/v1")
        with pytest.raises(UpstreamError, match="TLS") as caught:
            await opened.open(there, prepared_request())
        assert caught.value.code == "upstream_unreachable"


async def test_a_catalog_read_again_keeps_connections_and_a_changed_upstream_gets_its_own():
    async with connected_transport(OK, OK, OK) as (server, opened):
        first = upstream(server)
        for current in (first, replace(first), replace(first, headers={"x-new": "1"})):
            exchange = await opened.open(current, prepared_request())
            await exchange.read_all(10)
            exchange.close()
        ports = [request.port for request in server.got]
        assert ports[0] == ports[1] != ports[2]
        assert [request.headers.get("x-new") for request in server.got] == [None, None, "1"]


async def test_an_answer_of_an_upstream_that_changed_meanwhile_is_read_to_its_end():
    async with connected_transport(OK, OK) as (server, opened):
        first = await opened.open(upstream(server), prepared_request())
        second = await opened.open(upstream(server, headers={"x-new": "1"}), prepared_request())
        assert await first.read_all(10) == await second.read_all(10) == b"ok"
        first.close()
        second.close()


async def test_keys_of_upstreams_that_came_with_a_reload_are_known():
    async with connected_transport(OK) as (server, opened):
        opened.add_keys({"LATER": "sk-later"})
        exchange = await opened.open(upstream(server, key_env="LATER"), prepared_request())
        exchange.close()
        assert server.got[0].headers["authorization"] == "Bearer sk-later"
