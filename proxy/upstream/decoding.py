"""Decodes bodies that come compressed although that was not asked for, within bounds.

A body of a few KiB can be packed so that it unpacks to many GiB. What is unpacked is bounded in
size and in proportion to what came, and the event loop runs between any two pieces.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from proxy.errors import UpstreamError

#: Most bytes that are unpacked at once, however few they were packed into: a fraction of a
#: millisecond's work.
MAX_PIECE_BYTES: Final = 64 * 1024
#: Most packed bytes that are read at once: the rest is copied each time.
MAX_COMPRESSED_PIECE_BYTES: Final = 16 * 1024
#: Most bytes that one body may unpack to.
MAX_DECODED_BYTES: Final = 256 * 1024 * 1024
#: Most bytes that one packed byte may unpack to, once there are more than the next constant says.
#: Answers reach 20 or so, streams of many like events 50; deflate can reach 1032.
MAX_COMPRESSION_RATIO: Final = 100
#: Bytes that any body may unpack to.
MIN_RATIO_CHECK_BYTES: Final = 1024 * 1024


class GzipDecoder:
    """Decodes a gzip or deflate body piece by piece."""

    def __init__(self) -> None:
        self._unpack = _decompressor()
        self._waiting = memoryview(b"")  # came, and was not read yet
        self._rest = b""  # was read in part
        self._is_begun = False
        self._packed_size = self._size = 0

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of the body; b"" at its end.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            zlib.error: If they are not packed so, or end too soon.
            UpstreamError: If they unpack to more than the bounds allow.
        """
        while True:
            packed = await self._next(more)
            if not packed:
                return self._check_size(self._last())
            if self._unpack.eof:  # a gzip file may have more than one member
                self._unpack = _decompressor()
            self._is_begun = True
            piece = self._unpack.decompress(packed, MAX_PIECE_BYTES)
            self._rest = self._unpack.unconsumed_tail or self._unpack.unused_data
            if piece:
                return self._check_size(piece)

    async def _next(self, more: Callable[[], Awaitable[bytes]]) -> bytes | memoryview:
        """The next packed bytes; others run before they are taken."""
        if self._rest or self._waiting:
            await asyncio.sleep(0)
        else:
            self._waiting = memoryview(await more())
            self._packed_size += len(self._waiting)
        if self._rest:
            return self._rest
        packed = self._waiting[:MAX_COMPRESSED_PIECE_BYTES]
        self._waiting = self._waiting[MAX_COMPRESSED_PIECE_BYTES:]
        return packed

    def _last(self) -> bytes:
        """The bytes held back for the end; b"" once there is nothing more."""
        piece = b"" if self._unpack.eof or not self._is_begun else self._unpack.flush()
        if self._is_begun and not piece and not self._unpack.eof:
            raise zlib.error("the packed body ended too soon")
        return piece

    def _check_size(self, piece: bytes) -> bytes:
        """The piece, if the body is within its bounds with it."""
        self._size += len(piece)
        if self._size > MAX_DECODED_BYTES:
            raise _too_large(f"more than {MAX_DECODED_BYTES >> 20} MiB")
        if self._size > max(MIN_RATIO_CHECK_BYTES, MAX_COMPRESSION_RATIO * self._packed_size):
            raise _too_large(f"more than {MAX_COMPRESSION_RATIO} times its size")
        return piece


class UnsupportedCoding:
    """A body in an unsupported coding: nothing of it is passed on.

    Args:
        coding: The way, as the upstream names it.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """B"" for an empty body.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            UpstreamError: If there is anything in it.
        """
        if not await more():
            return b""
        raise UpstreamError(
            f"The upstream's answer is coded as {self._coding[:40]}, which the gateway did not ask"
            " for and cannot read. It reads gzip and deflate.",
            status=502,
            code="upstream_malformed",
            retryable=False,  # it is paid for, and another attempt would be coded alike
        )


def decoder_for(coding: str) -> GzipDecoder | UnsupportedCoding | None:
    """The decoder for a body of this content coding; None for an identity coding."""
    coding = coding.strip().lower()
    if coding in {"gzip", "x-gzip", "deflate"}:
        return GzipDecoder()
    return None if coding in {"", "identity"} else UnsupportedCoding(coding)


def _decompressor() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)


def _too_large(what: str) -> UpstreamError:
    return UpstreamError(
        f"The upstream's compressed answer expands to {what}, and the gateway reads no more of it.",
        status=502,
        code="upstream_answer_too_large",
        retryable=False,
    )
