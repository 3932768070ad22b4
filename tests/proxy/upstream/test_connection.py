"""Tests of what a connection makes of an answer, however its bytes are cut."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from tests.fakes.raw_connection import (
    CHUNKED,
    OK,
    REQUEST,
    connect,
    receive_answer,
    run,
    start_exchange,
    whole,
)
from tests.fakes.server import head


def pieces(raw: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(raw) + 1) for cut in cuts}), len(raw)]
    return [raw[a:b] for a, b in pairwise(edges)]


@dataclass
class Answer:
    """An answer as it is sent, and what is in it."""

    raw: bytes
    status: int
    body: bytes
    headers: dict[str, str]
    stays: bool
    ends_with_connection: bool = False
    is_bodiless: bool = False


TOKEN = st.text("abcXYZ-0129", min_size=1, max_size=8).map(lambda name: f"x-{name}")

VALUE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)

INTERIM = st.sampled_from(
    [head(100), head(103, "Link: </a>", "X-Early: 1"), head(102, "Content-Length: 7")]
)


@st.composite
def chunks(draw: st.DrawFn, body: Sequence[bytes]) -> bytes:
    """A body in chunks, with extensions and trailers."""
    raw = b""
    for piece in body:
        if piece:
            extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b c"']))
            raw += b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
    trailers = draw(st.sampled_from([b"", b"X-Trailer: 1\r\n", b"Content-Type: x\r\nA: b\r\n"]))
    return raw + b"0\r\n" + trailers + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    body = draw(st.lists(st.binary(max_size=40), max_size=4))
    framing = draw(st.sampled_from(["length", "chunked", "end", "none", "head"]))
    version = draw(st.sampled_from(["1.1", "1.1", "1.0"]))
    status = draw(st.sampled_from([204, 304] if framing == "none" else [200, 201, 404, 500]))
    says = draw(st.sampled_from(["", "close", "keep-alive", "Keep-Alive"]))
    lines = draw(st.lists(st.tuples(TOKEN, VALUE), max_size=4))
    if framing in {"length", "head"}:
        lines.append(("CONTENT-Length", str(len(b"".join(body)))))
    if framing == "chunked":
        lines.append(("transfer-ENCODING", "Chunked"))
    if says:
        lines.append(("Connection", says))
    lines = draw(st.permutations(lines))
    headers: dict[str, str] = {}
    for name, value in lines:
        known_length = headers.get(name.lower())
        headers[name.lower()] = value if known_length is None else f"{known_length}, {value}"
    raw = b"".join(draw(st.lists(INTERIM, max_size=2)))
    lasts = says.lower() == "keep-alive" if version == "1.0" else says != "close"
    ordered = [f"{name}: {value}" for name, value in lines]
    raw += head(status, *ordered).replace(b"1.1", version.encode(), 1)
    if framing == "chunked":
        raw += draw(chunks(body))
    elif framing in {"length", "end"}:
        raw += b"".join(body)
    return Answer(
        raw=raw,
        status=status,
        body=b"" if framing in {"none", "head"} else b"".join(body),
        headers=headers,
        stays=lasts and framing not in {"end", "head"},
        ends_with_connection=framing == "end",
        is_bodiless=framing == "head",
    )


@given(answers(), st.lists(st.integers(0, 10_000), max_size=6), st.booleans())
def test_any_answer_is_the_same_however_it_is_cut(answer, cuts, byte_by_byte):
    async def work() -> None:
        connection, socket = connect()
        task = await start_exchange(connection, is_bodiless=answer.is_bodiless)
        every = range(len(answer.raw)) if byte_by_byte else cuts
        for piece in pieces(answer.raw, every):
            socket.arrive(piece)
        if answer.ends_with_connection:
            socket.end()
        await task
        assert connection.status == answer.status
        assert connection.headers == answer.headers
        assert await whole(connection) == answer.body
        assert await connection.read() == b""
        assert connection.is_reusable == answer.stays

    run(work)


@given(answers(), st.integers(0, 10_000))
def test_an_answer_that_is_cut_short_breaks_off(answer, length):
    cut = length % len(answer.raw)
    head_size = len(answer.raw) - len(answer.body)

    async def work() -> bytes:
        connection, socket = connect()
        task = await start_exchange(connection, is_bodiless=answer.is_bodiless)
        socket.arrive(answer.raw[:cut])
        socket.end()
        try:
            await task
            return await whole(connection)
        finally:
            assert not connection.is_reusable

    if answer.ends_with_connection and cut >= head_size:
        assert asyncio.run(work()) == answer.raw[head_size:cut]
    else:
        with pytest.raises(UpstreamError):
            asyncio.run(work())


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 10_000), max_size=3))
@example(OK, [])
@example(b"HTTP/1.1 200 OK\r\nContent-Le", [])
@example(b"H", [])
@example(head(200, "Content-Length: 6") + b"poison", [])
@example(b"0\r\n\r\n", [])
def test_bytes_after_an_answer_reach_no_caller(garbage, cuts):
    first = head(200, "Content-Length: 5") + b"first"

    async def work() -> None:
        connection, socket = connect()
        task = await start_exchange(connection)
        for piece in pieces(first + garbage, [*cuts, len(first)] if cuts else []):
            socket.arrive(piece)
        await task
        assert connection.headers == {"content-length": "5"}
        assert await whole(connection) == b"first"
        if garbage.strip(b"\r\n") or cuts:
            assert not connection.is_reusable
            with pytest.raises(UpstreamError):
                await connection.exchange(REQUEST, b"")
            assert socket.sent == REQUEST

    run(work)


@given(st.binary(min_size=1, max_size=40))
@example(OK)
def test_a_connection_that_speaks_unasked_is_given_up(answer):
    async def work() -> None:
        for uses in range(2):
            connection, socket = connect()
            if uses:
                assert await receive_answer(connection, socket) == b"ok"
            socket.arrive(answer)
            assert socket.is_closing()
            assert not connection.is_reusable
            with pytest.raises(UpstreamError):
                await connection.exchange(REQUEST, b"")
            assert not connection.is_stale
            assert socket.sent == REQUEST * uses

    run(work)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        head(200, "Content-Length: 2", "Content-Length: 3"),
        head(200, "Content-Length: 2, 3"),
        head(200, "Content-Length: -1"),
        head(200, "Content-Length: 99999999999999999999999"),
        head(200, "X: " + "x" * 70_000),
        head(200, *["X: " + "x" * 1000] * 70),
    ],
)
async def test_an_answer_that_is_not_http_is_broken(answer):
    connection, socket = connect()
    task = await start_exchange(connection)
    for piece in pieces(answer, range(0, len(answer), 50_000)):
        socket.arrive(piece)
    with pytest.raises(UpstreamError) as caught:
        await task
    assert not connection.is_stale
    assert caught.value.is_billed is (b" 200 " in answer)
    assert socket.is_closing()


@pytest.mark.parametrize(
    "answer",
    [
        head(200, "X: a", " folded: b", "Content-Length: 2") + b"ok",
        head(200, "X: a\0b", "Content-Length: 2") + b"ok",
        head(200, "2026-11-23 WARN a line of a log", "Content-Length: 2") + b"ok",
        head(200, "a name: 1", "Content-Length: 2") + b"ok",
        head(200, "Content-Length: 2", "Content-Length: 2") + b"ok",
        head(200, "Content-Length: 2, 2") + b"ok",
        head(200, "Content-Length : 2") + b"ok",
        head(200, "Content-Length: 99", "Transfer-Encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        head(103, "Link: </a>") + head(200, "X: a", " b", "Content-Length: 2") + b"ok",
        b"http/2 200\r\nContent-Length: 2\r\n\r\nok",
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
async def test_a_head_that_breaks_the_grammar_costs_no_second_answer(answer, size):
    connection, socket = connect()
    task = await start_exchange(connection)
    for piece in pieces(answer, range(0, len(answer), size)):
        socket.arrive(piece)
    await task
    assert connection.status == 200
    assert await whole(connection) == b"ok"
    assert not connection.is_reusable


@pytest.mark.parametrize("size", [1, 10_000])
async def test_a_repaired_head_without_a_length_ends_with_the_connection(size):
    connection, socket = connect()
    task = await start_exchange(connection)
    answer = head(500, "no header", "Retry-After: 3") + b"down"
    for piece in pieces(answer, range(0, len(answer), size)):
        socket.arrive(piece)
    await task
    assert (connection.status, connection.headers) == (500, {"retry-after": "3"})
    socket.end()
    assert await whole(connection) == b"down"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 1000 + b"\r\n"),
        (b"", head(103, "X: " + "x" * 1000)),
        (b"HTTP/1.1 200 ", b"x" * 1000),
        (CHUNKED + b"2\r\nok\r\n0\r\n", b"X: " + b"x" * 1000 + b"\r\n"),
        (CHUNKED + b"2\r\nok\r\n0\r\nX: ", b"x" * 1000),
        (CHUNKED + b"2;", b"x" * 1000),
    ],
)
async def test_an_answer_that_goes_on_and_says_nothing_is_broken_off(start, more):
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(start)
    for _ in range(100):
        socket.arrive(more)
    assert socket.is_closing()
    if not connection.status:
        with pytest.raises(UpstreamError):
            await task
    while connection._buffer:
        assert await connection.read() == b"ok"
    with pytest.raises(UpstreamError):
        await connection.read()


async def test_headers_of_equal_names_are_joined_and_others_kept_apart():
    answer = head(200, "Set-Cookie: a", "X: é", "SET-COOKIE: b", "Content-Length: 0", "Empty:")

    connection, socket = connect()
    await receive_answer(connection, socket, answer.decode().encode("latin-1"))
    assert connection.headers == {
        "set-cookie": "a, b",
        "x": "é",
        "content-length": "0",
        "empty": "",
    }


async def test_a_transfer_coding_that_has_no_end_of_its_own_ends_with_the_connection():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200, "Transfer-Encoding: gzip") + b"ab")
    socket.end()
    await task
    assert await whole(connection) == b"ab"


async def test_an_answer_to_head_has_no_body_whatever_it_says():
    connection, socket = connect()
    task = await start_exchange(connection, is_bodiless=True)
    socket.arrive(head(200, "Content-Length: 6") + b"poison")
    await task
    assert await connection.read() == b""
    assert not connection.is_reusable
