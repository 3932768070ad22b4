"""JSON objects and lists in their pieces; each piece stays as it was written."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec


class Unplannable(ValueError):
    """A body that planning leaves alone; says why."""


_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_gap = re.compile(rb"[ \t\n\r]*").match


def members(raw: bytes) -> dict[str, bytes]:
    """The members of an object, each as JSON.

    Raises:
        Unplannable: If it is no object.
    """
    try:
        return {name: bytes(held) for name, held in _members(raw).items()}
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


def write_object(found: Mapping[str, bytes]) -> bytes:
    """The object with these members."""
    inner = b",".join([msgspec.json.encode(name) + b":" + raw for name, raw in found.items()])
    return b"{" + inner + b"}"


def write_list(found: Iterable[bytes]) -> bytes:
    """The list with these elements."""
    return b"[" + b",".join(found) + b"]"


def is_exact(raw: bytes, found: Mapping[str, bytes]) -> bool:
    """True if an object holds these members and nothing more; no key stands twice or is escaped."""
    return raw == write_object(found) or _is_exact(raw, found)


def _is_exact(raw: bytes, found: Mapping[str, bytes]) -> bool:
    """The same for one that may be written with white space."""
    at = raw.find(b"{") + 1
    ends = b"," if found else raw[_after(raw, at) :][:1]
    for name, value in found.items():
        for piece in (msgspec.json.encode(name), b":", value):
            at = _after(raw, at)
            if ends != b"," or not raw.startswith(piece, at):
                return False
            at += len(piece)
        at = _after(raw, at) + 1
        ends = raw[at - 1 : at]
    return ends == b"}"


def _after(raw: bytes, at: int) -> int:
    """Where the white space ends that begins there."""
    found = _gap(raw, at)
    return found.end() if found else at
