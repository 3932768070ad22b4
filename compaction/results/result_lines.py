"""Renders a tool result on one line: whole when it is short, else its most informative values."""

import re
from collections.abc import Sequence
from typing import Final

from compaction.reading.message import CannotCompactError
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.results.json_values import Value
from compaction.results.lossless_compression import (
    compact_json_of,
    compress_fully,
    compress_prose,
    one_line_json,
    parse_result,
)
from compaction.results.pruning import (
    PRUNED,
    MentionedWords,
    PruningDetail,
    telling_values,
    text_words,
)
from compaction.results.value_leaves import find_ids, leaf_strings
from compaction.results.yaml_outline import parse_outline

#: Maximum characters of a plain text in a record; two thirds are its beginning.
MAX_TEXT_CHARS: Final = 1_200
#: Maximum characters of a text made of names and values in a record: every line may be needed.
MAX_STRUCTURED_CHARS: Final = 12_000
#: Maximum characters of a text without spaces that is one value, such as a token to log in with.
_MAX_WORD_CHARS: Final = 4_096
#: Maximum characters that pruning keeps of prose.
MAX_PROSE_CHARS: Final = 600
#: Maximum characters of the lines with ids quoted from the omitted text.
_MAX_ID_LINES_CHARS: Final = 600
#: Maximum lines per named value for a text to count as made of names and values.
_MAX_LINES_PER_NAME: Final = 4
#: Stands for a line end: one token, whereas the usual sign takes three.
_END: Final = " ¶ "

_NAME: Final = r"^[ \t]*(?:- )?[A-Za-z_][\w-]{0,40}:(?= |$)|[\w-][\"']: "
_named = re.compile(_NAME).match
_name = re.compile(_NAME, re.MULTILINE).findall
_empty = re.compile(r"^[ ]*[\w-]{1,40}: (?:\[\]|\{\}|''|\"\"|null|false)\n", re.MULTILINE).sub


def result_line(text: str, find: TextAnalyzer = analyze_uncached) -> str:
    """The result on one line: JSON whole, of a long plain text its ends and the ids between."""
    return find(compact_json_of, text) or find(_plain_text_line, text)


def _plain_text_line(text: str) -> str:
    """The same of a text that is no JSON: whole where it is an outline."""
    try:
        return one_line_json(parse_outline(text))
    except CannotCompactError:
        pass
    if _is_structured(text):
        return _head_and_tail(_empty("", text), MAX_STRUCTURED_CHARS)
    return _head_and_tail(compress_prose(text), MAX_TEXT_CHARS)


def pruned_result_line(
    text: str, mentioned: MentionedWords = frozenset(), detail: PruningDetail = PRUNED
) -> str:
    """The same by what tells in it, or was spoken of; without empty members and long prose."""
    return pruned_result_lines(text, mentioned, [detail])[0]


def pruned_result_lines(
    text: str, mentioned: MentionedWords, details: Sequence[PruningDetail]
) -> Sequence[str]:
    """The same in each degree of detail; the text is read once."""
    try:
        values = telling_values(_parse_value(text), mentioned, _prose_line, details)
        return [one_line_json(value) for value in values]
    except CannotCompactError:
        pass
    if _is_structured(text):
        line = _head_and_tail(_empty("", text), MAX_STRUCTURED_CHARS // 2)
    else:
        line = _head_and_tail(compress_fully(text), MAX_TEXT_CHARS // 2)
    return [line] * len(details)


def matched_words(text: str) -> tuple[str, ...]:
    """The words of a result by whose mention it is pruned; none for plain text."""
    try:
        return tuple(text_words("\n".join(leaf_strings(_parse_value(text)))))
    except CannotCompactError:
        return ()


def _parse_value(text: str) -> Value:
    """The value that a text is, as JSON or as an outline.

    Raises:
        CannotCompactError: If it is neither.
    """
    try:
        return parse_result(text)
    except CannotCompactError:
        return parse_outline(text)


def _is_structured(text: str) -> bool:
    """True if a text is made of names and values: YAML, a printed object of Python."""
    return _named(text) is not None or len(_name(text)) * _MAX_LINES_PER_NAME > text.count("\n") + 1


def one_line(text: str) -> str:
    """The text with a sign for each line end; blank lines and indents are left out."""
    lines = text.splitlines()
    if len(lines) > 1:
        return _END.join([line.strip() for line in lines if line.strip()])
    return lines[0] if lines else ""


def _head_and_tail(text: str, max_chars: int) -> str:
    """The text on one line; of a longer one the head, the lines between that hold ids, the suffix.

    No token is cut in two, and no row of a table: a part of one would be another value.
    """
    text = one_line(text.strip())
    if len(text) <= max_chars or (len(text) <= _MAX_WORD_CHARS and " " not in text):
        return text
    first, last = _line_end(text, max_chars * 2 // 3), _line_start(text, len(text) - max_chars // 3)
    head, cut, tail = text[:first], text[first:last], text[last:]
    lines = cut.strip(" ¶").split(_END)
    id_lines = _lines_that_fit([line for line in lines if find_ids(line)])
    if id_lines == lines:
        return text
    gone = len(cut) - sum(map(len, id_lines))
    pieces = [head.rstrip(" ¶"), *id_lines, f"[…{gone} characters cut…]", tail.lstrip(" ¶")]
    return _END.join(filter(None, pieces))


def _line_end(text: str, position: int) -> int:
    """The end of the last line up to a place; in one long line of the last word."""
    end = text.rfind(_END, 0, position)
    return end if end > 0 else max(text.rfind(" ", 0, position), 0)


def _line_start(text: str, position: int) -> int:
    """The start of the first line from a place on; in one long line of the first word."""
    start = text.find(_END, position)
    start = start if start >= 0 else text.find(" ", position)
    return start if start >= 0 else len(text)


def _lines_that_fit(lines: Sequence[str]) -> list[str]:
    """The first of these lines that there is room for."""
    room = _MAX_ID_LINES_CHARS
    fitting_lines: list[str] = []
    for line in lines:
        room -= len(line) + len(_END)
        if room < 0:
            break
        fitting_lines.append(line)
    return fitting_lines


def _prose_line(text: str) -> str:
    return _head_and_tail(text, MAX_PROSE_CHARS) if len(text) > MAX_PROSE_CHARS else text
