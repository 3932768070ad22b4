"""Finds the line of each entry of a TOML text; the standard library's parser does not keep them."""

import re
import tomllib
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

#: Keys and list positions from the top, such as ``("models", 0, "price", "input")``.
Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\r]+ | \#[^\n]* )
    | (?P<newline> \n )
    | (?P<string>
        \"{3} (?: [^\\] | \\. )*? \"{3,5}(?!\") | '{3} .*? '{3,5}(?!')
        | " (?: [^"\\\n] | \\. )* " | ' [^'\n]* ' )
    | (?P<mark> [\[\]{}=,.] )
    | (?P<bare> [^\s\[\]{}=,.\#"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def line_numbers(text: str) -> dict[Path, int]:
    """The line, from 1, of every table, key and list element of a text that is valid TOML.

    A table that several headers or dotted keys open stands where it is first named.
    """
    scan = _Scan(text)
    scan.document()
    return scan.lines


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind != "blank":
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")


class _Scan:
    """One pass over a text; ``lines`` fills as it goes."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._tokens = deque(_tokens(text))
        self._last: dict[Path, int] = {}  # arrays of tables: position of the newest element

    def document(self) -> None:
        table: Path = ()
        while self._tokens:
            if self._next_is("\n"):
                self._tokens.popleft()
            elif self._next_is("["):
                table = self._header()
            else:
                self._pair(table)

    def _next_is(self, *texts: str) -> bool:
        return bool(self._tokens) and self._tokens[0].text in texts

    def _skip(self, *texts: str) -> None:
        while self._next_is(*texts):
            self._tokens.popleft()

    def _header(self) -> Path:
        line = self._tokens.popleft().line
        is_array = self._next_is("[")
        self._skip("[")
        *parents, name = self._keys()
        self._skip("]")
        path: Path = ()
        for key in parents:
            path = self._newest(self._name((*path, key), line))
        path = self._name((*path, name), line)
        if not is_array:
            return path
        self._last[path] = self._last.get(path, -1) + 1
        return self._name(self._newest(path), line)

    def _newest(self, path: Path) -> Path:
        return (*path, self._last[path]) if path in self._last else path

    def _name(self, path: Path, line: int) -> Path:
        self.lines.setdefault(path, line)
        return path

    def _keys(self) -> list[str]:
        keys = [_key(self._tokens.popleft())]
        while self._next_is("."):
            self._tokens.popleft()
            keys.append(_key(self._tokens.popleft()))
        return keys

    def _pair(self, table: Path) -> None:
        line = self._tokens[0].line
        path = table
        for key in self._keys():
            path = self._name((*path, key), line)
        self._skip("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._next_is("["):
            self._array(path)
        elif self._next_is("{"):
            self._inline(path)
        else:
            while self._tokens and not self._next_is("\n", ",", "]", "}"):
                self._tokens.popleft()

    def _array(self, path: Path) -> None:
        self._tokens.popleft()
        self._skip("\n")
        position = 0
        while not self._next_is("]"):
            self._value(self._name((*path, position), self._tokens[0].line))
            self._skip("\n", ",")
            position += 1
        self._tokens.popleft()

    def _inline(self, path: Path) -> None:
        self._tokens.popleft()
        while not self._next_is("}"):
            self._pair(path)
            self._skip(",")
        self._tokens.popleft()


def _key(token: _Token) -> str:
    """A key as the parser reads it, quotes and escapes undone."""
    if token.kind == "bare":
        return token.text
    key: str = tomllib.loads(f"key = {token.text}")["key"]
    return key
