"""Messages and parts with other words in them; every other field stays as it was written."""

from collections.abc import Sequence
from typing import Final

import msgspec

from proxy.prefix.prompts.objects import members, write_list, write_object

_CONTENT: Final = "content"
_TEXT: Final = "text"
_PLAIN: Final = frozenset({"type", _TEXT})
_encoded = msgspec.json.encode


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
    content = parts[0] if plain else write_list(map(_part, parts))
    return write_object({**members(message), _CONTENT: content})


def _part(raw: bytes) -> bytes:
    return b'{"type":"text","text":' + raw + b"}" if raw[:1] == b'"' else raw
