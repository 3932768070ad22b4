"""Decompresses answers that come compressed although that was not asked for, within limits.

A body of a few KiB can unpack to many GiB. So the unpacked size is limited, absolutely and in
proportion to the body, and the event loop runs between any two pieces.
"""

import asyncio
import codecs
import re
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

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
#: Most gzip files that one body may be joined of. Each costs some 40 µs, however short it is: 40 MB
#: of empty ones took a minute and a half.
MAX_MEMBERS: Final = 32_768
#: Ways to unpack a body: by the wrapper that it names, without one, or not at all.
_WRAPPED: Final = zlib.MAX_WBITS | 32
_RAW: Final = -zlib.MAX_WBITS
_PLAIN: Final = 0
_GZIP: Final = b"\x1f\x8b"
#: Bytes by which text is told from deflate without a wrapper.
_MIN_SNIFFED_BYTES: Final = 32
#: Beginnings of a body that is no packed one, after white space and a byte order mark.
_ANSWER_STARTS: Final = (b"{", b"[", b"data:", b"event:", b":", b"\xef\xbb\xbf")
_DECODED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_IDENTITIES: Final = frozenset({"", "identity"})
#: Codings of one body that are decoded one after another.
_MAX_CODINGS: Final = 3
_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
#: Reads also text that is cut in the middle of a letter.
_utf8_decoder: Final = codecs.getincrementaldecoder("utf-8")
#: Bytes that no text holds.
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")


