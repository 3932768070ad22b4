import asyncio
import gzip
from dataclasses import replace

import pytest

from proxy.errors import UpstreamError
from tests.fakes.http_upstream import (
    OK,
    connected_transport,
    error_of_reading,
    prepared_request,
    upstream,
)
from tests.fakes.server import WAIT, Step, head


@pytest.mark.parametrize(
    ("kind", "fields", "header", "value"),
    [
        ("openai", {}, "authorization", "Bearer sk-secret"),
        ("anthropic", {}, "x-api-key", "sk-secret"),
        ("openai", {"key_header": "api-key"}, "api-key", "sk-secret"),
        ("anthropic", {"key_header": "authorization"}, "authorization", "Bearer sk-secret"),
    ],
)
async def test_a_key_goes_where_its_upstream_looks_for_it(kind, fields, header, value):
    async with connected_transport(OK) as (server, opened):
        there = upstream(server, kind, key_env="KEY", **fields)
        for _ in range(2):
            await (await opened.open(there, prepared_request())).read_all(9)
        for request in server.got:
            assert request.headers[header] == value
            carriers = {"authorization", "api-key", "x-api-key"} & set(request.headers)
            assert carriers == {header}


async def test_a_key_that_is_not_set_is_reported_by_its_name():
    async with connected_transport(OK, keys={}) as (server, opened):
        with pytest.raises(UpstreamError, match="set KEY") as caught:
            await opened.open(upstream(server, key_env="KEY"), prepared_request())
        assert (caught.value.code, caught.value.status) == ("upstream_key_missing", 503)
        assert caught.value.retryable
        assert not caught.value.is_worth_retrying
        assert server.got == []


async def test_an_upstream_that_needs_no_key_gets_none():
    async with connected_transport(OK) as (server, opened):
        await (await opened.open(upstream(server), prepared_request())).read_all(9)
        assert "authorization" not in server.got[0].headers


async def test_a_request_has_the_upstreams_headers_and_the_calls():
    async with connected_transport(OK) as (server, opened):
        there = upstream(server, headers={"OpenAI-Project": "p", "OpenAI-Beta": "old"})
        prepared = prepared_request(headers={"openai-beta": "new", "content-type": "text/x"})
        await (await opened.open(there, prepared)).read_all(9)
        await (await opened.open(there, prepared_request())).read_all(9)
        first, second = (request.headers for request in server.got)
        assert (first["openai-project"], first["openai-beta"]) == ("p", "new")
        assert first["content-type"] == "text/x"
        assert first["accept-encoding"] == "identity"
        assert first["user-agent"] == "thriftgate"
        assert (second["openai-beta"], second["content-type"]) == ("old", "application/json")
        assert "cookie" not in second


async def test_a_callers_organization_and_project_pass_unless_the_upstream_sets_its_own():
    async with connected_transport(OK, OK) as (server, opened):
        caller_headers = {"openai-organization": "org-caller", "openai-project": "proj_caller"}
        free = upstream(server, name="free")
        bound = upstream(server, name="bound", headers={"OpenAI-Project": "proj_own"})
        for there in (free, bound):
            (await opened.open(there, prepared_request(headers=caller_headers))).close()
        first, second = (request.headers for request in server.got)
        assert first.items() >= caller_headers.items()
        assert second["openai-organization"] == "org-caller"
        assert second["openai-project"] == "proj_own"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/chat/completions", "POST /v1/chat/completions HTTP/1.1"),
        ("/files/a%20b?limit=2&x=%2F", "POST /v1/files/a%20b?limit=2&x=%2F HTTP/1.1"),
    ],
)
async def test_a_path_is_joined_to_the_base_url_as_it_is(path, line):
    async with connected_transport(OK) as (server, opened):
        for _ in range(2):
            await (await opened.open(upstream(server), prepared_request(path))).read_all(9)
        assert [request.line for request in server.got] == [line, line]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/chat/completions", "POST /v1/chat/completions?api-version=3&a=%2F HTTP/1.1"),
        ("/files?limit=2", "POST /v1/files?api-version=3&a=%2F&limit=2 HTTP/1.1"),
    ],
)
async def test_the_query_of_a_base_url_is_sent_with_every_call(path, line):
    async with connected_transport(OK) as (server, opened):
        there = upstream(server)
        there = replace(there, base_url=f"{there.base_url}?api-version=3&a=%2F")
        for _ in range(2):
            await (await opened.open(there, prepared_request(path))).read_all(9)
        assert [request.line for request in server.got] == [line, line]


