"""Receipts as lines of the journal, each of which can be checked by itself.

A line is a newline, eight hex digits of its CRC-32, a space, and the receipt in JSON. The newline
leads, so that a torn line never swallows the one after it.
"""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import msgspec

from proxy.records.receipt import Receipt

_NUL = b"\\u0000"
_USUAL_BYTES = 2_000
_MAX_TEXT_BYTES = (
    400  # six of them make the key of a rollup, and PostgreSQL indexes up to 2,704 bytes
)
_MAX_NOTES = 32
_MAX_PROMPT_BYTES = 4 << 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Receipt).decode


def encode(receipt: Receipt) -> bytes:
    """The receipt in JSON, fit for both databases: bounded, and free of NUL characters.

    Texts are cut at 400 bytes, notes after 32, a kept prompt after 4 MiB.
    """
    try:
        line = _encode(receipt)
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        return _encode(_fit(receipt))
    if len(line) > _USUAL_BYTES or line.find(_NUL) >= 0:
        return _encode(_fit(receipt))
    return line


def decode(line: bytes) -> Receipt:
    """The receipt in a line's JSON.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _decode(line)


def frame(line: bytes) -> bytes:
    """The bytes to append for a receipt in JSON."""
    return b"\n%08x " % crc32(line) + line


def strip_frame(framed: bytes) -> bytes:
    """The receipt in JSON of a line as ``frame`` made it."""
    return framed[10:]


def unframe(piece: bytes) -> bytes | None:
    """The JSON in what stands between two newlines; None where it is torn."""
    line = piece[9:]
    if piece[:8] == b"%08x" % crc32(line):
        return line
    return None


def _fit(receipt: Receipt) -> Receipt:
    fields: Mapping[str, Any] = msgspec.structs.asdict(receipt)
    fitted: dict[str, Any] = {
        name: _truncate(value, _MAX_TEXT_BYTES) if type(value) is str else value
        for name, value in fields.items()
    }
    fitted["notes"] = tuple(_truncate(note, _MAX_TEXT_BYTES) for note in receipt.notes[:_MAX_NOTES])
    if receipt.prompt is not None:
        fitted["prompt"] = _truncate(receipt.prompt, _MAX_PROMPT_BYTES)
    return Receipt(**fitted)


def _truncate(text: str, size: int) -> str:
    whole = text[:size].encode("utf-8", "replace").replace(b"\0", b"")
    return whole[:size].decode("utf-8", "ignore")
