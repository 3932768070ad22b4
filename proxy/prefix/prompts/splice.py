"""Messages and parts with other words in them; every other field stays as it was written."""

from collections.abc import Sequence
from typing import Final

import msgspec

from proxy.prefix.prompts.objects import listed, members, written

_CONTENT: Final = "content"
_TEXT: Final = "text"
_PLAIN: Final = frozenset({"type", _TEXT})
_encoded = msgspec.json.encode


def said(role: str, text: str) -> bytes:
    """A message with only a text."""
    return _encoded({"role": role, _CONTENT: text})


def part(text: str) -> bytes:
    """A text part."""
    return _encoded({"type": "text", _TEXT: text})


def plain(raw: bytes) -> bool:
    """True if a text part, or a JSON string, holds nothing but its words."""
    return raw[:1] == b'"' or members(raw).keys() <= _PLAIN


def reworded(raw: bytes, text: str) -> bytes:
    """A text part, or a JSON string, with other words."""
    if raw[:1] == b'"':
        return _encoded(text)
    return written({**members(raw), _TEXT: _encoded(text)})


def refilled(message: bytes, parts: Sequence[bytes]) -> bytes:
    """The message with these parts; a single JSON string is its content as such."""
    plain = len(parts) == 1 and parts[0][:1] == b'"'
    content = parts[0] if plain else listed(map(_part, parts))
    return written({**members(message), _CONTENT: content})


def _part(raw: bytes) -> bytes:
    return b'{"type":"text","text":' + raw + b"}" if raw[:1] == b'"' else raw
