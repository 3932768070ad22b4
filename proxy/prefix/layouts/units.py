"""A text in the units that planning compares: lines, and the sentences of long lines."""

import re
from collections.abc import Sequence
from functools import lru_cache
from io import StringIO
from itertools import islice
from typing import Final

#: Units a text is split into at most; what follows is one more.
LIMIT: Final = 4096
#: Characters above which a line is split into sentences.
LONG: Final = 200

#: Characters above which a line is one unit again.
WALL: Final = 65536

_KEPT: Final = 1000
_CUT: Final = "\0"
_ASCII_ENDS: Final = tuple((end, end + _CUT) for end in (". ", "! ", "? "))
_ENDS: Final = (*_ASCII_ENDS, *((end, end + _CUT) for end in "\u3002\uff01\uff1f"))
_FOUR = re.compile(r"(?:[\W_]*[^\W_]){4}")


def split_units(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """The text in units, whose concatenation it is; at most ``limit`` of them, none for ""."""
    lines = StringIO(text, newline="\n")
    found: list[str] = []
    for line in islice(lines, limit - 1):
        if len(line) <= LONG:
            found.append(line)
        else:
            found += _sentences(line)
            if len(found) > limit:
                break
    last = lines.read() if len(found) <= limit else ""
    found += _sentences(last) if last else ()
    if len(found) <= limit:
        return tuple(found)
    kept = found[: limit - 1]
    return (*kept, text[sum(map(len, kept)) :])


def _sentences(line: str) -> Sequence[str]:
    if not LONG < len(line) <= WALL or _CUT in line:
        return (line,)
    return _known(line) if len(line) <= _KEPT else _split(line)


def _split(line: str) -> Sequence[str]:
    for end, cut in _ASCII_ENDS if line.isascii() else _ENDS:
        line = line.replace(end, cut)
    found = line.split(_CUT)
    return found if found[-1] else found[:-1]


#: The same rules come with call after call: a few long lines are remembered, 16 MB at worst.
_known = lru_cache(2048)(_split)


def is_distinctive(unit: str) -> bool:
    """True if a unit is words enough to know a place by; a bullet or a fence is not."""
    return _FOUR.match(unit) is not None
