"""JSON objects as raw members: each keeps its bytes, and may be written with other text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

_CONTENT: Final = "content"
_TEXT: Final = "text"
_PLAIN: Final = frozenset({"type", _TEXT})
_encoded = msgspec.json.encode
#: A tag as JSON may spell it: some writers escape ``<``.
_OPENS: Final = (b"<tg:", b"\\u003ctg:", b"\\u003Ctg:")
_NAME: Final = b"tg:"


class Unplannable(ValueError):
    """A body that planning leaves alone; says why."""


_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
#: Names of members that need no look; those of any other object are looked at.
_USUAL_NAMES: Final = frozenset(
    {"role", _CONTENT, "type", _TEXT, "name", "tool_calls", "tool_call_id"}
    | {"model", "messages", "stream", "stream_options", "tools", "tool_choice"}
    | {"temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"}
)
#: Bytes above which a list is not remembered, and most that are: 32 MiB at most.
_MAX_CACHED_BYTES, _MAX_CACHED = 2**16, 256
_plain_name = re.compile(r"[A-Za-z0-9_.\-]+").fullmatch
_gap = re.compile(rb"[ \t\n\r]*").match


def members(raw: bytes) -> dict[str, bytes]:
    """The members of an object, each as JSON.

    Raises:
        Unplannable: If it is no object.
    """
    try:
        return {name: bytes(member) for name, member in _members(raw).items()}
    except _UNREADABLE as error:
        raise Unplannable(f"not an object: {error}") from None


def elements(raw: bytes) -> tuple[bytes, ...]:
    """The elements of a list, each as JSON.

    Raises:
        Unplannable: If it is no list.
    """
    try:
        return tuple(map(bytes, _elements(raw)))
    except _UNREADABLE as error:
        raise Unplannable(f"not a list: {error}") from None


def known_elements(raw: bytes) -> tuple[bytes, ...]:
    """The elements of a list that many calls send, such as tools; remembered where it is short."""
    return (_known_elements if len(raw) <= _MAX_CACHED_BYTES else elements)(raw)


_known_elements = lru_cache(_MAX_CACHED)(elements)


def write_object(fields: Mapping[str, bytes]) -> bytes:
    """The object with these members."""
    inner = b",".join([msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()])
    return b"{" + inner + b"}"


def write_list(pieces: Iterable[bytes]) -> bytes:
    """The list with these elements."""
    return b"[" + b",".join(pieces) + b"]"


def is_exact(raw: bytes, fields: Mapping[str, bytes]) -> bool:
    """True if an object holds these members and nothing more; no key stands twice or is escaped."""
    if not fields.keys() <= _USUAL_NAMES and not all(map(_plain_name, fields)):
        return raw == write_object(fields) or _is_exact(raw, fields)
    # One that is as short as its members allow has no room for anything else.
    content_bytes = sum(map(len, fields)) + sum(map(len, fields.values()))
    least = 1 + content_bytes + 4 * len(fields) + (not fields)
    if len(raw) == least:
        return True
    if len(raw) == least + 2 * len(fields) - 1 and raw == _write_spaced(fields):
        return True
    return _is_exact(raw, fields)


def _write_spaced(fields: Mapping[str, bytes]) -> bytes:
    """The object with these members, spaced as Python's ``json.dumps`` does it; for plain names."""
    return (
        b"{" + b", ".join([b'"%b": %b' % (name.encode(), v) for name, v in fields.items()]) + b"}"
    )


def _is_exact(raw: bytes, fields: Mapping[str, bytes]) -> bool:
    """The same for one that may be written with any white space."""
    offset = raw.find(b"{") + 1
    ends = b"," if fields else raw[_skip_white_space(raw, offset) :][:1]
    for name, value in fields.items():
        for piece in (msgspec.json.encode(name), b":", value):
            offset = _skip_white_space(raw, offset)
            if ends != b"," or not raw.startswith(piece, offset):
                return False
            offset += len(piece)
        offset = _skip_white_space(raw, offset) + 1
        ends = raw[offset - 1 : offset]
    return ends == b"}"


def _skip_white_space(raw: bytes, offset: int) -> int:
    """The index behind the white space that begins there."""
    gap = _gap(raw, offset)
    return gap.end() if gap else offset


def text_message(role: str, text: str) -> bytes:
    """A message with only a text."""
    return _encoded({"role": role, _CONTENT: text})


def text_part(text: str) -> bytes:
    """A text part."""
    return _encoded({"type": "text", _TEXT: text})


def is_plain_text(raw: bytes) -> bool:
    """True if a text part, or a JSON string, holds nothing but its words."""
    return raw[:1] == b'"' or members(raw).keys() <= _PLAIN


def replace_text(raw: bytes, text: str) -> bytes:
    """A text part, or a JSON string, with other words."""
    if raw[:1] == b'"':
        return _encoded(text)
    return write_object({**members(raw), _TEXT: _encoded(text)})


def replace_parts(message: bytes, parts: Sequence[bytes]) -> bytes:
    """The message with these parts; a single JSON string is its content as such."""
    plain = len(parts) == 1 and parts[0][:1] == b'"'
    content = parts[0] if plain else write_list(map(as_content_part, parts))
    return write_object({**members(message), _CONTENT: content})


def as_content_part(raw: bytes) -> bytes:
    """A content part; a JSON string becomes one."""
    return b'{"type":"text","text":' + raw + b"}" if raw[:1] == b'"' else raw


def may_hold_tags(raw: bytes) -> bool:
    """True if a body, or a message, may hold tags."""
    # Not by `in`: CPython 3.11 makes and drops an exception each time, for 2,000 instructions.
    return raw.find(_NAME) >= 0 and any(raw.find(opening) >= 0 for opening in _OPENS)
