import asyncio
import gzip
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.upstream.packed import packed

BOUND = 256 * 1024


async def unpacked(coding: str, pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces a body of this coding is read in."""
    opened, coming, read = packed(coding), list(pieces), []
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
        cut = [raw[at : at + size] for at in range(0, len(raw), size)]
        assert b"".join(asyncio.run(unpacked(coding, cut))) == body


def test_no_more_than_a_bound_is_unpacked_at_once():
    body = b"x" * (20 * BOUND + 7)

    read = asyncio.run(unpacked("gzip", [gzip.compress(body)]))

    assert b"".join(read) == body
    assert max(map(len, read)) <= BOUND


@pytest.mark.parametrize("over", [-1, 0, 1, 100, 258])
def test_what_is_held_back_at_the_bound_is_not_lost(over):
    body = b"x" * (BOUND + over)
    raw = gzip.compress(body)

    assert b"".join(asyncio.run(unpacked("gzip", [raw[:-9], raw[-9:]]))) == body


def test_an_empty_body_is_empty():
    assert asyncio.run(unpacked("gzip", [])) == []


@pytest.mark.parametrize(
    "pieces",
    [[b"plain"], [gzip.compress(b"whole")[:-3]], [gzip.compress(b"whole") + b"more"], [b"\x1f"]],
)
def test_what_is_not_packed_so_or_ends_too_soon_is_an_error(pieces):
    with pytest.raises(zlib.error):
        asyncio.run(unpacked("gzip", pieces))


@pytest.mark.parametrize("coding", ["", "identity", " Identity"])
def test_what_is_not_packed_is_passed_on_as_it_is(coding):
    assert packed(coding) is None


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br"])
def test_what_we_cannot_unpack_is_an_error_unless_it_is_empty(coding):
    assert asyncio.run(unpacked(coding, [])) == []
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(unpacked(coding, [b"\x1b\x03"]))

    assert caught.value.code == "upstream_malformed"
