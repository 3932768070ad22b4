"""A result as a line: whole, or by its telling columns."""

import re
from collections.abc import Sequence
from typing import Final

from compaction.reading.findings import Find, afresh
from compaction.results.crush import json_of, json_told, prose, shorter, value_of
from compaction.results.leaves import ids
from compaction.results.outline import outline
from compaction.results.pruned import Mentioned, telling
from compaction.results.values import Unreadable, Value

#: How much of a plain text a record holds, in characters; two thirds are its head.
LONGEST: Final = 1_200
#: The same for text that is made of names and values, where every line may be needed.
LONGEST_STRUCTURED: Final = 12_000
#: How much of a string of words pruning keeps.
LONGEST_PROSE: Final = 600
#: The most characters of ids that are said of what was cut.
_LONGEST_IDS: Final = 600
#: From one name of a value in so many lines on, a text is made of names and values.
_DENSE: Final = 4
#: A line end; a token, where the usual sign for it is three.
_END: Final = " ¶ "

_NAME: Final = r"^[ \t]*(?:- )?[A-Za-z_][\w-]{0,40}:(?= |$)|[\w-][\"']: "
_named = re.compile(_NAME).match
_name = re.compile(_NAME, re.MULTILINE).findall
_empty = re.compile(r"^[ ]*[\w-]{1,40}: (?:\[\]|\{\}|''|\"\"|null|false)\n", re.MULTILINE).sub


def record(text: str, find: Find = afresh) -> str:
    """The result on one line: JSON whole, of a long plain text its ends and the ids between."""
    return find(json_of, text) or find(_plain, text)


def _plain(text: str) -> str:
    """The same of a text that is no JSON: whole where it is an outline."""
    try:
        return json_told(outline(text))
    except Unreadable:
        pass
    if _is_structured(text):
        return _capped(_empty("", text), LONGEST_STRUCTURED)
    return _capped(prose(text), LONGEST)


def pruned(text: str, said: Mentioned = frozenset()) -> str:
    """The same by what tells in it, or was spoken of; without empty members and long prose."""
    try:
        return json_told(telling(_value(text), said, _prose))
    except Unreadable:
        pass
    if _is_structured(text):
        return _capped(_empty("", text), LONGEST_STRUCTURED // 2)
    return _capped(shorter(text), LONGEST // 2)


def _value(text: str) -> Value:
    """The value that a text is, as JSON or as an outline.

    Raises:
        Unreadable: If it is neither.
    """
    try:
        return value_of(text)
    except Unreadable:
        return outline(text)


def _is_structured(text: str) -> bool:
    """Whether a text is made of names and values: YAML, a printed object of Python."""
    return _named(text) is not None or len(_name(text)) * _DENSE > text.count("\n") + 1


def one_line(text: str) -> str:
    """The text with a sign for each line end; blank lines and indents are left out."""
    lines = text.splitlines()
    if len(lines) > 1:
        return _END.join([line.strip() for line in lines if line.strip()])
    return lines[0] if lines else ""


def _capped(text: str, most: int) -> str:
    """The text on one line; of a longer one the head, the tail and the ids of what is cut."""
    text = one_line(text.strip())
    if len(text) <= most:
        return text
    head, cut, tail = text[: most * 2 // 3], text[most * 2 // 3 : -most // 3], text[-most // 3 :]
    names = _fitting([name for name in ids(cut) if name not in head and name not in tail])
    return f"{head} […{len(cut)} characters cut{': ' if names else ''}{names}…] {tail}"


def _fitting(names: Sequence[str]) -> str:
    room = _LONGEST_IDS
    kept: list[str] = []
    for name in names:
        room -= len(name) + 1
        if room < 0:
            break
        kept.append(name)
    return " ".join(kept)


def _prose(text: str) -> str:
    return _capped(text, LONGEST_PROSE) if len(text) > LONGEST_PROSE else text
