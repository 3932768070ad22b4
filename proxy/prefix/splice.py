"""Messages and parts with other words in them; every other field stays as it was written."""

from collections.abc import Sequence
from typing import Final

import msgspec

from proxy.prefix.prompt import Unplannable

_CONTENT: Final = "content"
_TEXT: Final = "text"
_PLAIN: Final = frozenset({"type", _TEXT})
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encoded = msgspec.json.encode


def said(role: str, text: str) -> bytes:
    """A message with only a text."""
    return _encoded({"role": role, _CONTENT: text})


def part(text: str) -> bytes:
    """A text part."""
    return _encoded({"type": "text", _TEXT: text})


def plain(raw: bytes) -> bool:
    """Whether a text part, or a JSON string, holds nothing but its words."""
    return raw[:1] == b'"' or set(_read(raw)) <= _PLAIN


def reworded(raw: bytes, text: str) -> bytes:
    """A text part, or a JSON string, with other words."""
    if raw[:1] == b'"':
        return _encoded(text)
    return _encoded({**_read(raw), _TEXT: msgspec.Raw(_encoded(text))})


def refilled(message: bytes, parts: Sequence[bytes]) -> bytes:
    """The message with these parts; a single JSON string is its content as such."""
    if len(parts) == 1 and parts[0][:1] == b'"':
        content = parts[0]
    else:
        content = b"[" + b",".join(map(_listed, parts)) + b"]"
    return _encoded({**_read(message), _CONTENT: msgspec.Raw(content)})


def _listed(raw: bytes) -> bytes:
    return b'{"type":"text","text":' + raw + b"}" if raw[:1] == b'"' else raw


def _read(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unplannable(f"not an object: {error}") from None
