"""Reading any bytes of an upstream ends, in bounds, with a body or our own error."""

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.upstream.connection import Connection
from proxy.upstream.decoding import MAX_PIECE_BYTES
from proxy.upstream.http import HttpExchange
from tests.examples import examples
from tests.fakes.server import chunked_body, head
from tests.fakes.socket import FakeSocket

REQUEST = b"POST / HTTP/1.1\r\nhost: up\r\n\r\n"
BUFFER, HEAD = 256 * 1024, 64 * 1024
#: Words of the grammar, whole and spoiled, that random bytes would seldom hit.
WORDS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n", b"HTTP/1.1 204 \r\n", b"HTTP/1.1 304 X\r\n",
    b"HTTP/1.1 000 \r\n", b"HTTP/1.1 999 \r\n", b"HTTP/1.1 65736 OK\r\n", b"HTTP/9.9 200 OK\r\n",
    b"HTTP/1.1 200\n", b"ICY 200 OK\r\n", b"HTTP/2.0 200\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"Content-Length: -1\r\n",
    b"Content-Length: 18446744073709551616\r\n", b"Content-Length: 3, 3\r\n",
    b"Content-Length:\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding: chunked, identity\r\n", b"Connection: close\r\n",
    b"Connection: upgrade\r\n", b"Upgrade: h2c\r\n", b"Content-Encoding: gzip\r\n",
    b": no name\r\n", b"no colon\r\n", b" folded\r\n", b"X\0: y\r\n", b"X: \xff\0\r\n",
    b"\r\n", b"\n", b"\r", b"abc", b"3\r\nabc\r\n", b'3;x="y\r\n"\r\nabc\r\n', b"0\r\n\r\n",
    b"0\r\nTrailer: x\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"-1\r\n", b"3\nabc", b"0x3\r\nabc\r\n",
]  # fmt: skip
SPOKEN = st.lists(
    st.sampled_from(WORDS) | st.binary(min_size=1, max_size=6), min_size=1, max_size=12
).map(b"".join)
ANSWERS = [
    head(200, "Content-Length: 5") + b"whole",
    head(200, "Transfer-Encoding: chunked") + chunked_body(b"whole", b"and", b"well"),
    head(103, "Link: </a>") + head(200, "Connection: close") + b"to the end",
    head(204) + head(200, "Content-Length: 1") + b"x",
    head(200, "Content-Encoding: gzip", "Content-Length: 25") + gzip.compress(b"small", mtime=0),
    head(200, "Content-Encoding: gzip", "Transfer-Encoding: chunked")
    + chunked_body(
        *(gzip.compress(b"small" * 99, mtime=0)[start : start + 7] for start in range(0, 40, 7))
    ),
]
CUTS = st.lists(st.integers(0, 400), max_size=6)


@dataclass
class ReadAnswer:
    """The results of reading one answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    error: str
    most: int


@st.composite
def corrupt_answers(draw: st.DrawFn) -> bytes:
    """An answer in which some bytes are others, gone, doubled, or more."""
    raw = bytearray(draw(st.sampled_from(ANSWERS)))
    for _ in range(draw(st.integers(1, 4))):
        offset = draw(st.integers(0, max(len(raw) - 1, 0)))
        size = draw(st.integers(0, 9))
        other = draw(
            st.binary(max_size=3) | st.sampled_from(WORDS) | st.just(raw[offset : offset + size])
        )
        raw[offset : offset + draw(st.sampled_from([0, size]))] = other
    return bytes(raw)


def split_at(raw: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(raw) + 1) for cut in cuts}), len(raw)]
    return [raw[a:b] for a, b in pairwise(edges)]


async def heard(pieces: Sequence[bytes], *, is_bodiless: bool = False) -> ReadAnswer:
    """Outcome of reading these bytes and the connection's end; our own error at worst."""
    loop = asyncio.get_running_loop()
    connection = Connection(loop)
    socket = FakeSocket(loop, connection)
    answer = ReadAnswer(0, {}, b"", "", 0)

    async def read() -> None:
        try:
            await connection.exchange(REQUEST, b"", is_bodiless=is_bodiless)
            answer.status, answer.headers = connection.status, connection.headers
            while piece := await connection.read():
                answer.body += piece
        except UpstreamError as error:
            answer.error = error.detail

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    for piece in pieces:
        for _ in range(3):
            await asyncio.sleep(0)  # in which the reader takes what is there
        if not socket.is_paused:
            socket.arrive(piece)
            answer.most = max(answer.most, sum(map(len, connection._buffer)))
    socket.end()
    await asyncio.wait_for(reading, 5)
    header_bytes = sum(len(name) + len(value) for name, value in connection.headers.items())
    assert header_bytes <= HEAD + 2 * len(connection.headers)
    return answer


