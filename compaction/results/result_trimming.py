"""A result's message with its content shortened; every other byte stays unmodified."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from compaction.reading.message import ParsedMessage, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.duplicate_results import pointer_to_earlier
from compaction.results.lossless_compression import compress_result

_CONTENT: Final = "content"
_MARK: Final = "cache_control"
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeError)
_key = re.compile(rb'"content"[ \t\n\r]*:[ \t\n\r]*').finditer
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_encoded = msgspec.json.encode


def trim_result(
    message: ParsedMessage,
    calls_by_digest: Mapping[bytes, str],
    find: TextAnalyzer = analyze_uncached,
    *,
    is_exact: bool = False,
) -> bytes:
    """The message with its text shortened; ``message.raw`` where nothing is gained.

    Args:
        message: A result. Others, and such as are signed or hold more than text, stay as they
            came. A mark for the provider's cache stays where it is: it moves on with the next call,
            and the text must not.
        calls_by_digest: As in ``pointer_to_earlier``.
        find: Finds the facts in its text.
        is_exact: True if every character may be needed, as of a file that is edited: only a
            repeated text is shortened.
    """
    stays = message.voice is not Voice.RESULT or message.signed or not message.whole
    if stays:
        return message.raw
    try:
        return _trim_content(message.raw, _Shortener(calls_by_digest, find, is_exact))
    except _UNREADABLE:
        return message.raw


def _trim_content(raw: bytes, saying: "_Shortener") -> bytes:
    content = bytes(_members(raw).get(_CONTENT, b""))
    shorter = (
        saying.shorten_parts(content) if content[:1] == b"[" else saying.shorten_string(content)
    )
    places = [match.end() for match in _key(raw) if raw.startswith(content, match.end())]
    if len(shorter) >= len(content) or len(places) != 1:
        return raw
    return raw[: places[0]] + shorter + raw[places[0] + len(content) :]


class _Shortener(msgspec.Struct, frozen=True):
    """Shortens texts: by a pointer to an equal earlier one, or losslessly."""

    seen: Mapping[bytes, str]
    find: TextAnalyzer
    is_exact: bool

    def shorten_parts(self, content: bytes) -> bytes:
        parts = [bytes(part) for part in _elements(content)]
        alone = self if len(parts) == 1 else _Shortener({}, self.find, self.is_exact)
        short_parts = [alone.shorten_part(part) for part in parts]
        return content if short_parts == parts else b"[" + b",".join(short_parts) + b"]"

    def shorten_part(self, raw: bytes) -> bytes:
        """A text part that holds nothing else, or a string, with its text shortened."""
        if raw[:1] == b'"':
            return self.shorten_string(raw)
        members = _members(raw)
        named = members.keys() - {_MARK} == {"type", "text"}
        if not named or _string(members["type"]) != "text":
            return raw
        short_text = self.shorten_string(bytes(members["text"]))
        if short_text == bytes(members["text"]):
            return raw
        mark = b',"cache_control":' + bytes(members[_MARK]) if _MARK in members else b""
        return b'{"type":"text","text":' + short_text + mark + b"}"

    def shorten_string(self, raw: bytes) -> bytes:
        if raw[:1] != b'"':
            return raw
        text = _string(raw)
        whole = text if self.is_exact else compress_result(text, self.find)
        short_text = pointer_to_earlier(text, self.seen) or whole
        return raw if short_text == text else _encoded(short_text)