async def test_a_request_without_a_body_sends_none():
    async with connected_transport(OK) as (server, opened):
        prepared = prepared_request("/files", method="GET", body=b"")
        await (await opened.open(upstream(server), prepared)).read_all(9)
        assert server.got[0].line == "GET /v1/files HTTP/1.1"
        assert server.got[0].body == b""


@pytest.mark.parametrize("size", [1, 600_000, 3 << 20])
async def test_large_bodies_arrive_whole_without_a_warning(size):
    async with connected_transport(OK) as (server, opened):
        body = b"x" * size
        await (await opened.open(upstream(server), prepared_request(body=body))).read_all(9)
        assert server.got[0].body == body
        assert server.got[0].headers["content-length"] == str(size)


async def test_a_connection_is_kept_for_the_next_call():
    async with connected_transport(OK) as (server, opened):
        for _ in range(3):
            exchange = await opened.open(upstream(server), prepared_request())
            assert await exchange.read_all(9) == b"ok"
            exchange.close()
        assert len({request.port for request in server.got}) == 1


async def test_an_exchange_knows_that_its_body_was_read_to_its_end():
    async with connected_transport(OK) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request())
        assert not exchange.is_read
        assert await exchange.read() == b"ok"
        assert exchange.is_read
        exchange.close()
        assert not exchange.is_read


async def test_an_answer_that_was_not_read_takes_its_connection_with_it():
    half: list[Step] = [head(200, "Content-Length: 9"), b"ok", WAIT]
    async with connected_transport(half, OK) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request())
        assert await exchange.read() == b"ok"
        exchange.close()
        exchange.close()
        await server.hung_up.wait()
        await (await opened.open(upstream(server), prepared_request())).read_all(9)
        assert len({request.port for request in server.got}) == 2


async def test_a_whole_answer_that_was_not_read_holds_up_no_later_one():
    large: list[Step] = [head(200, "Content-Length: 262200"), b"x" * 262_200]
    async with connected_transport(large, OK) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request())
        for _ in range(100):
            await asyncio.sleep(0)
        exchange.close()
        async with asyncio.timeout(5):
            later = await opened.open(upstream(server), prepared_request())
            assert await later.read_all(9) == b"ok"
        later.close()


async def test_cancelling_hangs_up():
    async with connected_transport([WAIT]) as (server, opened):
        opening = asyncio.ensure_future(opened.open(upstream(server), prepared_request()))
        await server.asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await server.hung_up.wait()


async def test_a_redirect_is_an_answer_and_is_not_followed():
    moved = [head(302, "Location: /elsewhere", "Content-Length: 0")]
    async with connected_transport(moved) as (server, opened):
        exchange = await opened.open(upstream(server), prepared_request())
        assert exchange.status == 302
        assert len(server.got) == 1


async def test_an_error_repeats_no_key_of_an_upstream():
    body = b'{"error":"invalid token corp-secret-9f"}'
    keys = {"KEY": "sk-secret", "OTHER": "corp-secret-9f", "SHORT": "error"}
    answers = [[head(status, f"Content-Length: {len(body)}"), body] for status in (401, 200)]
    async with connected_transport(*answers, keys=keys) as (server, opened):
        refused, good = [
            await (await opened.open(upstream(server), prepared_request())).read_all(99)
            for _ in answers
        ]
    assert refused == b'{"error":"invalid token [redacted]"}'
    assert good == body


async def test_cookies_are_not_kept():
    biscuit = [head(200, "Set-Cookie: team=other", "Content-Length: 0")]
    async with connected_transport(biscuit) as (server, opened):
        for _ in range(2):
            await (await opened.open(upstream(server), prepared_request())).read_all(9)
        assert "cookie" not in server.got[1].headers


async def test_an_answer_packed_unasked_is_unpacked():
    packed = gzip.compress(b"hello")
    size = f"Content-Length: {len(packed)}"
    async with connected_transport([head(200, "Content-Encoding: gzip", size), packed]) as (
        server,
        http,
    ):
        exchange = await http.open(upstream(server), prepared_request())
        assert await exchange.read_all(99) == b"hello"


def test_an_answer_packed_in_an_unknown_way_is_not_passed_on():
    error = error_of_reading([head(200, "Content-Encoding: br", "Content-Length: 2"), b"\x1b\x03"])

    assert (error.status, error.code, error.retryable) == (502, "upstream_malformed", False)
