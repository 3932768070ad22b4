"""Parses TOML into values that know their line."""

import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from slo.toml.line_numbers import Path, line_numbers
from slo.toml.problems import InvalidFile, Problem

#: Field that names an element of an array in problems.
_LABEL_KEYS = ("id", "name")
_LABEL = re.compile(r"[A-Za-z0-9][!-~]{0,255}")
#: Dots in a key; the time that the standard library's parser takes grows with their square.
_MAX_DOTS: Final = 64
#: Strings and comments, whose dots are in no key; one that is not closed goes on to its end.
_OPAQUE: Final = re.compile(
    r"""
    \"{3} (?: [^\\] | \\. )*? (?: \"{3} | \Z ) | '{3} .*? (?: '{3} | \Z )
    | " (?: [^"\\\n] | \\. )* "? | ' [^'\n]* '? | \#[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
_KEY: Final = re.compile(r"[^,=\[\]{}\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value of a TOML text and where it stands.

    Attributes:
        value: A table as a dict of nodes, an array as a list of nodes, else what TOML says; what
            TOML calls a float is a Decimal, so that nothing is rounded before it is judged.
        line: From 1.
        name: Dotted, such as ``models.gpt-5.5.price``; "" for the whole text.
    """

    value: Any
    file: str
    line: int
    name: str

    def problem(self, what: str, fix: str, *, warning: bool = False) -> Problem:
        """This is wrong with it."""
        return Problem(
            file=self.file, line=self.line, where=self.name, what=what, fix=fix, warning=warning
        )

    def absent_entry(self, key: str) -> "Node":
        """An entry that the table does not have, as a place for problems."""
        name = f"{self.name}.{key}" if self.name else key
        return Node(value=None, file=self.file, line=self.line, name=name)


def decode_toml(raw: bytes, file: str) -> str:
    """The text of a file's bytes, its lines ended by line feeds alone.

    Raises:
        InvalidFile: If they are no UTF-8.
    """
    try:
        return raw.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{raw[error.start]:02x} stands here"
        raise InvalidFile(
            [Problem(file=file, line=line, where="", what=what, fix="save the file as UTF-8")]
        ) from None


def parse_toml(text: str, file: str) -> Node:
    """The text as a tree.

    Raises:
        InvalidFile: If it is no TOML, or has a key of more than 64 dots.
    """
    _refuse_long_keys(text, file)
    try:
        return _parse(text, file)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile([_syntax_problem(str(error), text, file)]) from None
    except RecursionError:
        what, fix = "is nested too deeply", "close the brackets, or write fewer levels"
    except (ValueError, ArithmeticError):  # Python reads integers of up to 4,300 digits
        what, fix = "has a number beyond all bounds", "write a number of a few digits"
    raise InvalidFile([Problem(file=file, line=1, where="", what=what, fix=fix)])


def _refuse_long_keys(text: str, file: str) -> None:
    """Refuse a key that the parser would take minutes for.

    Raises:
        InvalidFile: There is one.
    """
    bare = _OPAQUE.sub(lambda match: "\n" * match.group().count("\n"), text)
    keys = (key for key in _KEY.finditer(bare) if key.group().count(".") > _MAX_DOTS)
    key = next(keys, None)
    if key is not None:
        line = bare.count("\n", 0, key.start()) + 1
        what = f"is nested too deeply: a key has more than {_MAX_DOTS} dots"
        problem = Problem(file=file, line=line, where="", what=what, fix="write fewer levels")
        raise InvalidFile([problem])


def _parse(text: str, file: str) -> Node:
    value = tomllib.loads(text, parse_float=Decimal)
    places = line_numbers(text)

    def node(value: Any, path: Path, name: str) -> Node:  # noqa: ANN401 - whatever TOML can say
        if isinstance(value, dict):
            prefix = f"{name}." if name else ""
            value = {key: node(item, (*path, key), prefix + key) for key, item in value.items()}
        elif isinstance(value, list):
            value = [
                node(item, (*path, i), _element(name, i, item)) for i, item in enumerate(value)
            ]
        return Node(value=value, file=file, line=places.get(path, 1), name=name)

    return node(value, (), "")


def _element(name: str, position: int, value: object) -> str:
    """An array's element is named by its id or name, if it has one that can be printed."""
    table = value if isinstance(value, dict) else {}
    for key in _LABEL_KEYS:
        label = table.get(key)
        if isinstance(label, str) and _LABEL.fullmatch(label):
            return f"{name}.{label}"
    return f"{name}[{position}]"


def _syntax_problem(message: str, text: str, file: str) -> Problem:
    what, _, place = message.partition(" (at ")
    line = re.search(r"line (\d+)", place)
    return Problem(
        file=file,
        line=int(line.group(1)) if line else text.count("\n") + 1,
        where="",
        what=f"is not TOML: {what[:1].lower()}{what[1:]}",
        fix="fix the syntax on this line or just above",
    )