@examples(150)
@given(SPOKEN | corrupt_answers(), CUTS, st.booleans())
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", [], False)  # noqa: FBT003 - a case
def test_any_bytes_are_read_the_same_however_they_are_cut(raw, cuts, is_bodiless):
    whole = asyncio.run(heard([raw], is_bodiless=is_bodiless))
    in_pieces = asyncio.run(heard(split_at(raw, cuts), is_bodiless=is_bodiless))

    assert len(whole.body) <= len(raw)
    assert whole.status == 0 or 200 <= whole.status <= 999
    assert (in_pieces.status, in_pieces.headers) == (whole.status, whole.headers)
    assert (in_pieces.body, bool(in_pieces.error)) == (whole.body, bool(whole.error))


@examples(50)
@given(st.sampled_from(ANSWERS[:2]), st.integers(1, 120))
def test_an_answer_of_known_length_that_is_cut_short_is_never_whole(raw, missing):
    answer = asyncio.run(heard([raw[: max(len(raw) - missing, 0)]]))

    assert answer.error == "the connection ended"


@examples(50)
@given(st.binary(min_size=1, max_size=3), st.integers(1, 40), st.sampled_from(WORDS))
def test_a_head_that_never_ends_is_refused_in_bounded_memory(name, size, start):
    line = name.hex().encode() + b": " + b"v" * size + b"\r\n"
    piece = line * (16 * 1024 // len(line) + 1)
    opening = start if start.startswith(b"HTTP/1.1 2") else b"HTTP/1.1 200 OK\r\n"
    answer = asyncio.run(heard([opening, *[piece] * 8]))

    assert answer.error
    assert answer.body == b""


@pytest.mark.parametrize("size", [1, 2, 1024, 64 * 1024])
async def test_a_body_that_nobody_reads_is_held_up_to_a_bound(size):
    loop = asyncio.get_running_loop()
    connection = Connection(loop)
    socket = FakeSocket(loop, connection)
    task = asyncio.ensure_future(connection.exchange(REQUEST, b""))
    await asyncio.sleep(0)
    socket.arrive(head(200, "Transfer-Encoding: chunked"))
    chunk = b"%x\r\n%b\r\n" % (size, bytes(size))
    piece = chunk * max(16 * 1024 // len(chunk), 1)
    bytes_sent = 0
    while not socket.is_paused:
        socket.arrive(piece)
        bytes_sent += len(piece)
        assert bytes_sent <= 2 * BUFFER * len(chunk) / size + len(piece)
    await task
    assert BUFFER < connection._size <= BUFFER + len(piece)
    connection.close()


class OnePool:
    """Takes a connection back."""

    def release(self, connection: Connection) -> None:
        connection.close()


@examples(100)
@given(corrupt_answers(), CUTS)
def test_an_exchange_ends_with_a_body_or_an_error_of_the_upstreams(raw, cuts):
    async def work() -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(loop)
        socket = FakeSocket(loop, connection)
        task = asyncio.ensure_future(connection.exchange(REQUEST, b""))
        await asyncio.sleep(0)
        for piece in split_at(raw, cuts):
            socket.arrive(piece)
        socket.end()
        try:
            await task
        except UpstreamError:
            return
        failure: UpstreamError | None = None
        exchange = HttpExchange(connection, OnePool())  # type: ignore[arg-type]
        try:
            while piece := await asyncio.wait_for(exchange.read(), 5):
                assert len(piece) <= max(MAX_PIECE_BYTES, len(raw))
        except UpstreamError as error:
            failure = error
        exchange.close()
        assert failure is None or failure.status == 502

    asyncio.run(work())
