"""A result's message with its content shortened; every other byte stays unmodified."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from compaction.reading.message import ParsedMessage, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.duplicate_results import pointer_to_earlier
from compaction.results.lossless_compression import compress_result

#: Returns a shorter text of the same meaning, or the text.
Shorten = Callable[[str], str]

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

    def compress(text: str) -> str:
        return text if is_exact else compress_result(text, find)

    def shorter_text(text: str) -> str:
        return pointer_to_earlier(text, calls_by_digest) or compress(text)

    return _with_shorter_content(message.raw, shorter_text, compress)


def replace_text(message: ParsedMessage, text: str) -> bytes:
    """A result's message with a shorter text; ``message.raw`` where it has several parts."""
    return _with_shorter_content(message.raw, lambda _: text, lambda part: part)


def _with_shorter_content(raw: bytes, alone: Shorten, one_of_many: Shorten) -> bytes:
    """The message with its text shortened by the first, or each of several parts by the other."""
    try:
        content = bytes(_members(raw).get(_CONTENT, b""))
        shorter = _shorten_content(content, alone, one_of_many)
    except _UNREADABLE:
        return raw
    places = [match.end() for match in _key(raw) if raw.startswith(content, match.end())]
    if len(shorter) >= len(content) or len(places) != 1:
        return raw
    return raw[: places[0]] + shorter + raw[places[0] + len(content) :]


def _shorten_content(content: bytes, alone: Shorten, one_of_many: Shorten) -> bytes:
    if content[:1] != b"[":
        return _shorten_string(content, alone)
    parts = [bytes(part) for part in _elements(content)]
    shorten = alone if len(parts) == 1 else one_of_many
    short_parts = [_shorten_part(part, shorten) for part in parts]
    return content if short_parts == parts else b"[" + b",".join(short_parts) + b"]"


def _shorten_part(raw: bytes, shorten: Shorten) -> bytes:
    """A text part that holds nothing else, or a string, with its text shortened."""
    if raw[:1] == b'"':
        return _shorten_string(raw, shorten)
    members = _members(raw)
    named = members.keys() - {_MARK} == {"type", "text"}
    if not named or _string(members["type"]) != "text":
        return raw
    short_text = _shorten_string(bytes(members["text"]), shorten)
    if short_text == bytes(members["text"]):
        return raw
    mark = b',"cache_control":' + bytes(members[_MARK]) if _MARK in members else b""
    return b'{"type":"text","text":' + short_text + mark + b"}"


def _shorten_string(raw: bytes, shorten: Shorten) -> bytes:
    if raw[:1] != b'"':
        return raw
    text = _string(raw)
    short_text = shorten(text)
    return raw if short_text == text else _encoded(short_text)
