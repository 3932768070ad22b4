"""Counts the values of a JSON text without parsing it.

A parser holds the interpreter until it is done, on whichever thread: 16 MiB with a million keys
take 0.5 s where it builds objects, and 30 ms where it builds none. Bytes inside strings cost next
to nothing. So texts are measured first, piece by piece, and other calls run in between.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

#: Bytes that are counted at once: a millisecond's work at most.
_PIECE_BYTES: Final = 64 * 1024
#: Bytes of a text in which, at its end, usage is looked for; and the id at its beginning.
_END_BYTES: Final = 64 * 1024
_START_BYTES: Final = 1024
_ID: Final = re.compile(rb'\s*\{\s*("id"\s*:\s*"[^"\\]{1,256}"\s*,)')
#: An event of a Responses stream: what has the usage stands one level further inside.
_RESPONSE: Final = re.compile(
    rb'\s*\{(?:\s*"\w+"\s*:\s*(?:"[^"\\]*"|\d+)\s*,)*\s*"response"\s*:\s*\{'
)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class JsonSize(NamedTuple):
    """The structure of a JSON text.

    Attributes:
        values: Commas and opened lists: as many as there are values, and a few more.
    """

    keys: int
    values: int

    def exceeds(self, limit: "JsonSize") -> bool:
        """True if there are more of either than the limit says."""
        return self.keys > limit.keys or self.values > limit.values


#: The most that a request may have. A thousand calls of tools and their results have 11,000 keys;
#: the largest request of embeddings has 300,000 numbers.
#: Source: OpenAI API reference, create embeddings, ``input`` (2026-11).
MAX_REQUEST: Final = JsonSize(keys=50_000, values=500_000)
#: The most of a request in whose lists messages and tools stand, which parsers make objects of. So
#: many values without keys are no conversation.
MAX_CONVERSATION: Final = JsonSize(keys=50_000, values=100_000)
#: The most of an answer that is parsed on the event loop, by a parser that builds no objects.
MAX_ANSWER: Final = JsonSize(keys=500_000, values=1_000_000)
#: The most of what an upstream sent that is parsed into objects on the event loop or off it: some
#: 10 ms of work, for a parser holds all threads up.
MAX_OBJECTS: Final = JsonSize(keys=50_000, values=250_000)
#: A text of fewer bytes has no more of either.
SMALL_BYTES: Final = 250_000


def may_exceed(text: bytes, limit: JsonSize) -> bool:
    """True if a text may have more than the limit, counted at once: for a few MiB."""
    return len(text) >= SMALL_BYTES and any(size.exceeds(limit) for size in loose_sizes(text))


def ends_of(answer: bytes) -> bytes:
    """An answer's id, its usage and what stands behind it, as JSON; b"" where there is no usage.

    What is behind the usage of the answer itself ends with the answer, and what is behind one
    further inside, with too many brackets; in a string, its quotation marks would be escaped.
    """
    position = answer.rfind(b'"usage"', max(len(answer) - _END_BYTES, 0))
    if position < 0:
        return b""
    id_match = _ID.match(answer, 0, _START_BYTES)
    start = b"{" + (id_match[1] if id_match else b"")
    if _RESPONSE.match(answer, 0, _START_BYTES):
        start = b'{"response":{'
    try:
        _object(start + answer[position:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    return start + answer[position:]


def loose_sizes(text: bytes) -> Iterator[JsonSize]:
    """The size so far, piece by piece, with what stands in strings: no less than there is.

    Nothing for a text so short that it is within every limit here.
    """
    if len(text) >= SMALL_BYTES:
        yield from _counts(text)


def _counts(text: bytes) -> Iterator[JsonSize]:
    keys = values = 0
    for start in range(0, len(text), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        keys += text.count(b":", start, end)
        values += text.count(b",", start, end) + text.count(b"[", start, end)
        yield JsonSize(keys, values)


class ExactCounter:
    """Counts a JSON text that comes in pieces, without what stands in strings."""

    def __init__(self) -> None:
        self._keys = self._values = 0
        self._is_inside = False
        self._escape = b""

    def sizes(self, piece: bytes, part_bytes: int = _PIECE_BYTES) -> Iterator[JsonSize]:
        """The size so far, after each part of the next piece of the text."""
        for start in range(0, len(piece), part_bytes):
            self._count(self._escape + piece[start : start + part_bytes])
            yield JsonSize(self._keys, self._values)

    def _count(self, part: bytes) -> None:
        is_cut = (len(part) - len(part.rstrip(b"\\"))) % 2
        self._escape = b"\\" * is_cut  # goes with what it escapes
        plain = part[: len(part) - is_cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = plain.split(b'"')
        outside = b" ".join(pieces[self._is_inside :: 2])
        self._is_inside ^= len(pieces) % 2 == 0
        self._keys += outside.count(b":")
        self._values += outside.count(b",") + outside.count(b"[")


class ArrivingText:
    """A JSON text that is measured while it arrives.

    Its pieces are counted with what stands in strings, which is quick. Only once these counts are
    over the limit are they counted again, exactly, and so are those that follow.

    Args:
        pieces: The pieces that are here; whoever receives them appends to it.
    """

    def __init__(self, limit: JsonSize, pieces: list[bytes]) -> None:
        self._limit = limit
        self._pieces = pieces
        self._loose = JsonSize(0, 0)
        self._exact = ExactCounter()
        self._counted = self._counted_exactly = 0

    def exceeds(self) -> Iterator[bool]:
        """True if the text is over the limit as far as it is counted, part by part.

        A part is a millisecond's work at most. A text of less than ``SMALL_BYTES`` need not be
        counted.
        """
        for piece in self._pieces[self._counted :]:
            keys, values = self._loose
            for size in _counts(piece):
                self._loose = JsonSize(keys + size.keys, values + size.values)
                yield False
        self._counted = len(self._pieces)
        if not self._loose.exceeds(self._limit):
            return
        for piece in self._pieces[self._counted_exactly :]:
            for size in self._exact.sizes(piece):
                if size.exceeds(self._limit):
                    yield True
                    return
                yield False
        self._counted_exactly = len(self._pieces)
