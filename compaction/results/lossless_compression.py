"""A tool's result said shorter without the loss of a value."""

import re
from typing import Final

from compaction.reading.text_analysis_cache import Find, afresh
from compaction.results.json_tables import Tabled, compact, tabled
from compaction.results.json_values import Unreadable, Value, opened, parsed
from compaction.results.log_text import terse

#: The share of a text that a shorter saying leaves at most; else it stays as it came.
MOST_LEFT: Final = 0.9
#: Below this many characters there is nothing to gain.
LEAST: Final = 64
#: How often a value is looked for inside of prose.
_TRIES: Final = 8
#: Values inside of prose are taken up from this many characters on.
_LEAST_INSIDE: Final = 200

_odd = re.compile("[\x85\u2028\u2029\ud800-\udfff]").sub
_begins = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE).finditer


def crushed(text: str, find: Find = afresh) -> str:
    """The same said shorter, every value kept; the text itself where that saves under a tenth."""
    if len(text) < LEAST:
        return text
    told = shorter(text, find)
    return told if len(told) <= MOST_LEFT * len(text) else text


def shorter(text: str, find: Find = afresh) -> str:
    """The same said as shortly as it can be, however little that saves."""
    return find(json_of, text) or find(prose, text)


def json_of(text: str) -> str:
    """The value that a text is as short JSON on one line; "" where it is none."""
    try:
        return json_told(value_of(text))
    except Unreadable:
        return ""


def prose(text: str) -> str:
    """Plain text said as shortly, with the JSON that stands in it."""
    return _in_prose(terse(text))


def value_of(text: str) -> Value:
    """The value that a text is, and the list of them where each line is an object.

    Raises:
        Unreadable: If it is neither.
    """
    first = text.lstrip(" \t\r\n")[:1]
    if first not in {"{", "["}:
        raise Unreadable("plain text")
    try:
        return parsed(text)
    except Unreadable:
        if first == "[":
            raise
    lines = [parsed(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(line, dict) for line in lines):
        raise Unreadable("not a list of objects")
    return lines


def json_told(value: Value) -> str:
    """The value as short JSON on one line.

    Raises:
        Unreadable: If it is nested too deep.
    """
    try:
        told = tabled(value)
    except Tabled:
        told = compact(value)
    return told if told.isascii() else _escaped(told)


def _escaped(told: str) -> str:
    """The same with what ends a line, or is half a letter, as JSON can spell it too."""
    return _odd(lambda found: f"\\u{ord(found[0]):04x}", told)


def _in_prose(text: str) -> str:
    """The text with the JSON that stands in it on lines of its own said shorter."""
    pieces: list[str] = []
    done = 0
    for tries, found in enumerate(_begins(text)):
        if tries >= _TRIES:
            break
        if found.end() < done:
            continue
        try:
            value, end = opened(text, found.end())
            if end - found.end() >= _LEAST_INSIDE:
                pieces += (text[done : found.end()], json_told(value))
                done = end
        except Unreadable:
            continue
    return "".join(pieces) + text[done:] if pieces else text
