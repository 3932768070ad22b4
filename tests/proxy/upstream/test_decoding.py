import asyncio
import gzip
import hashlib
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.upstream.decoding import (
    MAX_COMPRESSION_RATIO,
    MAX_DECODED_BYTES,
    MAX_MEMBERS,
    MAX_PIECE_BYTES,
    MIN_RATIO_CHECK_BYTES,
    decoder_for,
)
from tests.fakes.loop_turns import with_loop_turns

BOUND = MAX_PIECE_BYTES


async def decode(coding: str, pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces a body of this coding is read in."""
    opened, coming, read = decoder_for(coding), list(pieces), []
    assert opened is not None

    async def more() -> bytes:
        return coming.pop(0) if coming else b""

    while piece := await opened.read(more):
        read.append(piece)
    assert await opened.read(more) == b""
    return read


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.integers(1, 50))
def test_a_body_is_the_same_however_it_was_packed_and_cut(members, size):
    body = b"".join(members)
    files = b"".join(gzip.compress(member) for member in members)
    for coding, raw in [("gzip", files), ("X-Gzip", files), (" deflate", zlib.compress(body))]:
        cut = [raw[start : start + size] for start in range(0, len(raw), size)]
        assert b"".join(asyncio.run(decode(coding, cut))) == body


def test_no_more_than_a_bound_is_unpacked_at_once():
    body = b"x" * (10 * BOUND + 7)

    read = asyncio.run(decode("gzip", [gzip.compress(body)]))

    assert b"".join(read) == body
    assert max(map(len, read)) <= BOUND


@pytest.mark.parametrize("over", [-1, 0, 1, 100, 258])
def test_bytes_held_back_at_the_bound_are_not_lost(over):
    body = b"x" * (BOUND + over)
    raw = gzip.compress(body)

    assert b"".join(asyncio.run(decode("gzip", [raw[:-9], raw[-9:]]))) == body


def test_an_empty_body_is_empty():
    assert asyncio.run(decode("gzip", [])) == []


@pytest.mark.parametrize(
    "pieces",
    [
        [gzip.compress(b"whole")[:-3]],
        [gzip.compress(b"whole")[:-8] + bytes(8)],
        [gzip.compress(b"whole") + gzip.compress(b"more")[:9]],
        [b"\x1f\x8b"],
        [b"\x1f", b"\x8b\x09"],
    ],
)
def test_a_body_with_a_wrong_coding_or_truncated_is_an_error(pieces):
    with pytest.raises(zlib.error):
        asyncio.run(decode("gzip", pieces))


def raw_deflate(body: bytes) -> bytes:
    """Deflate without zlib's wrapper, as old servers send it."""
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(body) + packing.flush()


ANSWER = b'{"id":"chatcmpl-1","choices":[{"message":{"content":"plain \xc3\xa9"}}]}'
UTF_16 = ANSWER.decode().encode("utf-16")


@pytest.mark.parametrize(
    ("coding", "raw", "body"),
    [
        pytest.param("gzip", ANSWER, ANSWER, id="plain as gzip"),
        pytest.param("deflate", ANSWER, ANSWER, id="plain as deflate"),
        pytest.param("gzip", b"ok", b"ok", id="short as gzip"),
        pytest.param("deflate", b"ok", b"ok", id="short as deflate"),
        pytest.param(
            "deflate", b": alive\n\n" + ANSWER, b": alive\n\n" + ANSWER, id="stream as deflate"
        ),
        pytest.param("gzip", UTF_16, UTF_16, id="UTF-16 as gzip"),
        pytest.param("deflate", UTF_16, UTF_16, id="UTF-16 as deflate"),
        pytest.param("deflate", raw_deflate(ANSWER), ANSWER, id="raw deflate"),
        pytest.param("deflate", raw_deflate(b"ok"), b"ok", id="short raw deflate"),
        pytest.param("deflate", gzip.compress(ANSWER), ANSWER, id="gzip as deflate"),
        pytest.param("gzip", zlib.compress(ANSWER), ANSWER, id="zlib as gzip"),
        pytest.param("gzip", gzip.compress(ANSWER) + b"more", ANSWER, id="gzip and more"),
        pytest.param("deflate", zlib.compress(ANSWER) + b"\0\0", ANSWER, id="zlib and zeros"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_under_a_wrong_label_is_read_as_what_it_is(coding, raw, body, size):
    cut = [raw[start : start + size] for start in range(0, len(raw), size)]

    assert b"".join(asyncio.run(decode(coding, cut))) == body


async def test_the_whole_part_of_a_damaged_body_is_read_before_the_error():
    packed = bytearray(gzip.compress(ANSWER))
    packed[-6] ^= 0xFF  # its checksum

    opened, coming = decoder_for("gzip"), [bytes(packed)]
    assert opened is not None

    async def more() -> bytes:
        return coming.pop(0) if coming else b""

    piece = await opened.read(more)
    for _ in range(2):
        with pytest.raises(zlib.error):
            await opened.read(more)

    assert piece == ANSWER


@pytest.mark.parametrize("coding", ["", "identity", " Identity"])
def test_a_body_without_a_coding_is_passed_on_unmodified(coding):
    assert decoder_for(coding) is None


@pytest.mark.parametrize("coding", ["utf-8", "none", "br", "aws-chunked"])
@pytest.mark.parametrize("body", [b'{"id":"c"}', b"\xef\xbb\xbf[1]", b" data: {}\n\n" + b"a" * 99])
def test_a_body_that_is_coded_in_no_way_is_read_whatever_its_label_says(coding, body):
    assert asyncio.run(decode(coding, [body[:4], body[4:]])) != []
    assert b"".join(asyncio.run(decode(coding, [body[:4], body[4:]]))) == body


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip, gzip", gzip.compress(gzip.compress(ANSWER))),
        ("deflate, gzip", gzip.compress(zlib.compress(ANSWER))),
        ("identity, gzip", gzip.compress(ANSWER)),
        ("gzip, identity", gzip.compress(ANSWER)),
    ],
    ids=["gzip twice", "deflate in gzip", "gzip last", "gzip first"],
)
def test_a_body_packed_more_than_once_is_read(coding, body):
    assert b"".join(asyncio.run(decode(coding, [body[:9], body[9:]]))) == ANSWER


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip, gzip, gzip, gzip"])
def test_an_unsupported_coding_is_an_error_unless_the_body_is_empty(coding):
    assert asyncio.run(decode(coding, [])) == []
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(decode(coding, [b"\x1b\x03"]))

    assert (caught.value.status, caught.value.code) == (502, "upstream_malformed")
    assert f"coded as {coding}" in caught.value.message


def bomb(size: int) -> bytes:
    """So many bytes, packed as small as they can be."""
    packing = zlib.compressobj(9)
    pieces = (packing.compress(bytes(1 << 20)) for _ in range(size >> 20))
    return b"".join(pieces) + packing.flush()


async def size_and_error(pieces: Sequence[bytes], coding: str = "deflate") -> tuple[int, str]:
    """Number of bytes are unpacked before the error, and what it says."""
    opened, coming, size = decoder_for(coding), list(pieces), 0
    assert opened is not None

    async def more() -> bytes:
        return coming.pop(0) if coming else b""

    try:
        while piece := await opened.read(more):
            size += len(piece)
    except UpstreamError as error:
        failure = (error.status, error.code, error.retryable)
        assert failure == (502, "upstream_answer_too_large", False)
        return size, error.message
    raise AssertionError(f"all {size} bytes were read")


def test_a_body_that_expands_a_thousandfold_is_read_to_a_hundredfold():
    raw = bomb(64 << 20)

    size, message = asyncio.run(size_and_error([raw]))

    assert MAX_COMPRESSION_RATIO * len(raw) - BOUND < size <= MAX_COMPRESSION_RATIO * len(raw)
    assert "100 times" in message


def test_a_small_body_may_expand_as_far_as_it_does():
    raw = bomb(MIN_RATIO_CHECK_BYTES)

    assert sum(map(len, asyncio.run(decode("deflate", [raw])))) == MIN_RATIO_CHECK_BYTES


def test_a_body_of_very_many_files_is_read_no_further():
    size, message = asyncio.run(size_and_error([gzip.compress(b"") * (MAX_MEMBERS + 1)], "gzip"))

    assert size == 0
    assert "32,768 parts" in message


def test_a_body_is_read_to_256_mib():
    noise = b"".join(hashlib.sha256(b"%d" % seed).digest() for seed in range(22))
    packing = zlib.compressobj(1)
    many = (packing.compress((noise + bytes(49_300)) * 20) for _ in range(300))

    size, message = asyncio.run(size_and_error([*many, packing.flush()]))

    assert MAX_DECODED_BYTES - BOUND < size <= MAX_DECODED_BYTES
    assert "256 MiB" in message


@pytest.mark.parametrize(
    ("raw", "pieces"),
    [(gzip.compress(bytes(MIN_RATIO_CHECK_BYTES)), 14), (gzip.compress(b"") * 20_000, 20)],
    ids=["a large body", "many empty files"],
)
def test_other_tasks_run_between_two_pieces_of_one_packed_body(raw, pieces):
    _, turns = asyncio.run(with_loop_turns(decode("gzip", [raw])))

    assert turns >= pieces
