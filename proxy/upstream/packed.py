"""Bodies that come packed although nobody asked for it."""

import zlib
from collections.abc import Awaitable, Callable
from typing import Final

from proxy.wire.endings import malformed

#: Most bytes that are unpacked at once, however few they were packed into.
_MOST: Final = 256 * 1024


class Packed:
    """A body packed by gzip or deflate, unpacked piece by piece."""

    def __init__(self) -> None:
        self._unpack = _unpacking()
        self._rest = b""
        self._is_begun = False

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of the body; b"" at its end.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            zlib.error: If they are not packed so, or end too soon.
        """
        while True:
            packed = self._rest or await more()
            if not packed:
                return self._last()
            if self._unpack.eof:  # a gzip file may have more than one member
                self._unpack = _unpacking()
            self._is_begun = True
            piece = self._unpack.decompress(packed, _MOST)
            self._rest = self._unpack.unconsumed_tail or self._unpack.unused_data
            if piece:
                return piece

    def _last(self) -> bytes:
        """What was held back for the end; b"" once there is nothing more."""
        piece = b"" if self._unpack.eof or not self._is_begun else self._unpack.flush()
        if self._is_begun and not piece and not self._unpack.eof:
            raise zlib.error("the packed body ended too soon")
        return piece


class Sealed:
    """A body packed in a way that we cannot unpack: nothing of it is passed on."""

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """B"" for an empty body.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            UpstreamError: If there is anything in it.
        """
        if await more():
            raise malformed()
        return b""


def packed(coding: str) -> Packed | Sealed | None:
    """What unpacks a body of this content coding; None for what is not packed."""
    coding = coding.strip().lower()
    if coding in {"gzip", "x-gzip", "deflate"}:
        return Packed()
    return None if coding in {"", "identity"} else Sealed()


def _unpacking() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
