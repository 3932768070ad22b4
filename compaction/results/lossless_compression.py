"""Compresses a tool's result without losing a value."""

import re
from typing import Final

from compaction.reading.message import CannotCompactError
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.json_tables import compact_json, table_json
from compaction.results.json_values import Value, parse_json, parse_json_at
from compaction.results.log_text import compress_log

#: Maximum size of a compressed text, as a share of the original; else the original is sent.
MAX_REMAINING_SHARE: Final = 0.9
#: Minimum characters of a result that is compressed; a shorter one has nothing to gain.
MIN_RESULT_CHARS: Final = 64
#: Maximum searches for a JSON value inside prose.
_MAX_TRIES: Final = 8
#: Minimum characters of a JSON value inside prose that is compressed.
_MIN_EMBEDDED_CHARS: Final = 200

_odd = re.compile("[\x85\u2028\u2029\ud800-\udfff]").sub
_begins = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE).finditer


def compress_result(text: str, find: TextAnalyzer = analyze_uncached) -> str:
    """The text in a shorter form that keeps every value; itself where that saves under a tenth."""
    if len(text) < MIN_RESULT_CHARS:
        return text
    compressed = compress_fully(text, find)
    return compressed if len(compressed) <= MAX_REMAINING_SHARE * len(text) else text


def compress_fully(text: str, find: TextAnalyzer = analyze_uncached) -> str:
    """The text in its shortest form, however little that saves."""
    return find(compact_json_of, text) or find(compress_prose, text)


def compact_json_of(text: str) -> str:
    """The value that a text is as short JSON on one line; "" where it is none."""
    try:
        return one_line_json(parse_result(text))
    except CannotCompactError:
        return ""


def compress_prose(text: str) -> str:
    """Plain text in its shortest form, with the JSON that stands in it."""
    return _compress_embedded_json(compress_log(text))


def parse_result(text: str) -> Value:
    """The value that a text is, and the list of them where each line is an object.

    Raises:
        CannotCompactError: If it is neither.
    """
    first = text.lstrip(" \t\r\n")[:1]
    if first not in {"{", "["}:
        raise CannotCompactError("plain text")
    try:
        return parse_json(text)
    except CannotCompactError:
        if first == "[":
            raise
    lines = [parse_json(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(line, dict) for line in lines):
        raise CannotCompactError("not a list of objects")
    return lines


def one_line_json(value: Value) -> str:
    """The value as short JSON on one line.

    Raises:
        CannotCompactError: If it is nested too deep.
    """
    json_text = table_json(value) or compact_json(value)
    return json_text if json_text.isascii() else _escape_line_ends(json_text)


def _escape_line_ends(json_text: str) -> str:
    """The same with what ends a line, or is half a letter, as JSON can spell it too."""
    return _odd(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def _compress_embedded_json(text: str) -> str:
    """The text with the JSON on lines of its own compressed."""
    pieces: list[str] = []
    done = 0
    for tries, match in enumerate(_begins(text)):
        if tries >= _MAX_TRIES:
            break
        if match.end() < done:
            continue
        try:
            value, end = parse_json_at(text, match.end())
            if end - match.end() >= _MIN_EMBEDDED_CHARS:
                pieces += (text[done : match.end()], one_line_json(value))
                done = end
        except CannotCompactError:
            continue
    return "".join(pieces) + text[done:] if pieces else text
