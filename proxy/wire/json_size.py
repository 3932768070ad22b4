"""How much structure a JSON text has, counted without parsing it.

A parser holds the interpreter until it is through, in whatever thread: 16 MiB with a million keys
take it 0.5 s where it builds objects, and 30 ms where it builds none. Bytes inside of strings cost
next to nothing. So texts are measured first, piece by piece, and other calls run between two.
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
        keys: Keys of all objects.
        values: Commas and opened lists: as many as there are values, and a few more.
    """

    keys: int
    values: int

    def exceeds(self, limit: "JsonSize") -> bool:
        """Whether there are more of either than the limit says."""
        return self.keys > limit.keys or self.values > limit.values


#: The most that a request may have. A thousand calls of tools and their results have 11,000 keys;
#: the largest request of embeddings has 300,000 numbers.
#: Source: OpenAI API reference, create embeddings, ``input`` (2026-11).
MAX_REQUEST: Final = JsonSize(keys=50_000, values=500_000)
#: The most of an answer that is parsed on the event loop, by a parser that builds no objects.
MAX_ANSWER: Final = JsonSize(keys=500_000, values=1_000_000)
#: A text of fewer bytes has no more of either.
SMALL_BYTES: Final = 250_000


def may_exceed(text: bytes, limit: JsonSize) -> bool:
    """Whether a text may have more than the limit, counted at once: for a few MiB."""
    return any(each.exceeds(limit) for each in loose_sizes(text))


def ends_of(answer: bytes) -> bytes:
    """An answer's id, its usage and what stands behind it, as JSON; b"" where there is no usage.

    What is behind the usage of the answer itself ends with the answer, and what is behind one
    further inside, with too many brackets; in a string, its quotation marks would be escaped.
    """
    at = answer.rfind(b'"usage"', max(len(answer) - _END_BYTES, 0))
    if at < 0:
        return b""
    found = _ID.match(answer, 0, _START_BYTES)
    start = b"{" + (found[1] if found else b"")
    if _RESPONSE.match(answer, 0, _START_BYTES):
        start = b'{"response":{'
    try:
        _object(start + answer[at:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    return start + answer[at:]


def loose_sizes(text: bytes) -> Iterator[JsonSize]:
    """The size so far, piece by piece, with what stands in strings: no less than there is.

    Nothing for a text so short that it is within every limit here.
    """
    keys = values = 0
    if len(text) < SMALL_BYTES:
        return
    for start in range(0, len(text), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        keys += text.count(b":", start, end)
        values += text.count(b",", start, end) + text.count(b"[", start, end)
        yield JsonSize(keys, values)


def exact_sizes(text: bytes, piece_bytes: int = _PIECE_BYTES) -> Iterator[JsonSize]:
    """The size so far, piece by piece, without what stands in strings."""
    keys = values = start = 0
    is_inside = False
    while start < len(text):
        piece = text[start : start + piece_bytes]
        escapes = len(piece) - len(piece.rstrip(b"\\"))
        if escapes % 2 and start + len(piece) < len(text):
            piece = piece[:-1]  # goes with what it escapes
        start += len(piece)
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = plain.split(b'"')
        outside = b" ".join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0
        keys += outside.count(b":")
        values += outside.count(b",") + outside.count(b"[")
        yield JsonSize(keys, values)
