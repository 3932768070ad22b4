"""Reads outlines that tools print as YAML: names with values, and lists with dashes.

Any other syntax makes the whole text unreadable; it then stays unmodified.
"""

import json
import re
from typing import Final

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, Number, Value

#: Minimum lines of an outline; fewer are as likely a sentence with a colon.
_MIN_LINES: Final = 3
#: Maximum characters of a text that is parsed; a longer one stays unmodified.
_MAX_TEXT_CHARS: Final = 200_000
_begins: Final = re.compile(r"(?:- )*[\w.@+-]{1,80}:(?: |$)|- ", re.MULTILINE).match
_member: Final = re.compile(r"([\w.@+-]{1,80}|'[^'\n]{1,80}'):(?: +(.*))?\Z").match
#: Regular expression for plain YAML scalars: no special characters, no key, no comment.
_plain: Final = re.compile(r"(?![!&*|>%@`{}\[\]#,\"'?])(?!- )(?:(?!: |:\Z| #)[^\t])+\Z").match
_number: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?\Z").match
_single: Final = re.compile(r"'((?:[^']|'')*)'\Z").match
_escape: Final = re.compile(r"\\.").sub
_WORDS: Final[dict[str, Value]] = {
    "null": None,
    "~": None,
    "true": True,
    "false": False,
    "[]": [],
    "{}": {},
}


def parse_outline(text: str) -> Value:
    """The value that an outline is.

    Raises:
        CannotCompactError: If it is none, or one that could not be read with certainty.
    """
    if len(text) > _MAX_TEXT_CHARS or not _begins(text):
        raise CannotCompactError("plain text")
    lines = text.rstrip().split("\n")
    if len(lines) < _MIN_LINES:
        raise CannotCompactError("too short for an outline")
    reader = _Reader(lines)
    value = reader.read_block(0, 0)
    if not reader.is_done:
        raise CannotCompactError("lines that belong to nothing")
    return value


class _Reader:
    """Lines, and how far they are read."""

    __slots__ = ("_at", "_lines")

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._lines)

    def read_block(self, indent: int, depth: int) -> Value:
        """The list or the object whose lines begin there."""
        if depth > MAX_DEPTH:
            raise CannotCompactError("nested too deep")
        return (
            self._read_list(indent, depth)
            if self._is_item(indent)
            else self._read_object(indent, depth)
        )

    def _line_indent(self) -> int:
        """The indent of the present line; -1 at the end."""
        if self.is_done:
            return -1
        line = self._lines[self._at]
        return len(line) - len(line.lstrip(" "))

    def _is_item(self, indent: int) -> bool:
        return self._line_indent() == indent and self._lines[self._at].startswith("- ", indent)

    def _read_list(self, indent: int, depth: int) -> Value:
        elements: list[Value] = []
        while self._is_item(indent):
            line = self._lines[self._at]
            inner = line[:indent] + "  " + line[indent + 2 :]
            self._lines[self._at] = inner
            if _member(inner[indent + 2 :]) or self._is_item(indent + 2):
                elements.append(self.read_block(indent + 2, depth + 1))
            else:
                self._at += 1
                elements.append(self._read_scalar(inner[indent + 2 :], indent))
        return elements

    def _read_object(self, indent: int, depth: int) -> Value:
        members: dict[str, Value] = {}
        while self._line_indent() == indent and not self._is_item(indent):
            member = _member(self._lines[self._at][indent:])
            name = member[1].strip("'") if member else None
            if member is None or name is None or name in members:
                raise CannotCompactError("no name of a value")
            self._at += 1
            members[name] = (
                self._read_nested(indent, depth)
                if member[2] is None
                else self._read_scalar(member[2], indent)
            )
        return members

    def _read_nested(self, indent: int, depth: int) -> Value:
        """The value under a name: indented further, or a list right under it; else nothing."""
        inner = self._line_indent()
        if inner > indent:
            return self.read_block(inner, depth + 1)
        return self.read_block(indent, depth + 1) if self._is_item(indent) else None

    def _read_scalar(self, text: str, indent: int) -> Value:
        """A word, a number or a string; its lines that follow are set in further."""
        lines = [text.strip()]
        if text[:1] in {"'", '"'}:
            while not _is_closed(lines, text[0]) and not self.is_done:
                lines.append(self._next_line())
            return _quoted_value(_joined_lines(lines))
        while self._line_indent() > indent and self._lines[self._at].strip():
            lines.append(self._next_line())
        whole = " ".join(lines)
        if whole in _WORDS:
            return _WORDS[whole]
        if _number(whole):
            return Number(whole)
        if not _plain(whole):
            raise CannotCompactError("no plain words")
        return whole

    def _next_line(self) -> str:
        self._at += 1
        return self._lines[self._at - 1].strip()


def _is_closed(lines: list[str], quote: str) -> bool:
    """True if the last line ends a string; the sign for it is written twice within one."""
    last = lines[-1][1:] if len(lines) == 1 else lines[-1]
    if quote == "'":
        return (len(last) - len(last.rstrip("'"))) % 2 == 1
    return last.endswith('"') and (len(last[:-1]) - len(last[:-1].rstrip("\\"))) % 2 == 0


def _joined_lines(lines: list[str]) -> str:
    """The lines of a string as one: line ends are blanks, or nothing; blank lines are line ends."""
    pieces = [lines[0]]
    ends = 0
    for line in lines[1:]:
        if not line:
            ends += 1
            continue
        if ends or lines[0][0] == "'" or not _is_continued(pieces[-1]):
            pieces += ["\n" * ends or " ", line]
        else:
            pieces[-1:] = [pieces[-1][:-1], line]
        ends = 0
    return "".join(pieces)


def _is_continued(line: str) -> bool:
    """True if a line's end is escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _quoted_value(text: str) -> Value:
    """The value between quotes."""
    if text[0] == '"':
        try:
            return str(json.loads(_escape(_unescape_blank, text.replace("\n", "\\n"))))
        except ValueError:
            raise CannotCompactError("an escape") from None
    match = _single(text)
    if match is None:
        raise CannotCompactError("a quote")
    return match[1].replace("''", "'")


def _unescape_blank(escape: re.Match[str]) -> str:
    """An escaped blank is a blank."""
    return " " if escape[0] == "\\ " else escape[0]
