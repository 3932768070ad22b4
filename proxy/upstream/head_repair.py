"""Reads the head of an answer that breaks HTTP's grammar, as lenient clients do; pure.

A provider's proxy may fold a header, state a length twice or let a log line slip in. Behind such a
head stands an answer that was generated and paid for, so it is read rather than bought again.
"""

import re
from typing import Final, NamedTuple

#: Interim answers that may stand before the one that counts.
_MAX_INTERIM: Final = 16
_START: Final = b"HTTP/1."
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] +([1-5]\d\d)(?: [^\r\n]*)?(?=\r?\n|\Z)")
_LINE_END: Final = re.compile(rb"\r?\n")
_FOLD: Final = re.compile(rb"[ \t]*\r?\n[ \t]+")
#: Source: RFC 9110, section 5.6.2 (2022-06).
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH: Final = re.compile(rb"\d{1,18}")


class RepairedHead(NamedTuple):
    """A head within HTTP's grammar, and what came behind it."""

    head: bytes
    body: bytes


def status_in(raw: bytes) -> int:
    """The status of the last head that begins in these bytes; 0 where there is none."""
    return _split_interim(raw)[0]


def repair_head(raw: bytes) -> RepairedHead | None:
    """The answer's head, repaired; None while its end has not come.

    Lines that are no header are left out, and so are a length beside chunks and one stated twice.

    Args:
        raw: All that came of the answer, interim ones before it included.

    Raises:
        ValueError: If it is no answer of HTTP/1, or says two things of its length.
    """
    status, raw = _split_interim(raw)
    end = _BLANK_LINE.search(raw)
    if not status and (b"\n" in raw or not _START.startswith(raw[: len(_START)])):
        raise ValueError("no status line")
    if not status or end is None:
        return None
    first, *lines = _LINE_END.split(_FOLD.sub(b" ", raw[: end.start()]))
    fields = [field for line in lines if (field := _parse_field(line)) is not None]
    lengths = {value for name, value in fields if name == b"content-length"}
    is_chunked = any(
        name == b"transfer-encoding" and b"chunked" in value.lower() for name, value in fields
    )
    fields = [field for field in fields if field[0] != b"content-length"]
    if not is_chunked and lengths:
        fields.append((b"content-length", _one_length(lengths)))
    head = [first, *(b"%b: %b" % field for field in fields), b"", b""]
    return RepairedHead(b"\r\n".join(head), raw[end.end() :])


def _split_interim(raw: bytes) -> tuple[int, bytes]:
    """The status of the answer that counts, and its bytes; 0 where they begin with none."""
    for _ in range(_MAX_INTERIM):
        found = _STATUS_LINE.match(raw)
        status = int(found[1]) if found else 0
        end = _BLANK_LINE.search(raw) if 100 <= status < 200 else None
        if end is None:
            return status, raw
        raw = raw[end.end() :]
    return 0, raw


def _parse_field(line: bytes) -> tuple[bytes, bytes] | None:
    """A header's name, and its value without control characters; None for no header."""
    name, colon, value = line.partition(b":")
    name = name.rstrip(b" \t").lower()
    if not colon or _NAME.fullmatch(name) is None:
        return None
    return name, _CONTROLS.sub(b"", value).strip(b" \t")


def _one_length(lengths: set[bytes]) -> bytes:
    """The length that all of them state.

    Raises:
        ValueError: If they differ, or state none.
    """
    stated = {each.strip() for value in lengths for each in value.split(b",")}
    if len(stated) != 1 or _LENGTH.fullmatch(length := stated.pop()) is None:
        raise ValueError("no length, or several")
    return length
