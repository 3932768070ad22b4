"""Any bytes of a caller: nothing raises, nothing is answered twice, and the connection ends.

What is a valid request is answered as uvicorn answers it, byte for byte, however it is cut.
"""

import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy.api.connections.server_protocol import ServerProtocol
from tests.examples import examples
from tests.proxy.api.server_fixtures import SAYS, RecordingTransport, body_of, length, part, start

#: Words of the grammar, whole and spoiled, that random bytes would seldom hit.
WORDS = [
    b"GET /plain HTTP/1.1\r\n", b"POST /heard HTTP/1.1\r\n", b"HEAD /chunks HTTP/1.1\r\n",
    b"GET /plain HTTP/1.0\r\n", b"GET /plain HTTP/9.9\r\n", b"GET /plain\r\n",
    b"CONNECT us:443 HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"GET //[ HTTP/1.1\r\n",
    b"GET http://us/plain HTTP/1.1\r\n", b"GET http://us:99999/ HTTP/1.1\r\n",
    b"GET /\xff%zz%00 HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00",
    b"host: us\r\n", b"content-length: 3\r\n", b"content-length: 0\r\n", b"content-length: -1\r\n",
    b"content-length: 18446744073709551616\r\n", b"content-length: 3, 3\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: gzip\r\n", b"connection: close\r\n",
    b"connection: upgrade\r\nupgrade: websocket\r\n", b"upgrade: h2c\r\n",
    b"expect: 100-continue\r\n", b"connection: keep-alive\r\n", b": x\r\n", b"no colon\r\n",
    b" folded\r\n", b"x\0: y\r\n", b"x: \xff\0\r\n", b"\r\n", b"\n", b"\r", b"abc",
    b"3\r\nabc\r\n", b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"-1\r\n",
]  # fmt: skip
PATHS = ["/heard", "/a%20b/%C3%A9?q=%20&r", "/plain", "/chunks", "/pieces", "/gone", "/closes"]
STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) ")
CUTS = st.lists(st.integers(0, 2000), max_size=8)
SPOKEN = st.lists(
    st.sampled_from(WORDS) | st.binary(min_size=1, max_size=6), min_size=1, max_size=16
).map(b"".join)


class Line(RecordingTransport):
    """A connection that remembers what was said after it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[bytes] = []
        self.is_lost = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        (self.late if self.is_closing() else self.written).append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_lost or b"(closed)" in self.written or b"(aborted)" in self.written

    @property
    def said(self) -> bytes:
        """All that went to the caller, and whether it ended there."""
        return b"".join(piece for piece in self.written if piece not in {b"(paused)", b"(resumed)"})


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request that is valid."""
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    framing = draw(st.sampled_from(["none", "length", "chunked" if version == "1.1" else "none"]))
    method = draw(st.sampled_from(["GET", "HEAD", "DELETE"] if framing == "none" else ["POST"]))
    body = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=3))
    lines = draw(st.lists(st.sampled_from(["x-a: b", "X-A: c", "accept: */*", "x-e:"]), max_size=3))
    if framing == "length":
        lines.append(f"Content-Length: {len(b''.join(body))}")
    elif framing == "chunked":
        lines.append("transfer-encoding: chunked")
    if says := draw(st.sampled_from(["", "", "", "close", "keep-alive"])):
        lines.append(f"connection: {says}")
    lines = draw(st.permutations(lines))
    first = f"{method} {draw(st.sampled_from(PATHS))} HTTP/{version}"
    raw = "\r\n".join([first, "host: us", *lines, "", ""]).encode()
    if framing == "length":
        raw += b"".join(body)
    elif framing == "chunked":
        raw += b"".join(b"%x;a=b\r\n%b\r\n" % (len(chunk), chunk) for chunk in body) + b"0\r\n\r\n"
    return raw


@st.composite
def corrupt_requests(draw: st.DrawFn) -> bytes:
    """Requests in which some bytes are others, gone, doubled, or more."""
    raw = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(len(raw) - 1, 0)))
        size = draw(st.integers(0, 9))
        other = draw(
            st.binary(max_size=3)
            | st.sampled_from(WORDS)
            | st.just(raw[position : position + size])
        )
        raw[position : position + draw(st.sampled_from([0, size]))] = other
    return bytes(raw)


def split_at(raw: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(raw) + 1) for cut in cuts}), len(raw)]
    return [raw[a:b] for a, b in pairwise(edges) if b > a]