class BodyDecoder(Protocol):
    """Decodes a body piece by piece."""

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of the body; b"" at its end.

        Args:
            more: Waits for the next packed bytes; b"" at their end.
        """


class GzipDecoder:
    """Decodes a body piece by piece that is said to be gzip or deflate.

    Some upstreams say so and mean something else: plain text, or deflate without its wrapper.
    Callers' own clients read those, and so does this.

    Args:
        coding: The coding that the upstream names: ``gzip``, ``x-gzip`` or ``deflate``.
    """

    def __init__(self, coding: str) -> None:
        self._may_be_raw = coding == "deflate"
        self._unpack: zlib._Decompress | None = None
        self._is_plain = False
        self._waiting = memoryview(b"")  # came, and was not read yet
        self._rest = b""  # was read in part
        self._failure: zlib.error | None = None
        self._packed_size = self._size = 0
        self._members = 1

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of the body; b"" at its end.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            zlib.error: If they are damaged or end too soon; what was whole was read before.
            UpstreamError: If they unpack to more than the bounds allow.
        """
        if self._unpack is None and not self._is_plain:
            await self._sniff(more)
        if self._is_plain:
            return await self._read_plain(more)
        while self._failure is None:
            packed = await self._next(more)
            if not packed:
                return self._check_size(self._last())
            if piece := self._decompress(packed):
                return self._check_size(piece)
        raise self._failure

    async def _sniff(self, more: Callable[[], Awaitable[bytes]]) -> None:
        """Read until it is known what the body is."""
        head = b""
        while (wbits := _window_bits(head, may_be_raw=self._may_be_raw)) is None:
            piece = await more()
            if not piece:
                self._is_plain = head == b"" or _is_text(head) or not self._may_be_raw
                wbits = _RAW
                break
            head += piece
        self._is_plain = self._is_plain or wbits == _PLAIN
        self._unpack = None if self._is_plain else zlib.decompressobj(wbits)
        self._waiting, self._packed_size = memoryview(head), len(head)

    async def _read_plain(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes, which are packed in no way."""
        head, self._waiting = bytes(self._waiting), memoryview(b"")
        return head or await more()

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

    def _decompress(self, packed: bytes | memoryview) -> bytes:
        """At most a piece's bytes; the rest of what is packed is kept."""
        unpack = self._unpack
        assert unpack is not None  # noqa: S101 - it was sniffed
        if unpack.eof:
            self._rest = b""
            if bytes(packed[:1]) != _GZIP[:1]:  # clients ignore what follows, and so does this
                return b""
            self._members += 1
            if self._members > MAX_MEMBERS:
                raise _too_large(f"more than {MAX_MEMBERS:,} parts")
            unpack = self._unpack = zlib.decompressobj(_WRAPPED)  # a body may be several gzip files
        before = unpack.copy()
        try:
            piece = unpack.decompress(packed, MAX_PIECE_BYTES)
        except zlib.error as error:
            self._failure = error
            return _salvage(before, packed)
        self._rest = unpack.unconsumed_tail or unpack.unused_data
        return piece

    def _last(self) -> bytes:
        """The bytes held back for the end; b"" once there is nothing more."""
        unpack = self._unpack
        assert unpack is not None  # noqa: S101 - it was sniffed
        piece = b"" if unpack.eof else unpack.flush()
        if not piece and not unpack.eof:
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
    """A body in an unsupported coding: nothing of it is passed on, unless it is JSON or events.

    Some upstreams name their letters there (``utf-8``), or nothing (``none``); some proxies unpack
    a body and leave its label. Callers' own clients read those, and so does this.

    Args:
        coding: The way, as the upstream names it.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._is_plain = False

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of a body that is coded in no way; b"" at its end.

        Args:
            more: Waits for the next packed bytes; b"" at their end.

        Raises:
            UpstreamError: If there is anything in it that is packed.
        """
        if self._is_plain:
            return await more()
        head = b""
        while len(head) < _MIN_SNIFFED_BYTES and (piece := await more()):
            head += piece
        start = head[:_MIN_SNIFFED_BYTES]
        self._is_plain = _is_text(start) and start.strip().startswith(_ANSWER_STARTS)
        if self._is_plain or not head:
            return head
        raise UpstreamError(
            f"The upstream's answer is coded as {self._coding[:40]}, which the gateway did not ask"
            " for and cannot read. It reads gzip and deflate.",
            status=502,
            code="upstream_malformed",
            retryable=False,  # it is paid for, and another attempt would be coded alike
        )


class _TwiceDecoded:
    """Decodes a body that was packed twice, and is said to be."""

    def __init__(self, inner: BodyDecoder, outer: BodyDecoder) -> None:
        self._inner, self._outer = inner, outer

    async def read(self, more: Callable[[], Awaitable[bytes]]) -> bytes:
        """The next bytes of the body, as each decoder reads them."""
        return await self._inner.read(partial(self._outer.read, more))


def decoder_for(coding: str) -> BodyDecoder | None:
    """The decoder for a body of this content coding; None for an identity coding.

    Args:
        coding: The header's value; of several, the last was applied last.
    """
    text = coding.strip().lower()
    codings = [name for part in text.split(",") if (name := part.strip()) not in _IDENTITIES]
    if not codings:
        return None
    if len(codings) > _MAX_CODINGS or not _DECODED.issuperset(codings):
        return UnsupportedCoding(text)
    decoder: BodyDecoder = GzipDecoder(codings[0])
    for name in codings[1:]:
        decoder = _TwiceDecoded(decoder, GzipDecoder(name))
    return decoder


def _window_bits(head: bytes, *, may_be_raw: bool) -> int | None:
    """The window that a body which begins so is unpacked with; None until enough is known.

    Args:
        head: Its first bytes.
        may_be_raw: True if it may be deflate without a wrapper, as old servers send it.
    """
    if len(head) < len(_GZIP):
        return None
    if head.startswith(_GZIP) or (head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0):
        return _WRAPPED
    if not may_be_raw:
        return _PLAIN
    if len(head) < _MIN_SNIFFED_BYTES:
        return None
    return _PLAIN if _is_text(head[:_MIN_SNIFFED_BYTES]) else _RAW


def _is_text(head: bytes) -> bool:
    """True if a body that begins so is text, which deflate's first bytes do not look like."""
    if head.startswith(_BYTE_ORDER_MARKS):
        return True
    try:
        _utf8_decoder().decode(head)
    except UnicodeDecodeError:
        return False
    return _CONTROLS.search(head) is None


def _salvage(unpack: "zlib._Decompress", packed: bytes | memoryview) -> bytes:
    """The bytes that a piece unpacks to before the byte at which it is damaged."""
    pieces, size = [], 0
    try:
        for start in range(len(packed)):
            pieces.append(unpack.decompress(packed[start : start + 1], MAX_PIECE_BYTES - size))
            size += len(pieces[-1])
            if size >= MAX_PIECE_BYTES:
                break
    except zlib.error:
        pass
    return b"".join(pieces)


def _too_large(what: str) -> UpstreamError:
    return UpstreamError(
        f"The upstream's compressed answer expands to {what}, and the gateway reads no more of it.",
        status=502,
        code="upstream_answer_too_large",
        retryable=False,
    )
