"""Reads the head of an answer that breaks HTTP's grammar, as lenient clients do; pure.

A provider's proxy may fold a header, state a length twice or let a log line slip in. Behind such a
head stands an answer that was generated and paid for, so it is read rather than bought again.
"""

import re
from typing import Final, NamedTuple

#: Interim answers that may stand before the one that counts.
_MAX_INTERIM: Final = 16
_START: Final = b"HTTP/"
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE: Final = re.compile(
    rb"HTTP/[0-3](?:\.\d)?[ \t]+0?([1-5]\d\d)(?:[ \t]([^\r\n]*))?(?=\r?\n|\Z)", re.IGNORECASE
)
#: A byte order mark and empty lines before an answer.
_LEADING: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*")
#: A line that says of an answer that it is good, in whatever grammar; bytes in which it is looked
#: for, and beginnings of an answer without any head.
_GOOD: Final = re.compile(rb"(?:HTTP|ICY)\S*[ \t]+0*2\d\d", re.IGNORECASE)
_MAX_GOOD_BYTES: Final = 1024
_BODY_STARTS: Final = (b"{", b"[", b"data:", b"event:")
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


def may_be_paid(raw: bytes) -> bool:
    """True if bytes that are not HTTP may be a good answer: it is not asked for again."""
    status = _split_interim(raw)[0]
    start = raw[:_MAX_GOOD_BYTES]
    return 200 <= status < 300 or (
        not status and (start.startswith(_BODY_STARTS) or _GOOD.search(start) is not None)
    )


def repair_head(raw: bytes) -> RepairedHead | None:
    """The answer's head, repaired; None while its end has not come.

    Lines that are no header are left out, and so are a length beside chunks and one stated twice.

    Args:
        raw: All that came of the answer, interim ones before it included.

    Raises:
        ValueError: If it is no answer of HTTP, or says two things of its length.
    """
    status, raw = _split_interim(raw)
    end = _BLANK_LINE.search(raw)
    if not status and (b"\n" in raw or not _START.startswith(raw[: len(_START)].upper())):
        raise ValueError("no status line")
    if not status or end is None:
        return None
    _, *lines = _LINE_END.split(_FOLD.sub(b" ", raw[: end.start()]))
    fields = [field for line in lines if (field := _parse_field(line)) is not None]
    lengths = {value for name, value in fields if name == b"content-length"}
    is_chunked = any(
        name == b"transfer-encoding" and b"chunked" in value.lower() for name, value in fields
    )
    fields = [field for field in fields if field[0] != b"content-length"]
    if not is_chunked and lengths:
        fields.append((b"content-length", _one_length(lengths)))
    head = [_status_line(raw), *(b"%b: %b" % field for field in fields), b"", b""]
    return RepairedHead(b"\r\n".join(head), raw[end.end() :])


def _split_interim(raw: bytes) -> tuple[int, bytes]:
    """The status of the answer that counts, and its bytes; 0 where they begin with none."""
    for _ in range(_MAX_INTERIM):
        raw = _LEADING.sub(b"", raw, 1)
        match = _STATUS_LINE.match(raw)
        status = int(match[1]) if match else 0
        end = _BLANK_LINE.search(raw) if 100 <= status < 200 else None
        if end is None:
            return status, raw
        raw = raw[end.end() :]
    return 0, raw


def _status_line(raw: bytes) -> bytes:
    """The status line of an answer, within the grammar of HTTP/1.1."""
    match = _STATUS_LINE.match(raw)
    assert match is not None  # noqa: S101 - its status was read from it
    return b"HTTP/1.1 %b %b" % (match[1], _CONTROLS.sub(b"", match[2] or b""))


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
    stated = {length.strip() for value in lengths for length in value.split(b",")}
    if len(stated) != 1 or _LENGTH.fullmatch(length := stated.pop()) is None:
        raise ValueError("no length, or several")
    return length