async def recording_echo_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what stands at the path, and at others what it heard; remembers who asked."""
    scope["state"]["asked"].append(scope["method"])
    for _ in range(scope["state"]["turns"]):
        await asyncio.sleep(0)
    if messages := SAYS.get(scope["path"]):
        for message in messages:
            await send(message)
            for _ in range(scope["state"]["turns"]):
                await asyncio.sleep(0)
        return
    heard = b"".join(b"%b=%b;" % header for header in scope["headers"]) + await body_of(receive)
    await send(start(200, length(len(heard))))
    await send(part(heard))


CONFIG = Config(
    recording_echo_app, ws="none", log_config=None, access_log=False, timeout_keep_alive=5
)
CONFIG.load()


async def said(
    protocol: type[HttpToolsProtocol],
    pieces: Sequence[bytes],
    *,
    slow: int = 0,
    patience: int = 100,
) -> tuple[bytes, list[str]]:
    """Return what goes to a caller that sends these, and what the app was asked for.

    Args:
        protocol: Whose side of the connection.
        pieces: What the caller sends, in turn.
        slow: Turns of the loop that the app takes before each of its words.
        patience: Turns of the loop in which the caller waits for the answers.
    """
    requests: list[str] = []
    state, line = ServerState(), Line()
    connection = protocol(CONFIG, state, {"asked": requests, "turns": slow})
    connection.connection_made(line)
    for piece in pieces:
        if line.is_closing():
            break
        connection.data_received(piece)
        await turns(1 if slow else 12)
    await turns(patience + 60 * slow)
    output = line.said
    line.is_lost = True
    connection.connection_lost(None)
    await turns(12 + 60 * slow)
    assert not state.tasks
    assert line.late == []
    assert not state.connections
    return output, requests


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def answers(output: bytes, requests: Sequence[str]) -> list[int]:
    """The statuses of the answers on the wire, each of which has to be whole but for the last."""
    statuses: list[int] = []
    rest, is_closed = output.removesuffix(b"(closed)"), output.endswith(b"(closed)")
    while rest:
        opening = STATUS_LINE.match(rest)
        assert opening, rest
        head, _, rest = rest.partition(b"\r\n\r\n")
        status = int(opening[1])
        if status == 100:
            continue
        method = requests[len(statuses)] if len(statuses) < len(requests) else ""
        statuses.append(status)
        if (method == "HEAD" and status != 400) or status in {204, 304}:
            continue
        if sized := re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE):
            assert len(rest) >= int(sized[1]) or is_closed
            rest = rest[int(sized[1]) :]
        else:
            assert b"chunked" in head.lower()
            rest = after_chunks(rest, is_closed=is_closed)
    return statuses


def after_chunks(rest: bytes, *, is_closed: bool) -> bytes:
    """Bytes that follow a body in chunks; b"" where it broke off and the connection ended."""
    while chunk := re.match(rb"([0-9a-f]+)\r\n", rest):
        size = int(chunk[1], 16)
        piece, rest = rest[chunk.end() :][: size + 2], rest[chunk.end() + size + 2 :]
        assert piece.endswith(b"\r\n")
        if not size:
            return rest
    assert not rest
    return rest


@examples(30)
@given(st.lists(requests(), min_size=1, max_size=4), CUTS)
def test_valid_requests_are_answered_as_uvicorn_answers_them_however_they_are_cut(parts, cuts):
    pieces = split_at(b"".join(parts), cuts)
    ours, theirs = (
        asyncio.run(said(protocol, pieces)) for protocol in (ServerProtocol, HttpToolsProtocol)
    )

    assert ours[0]
    assert ours == theirs


@pytest.mark.slow
@examples(10)
@given(st.lists(requests(), min_size=20, max_size=30), st.integers(1, 3))
def test_long_pipelines_are_answered_as_uvicorn_answers_them(parts, turns_of_app):
    pieces = [b"".join(parts)]
    ours, theirs = (
        asyncio.run(said(protocol, pieces, slow=turns_of_app, patience=2500))
        for protocol in (ServerProtocol, HttpToolsProtocol)
    )

    assert ours[0]
    assert ours == theirs


@pytest.mark.slow
@examples(75)
@given(SPOKEN | corrupt_requests(), CUTS, st.integers(0, 2))
@example(b"GET /plain HTTP/1.1\r\nhost: us\r\n\r\n" * 40, [], 0)
@example(b"GET /plain HTTP/1.1\r\n\r\nGET /pieces HTTP/1.1\r\n\r\nno words\r\n\r\n", [], 0)
@example(b"POST /chunks HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\0\r\n\r\n", [52, 53], 1)
@example(b"GET /chunks HTTP/1.1\r\n\r\nno words\r\n\r\n", [24, 26], 2)
@example(b"HEAD /heard HTTP/1.1\r\n\r\n\0", [], 0)
@example(b"GET /gone HTTP/1.1\r\n\r\n\0", [], 0)
def test_any_bytes_are_answered_in_turn_and_what_is_wrong_with_400(raw, cuts, slow):
    output, requests = asyncio.run(said(ServerProtocol, split_at(raw, cuts), slow=slow))
    statuses = answers(output, requests)

    assert len(statuses) <= len(requests) + 1  # one more for what is no request
    assert all(status < 500 for status in statuses)
    if len(statuses) > len(requests):
        assert statuses[-1] == 400
    if 400 in statuses:
        assert statuses[-1] == 400
        assert output.endswith(b"(closed)")


@examples(14)
@given(st.sampled_from(WORDS[:4]), st.binary(min_size=1, max_size=4), st.integers(1, 60))
def test_a_head_without_end_is_refused_in_bounds(opening, name, size):
    piece = name.hex().encode() + b": " + b"v" * size + b"\r\n"
    pieces = [opening, *[piece * (8 * 1024 // len(piece))] * 10]
    output, requests = asyncio.run(said(ServerProtocol, pieces))

    assert output.startswith(b"HTTP/1.1 431 ")
    assert output.endswith(b"(closed)")
    assert requests == []


@examples(20)
@given(corrupt_requests(), CUTS, st.integers(0, 500))
def test_a_caller_that_leaves_at_any_byte_leaves_nothing_running(raw, cuts, end):
    output, requests = asyncio.run(said(ServerProtocol, split_at(raw[: end % len(raw)], cuts)))

    assert len(answers(output, requests)) <= len(requests) + 1


def test_the_answer_to_a_head_request_goes_before_the_refusal_of_what_follows():
    pieces = [
        b"HEAD /heard HTTP/1.1\r\nhost: us\r\n\r\n",
        b"P",
        b"OST /heard HTTP/1.1\r\nhost: us\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n",
    ]
    output, requests = asyncio.run(said(ServerProtocol, pieces, slow=1))

    assert answers(output, requests) == [200, 400]
