"""A result's message with its content said shorter; every other byte stays as it came."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from compaction.reading.message import Message, Voice
from compaction.reading.text_analysis_cache import Find, afresh
from compaction.results.duplicate_results import echo
from compaction.results.lossless_compression import crushed

_CONTENT: Final = "content"
_MARK: Final = "cache_control"
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeError)
_key = re.compile(rb'"content"[ \t\n\r]*:[ \t\n\r]*').finditer
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_encoded = msgspec.json.encode


def trimmed(message: Message, seen: Mapping[bytes, str], find: Find = afresh) -> bytes:
    """The message with its text said shorter; ``message.raw`` where nothing is gained.

    Args:
        message: A result. Others, and such as are signed or hold more than text, stay as they
            came. A mark for the provider's cache stays where it is: it moves on with the next call,
            and the text must not.
        seen: As in ``echo``.
        find: What is found in its text.
    """
    stays = message.voice is not Voice.RESULT or message.signed or not message.whole
    if stays:
        return message.raw
    try:
        return _trimmed(message.raw, _Saying(seen, find))
    except _UNREADABLE:
        return message.raw


def _trimmed(raw: bytes, saying: "_Saying") -> bytes:
    content = bytes(_members(raw).get(_CONTENT, b""))
    shorter = saying.parts(content) if content[:1] == b"[" else saying.reworded(content)
    places = [found.end() for found in _key(raw) if raw.startswith(content, found.end())]
    if len(shorter) >= len(content) or len(places) != 1:
        return raw
    return raw[: places[0]] + shorter + raw[places[0] + len(content) :]


class _Saying(msgspec.Struct, frozen=True):
    """How texts are said shorter: by pointing to an earlier one, or in fewer words."""

    seen: Mapping[bytes, str]
    find: Find

    def parts(self, content: bytes) -> bytes:
        parts = [bytes(part) for part in _elements(content)]
        alone = self if len(parts) == 1 else _Saying({}, self.find)
        told = [alone.part(part) for part in parts]
        return content if told == parts else b"[" + b",".join(told) + b"]"

    def part(self, raw: bytes) -> bytes:
        """A text part that holds nothing else, or a string, with its text said shorter."""
        if raw[:1] == b'"':
            return self.reworded(raw)
        members = _members(raw)
        named = members.keys() - {_MARK} == {"type", "text"}
        if not named or _string(members["type"]) != "text":
            return raw
        told = self.reworded(bytes(members["text"]))
        if told == bytes(members["text"]):
            return raw
        mark = b',"cache_control":' + bytes(members[_MARK]) if _MARK in members else b""
        return b'{"type":"text","text":' + told + mark + b"}"

    def reworded(self, raw: bytes) -> bytes:
        if raw[:1] != b'"':
            return raw
        text = _string(raw)
        told = echo(text, self.seen) or crushed(text, self.find)
        return raw if told == text else _encoded(told)
