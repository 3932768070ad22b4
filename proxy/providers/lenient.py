"""Reads JSON as providers really write it; the caller gets the bytes unmodified.

Python's servers write ``NaN`` and ``Infinity``; some answers begin with a byte order mark, come in
UTF-16, hold half a surrogate pair or a control character within a string. None of that is JSON
(RFC 8259), and all of it was paid for.
"""

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Final, TypeVar

import msgspec

from proxy.providers.json_size import JsonSize, may_exceed

Shape = TypeVar("Shape")
Other = TypeVar("Other")
#: Errors of decoding a text that is no JSON, or has another shape.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: Longer texts are not read again.
_MAX_BYTES: Final = 4 * 1024 * 1024
#: The most that is read again, some 15 ms of work: parser and writer hold up all threads.
_MAX_SIZE: Final = JsonSize(keys=50_000, values=100_000)
#: The same for Python's own writer of JSON, which takes twenty times as long for numbers.
_MAX_SLOW_SIZE: Final = JsonSize(keys=10_000, values=10_000)
#: The byte order marks of UTF-16, with which UTF-32's begin, too.
UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
#: Integers that no double holds, which strict readers refuse: 309 digits and more.
_HUGE_INTEGER: Final = re.compile(r"[0-9]{309}")
#: Beginnings of what is nearly a JSON object or list.
OBJECT_STARTS: Final = (b"{", b"\xef\xbb\xbf", b"\0", *UTF16_MARKS)
NEAR_JSON_STARTS: Final = (*OBJECT_STARTS, b"[")


def decode_leniently(decoder: msgspec.json.Decoder[Shape], data: bytes) -> Shape:
    """Decode an answer or a piece of one, also where it is only nearly JSON.

    Raises:
        msgspec.DecodeError: If it is none.
        UnicodeDecodeError: Likewise.
        RecursionError: Likewise.
    """
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        return decoder.decode(to_strict_json(data) or data)


def decode_or(
    decode: Callable[[bytes | msgspec.Raw], Shape], data: bytes | msgspec.Raw, default: Other
) -> Shape | Other:
    """The decoded value; a default where it is no JSON, or has another shape."""
    try:
        return decode(data)
    except UNREADABLE:
        return default


def to_strict_json(raw: bytes) -> bytes | None:
    """The same as JSON that strict readers take; None where it is none even so.

    What is no number becomes null, half of a surrogate pair a question mark. UTF-16 and UTF-32 are
    read as Python's and most other clients read them, by their first bytes.
    """
    if len(raw) > _MAX_BYTES or may_exceed(raw, _MAX_SIZE):
        return None
    try:
        text = raw.decode(json.detect_encoding(raw), "replace")
        parse_int = _integer if _HUGE_INTEGER.search(text) else None
        value = json.loads(text, strict=False, parse_constant=_nothing, parse_int=parse_int)
        try:
            return msgspec.json.encode(value)  # which writes null for what is no finite number
        except (UnicodeEncodeError, OverflowError):  # half of a surrogate pair, or a long integer
            return None if may_exceed(raw, _MAX_SLOW_SIZE) else _rewrite(text)
    except (ValueError, RecursionError):
        return None


def _rewrite(text: str) -> bytes:
    """The same by Python's own parser and writer."""
    value = json.loads(
        text, strict=False, parse_constant=_nothing, parse_float=_number, parse_int=_integer
    )
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _nothing(_: str) -> None:
    return None


def _number(text: str) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


def _integer(text: str) -> int | None:
    return None if _HUGE_INTEGER.search(text) else int(text)
